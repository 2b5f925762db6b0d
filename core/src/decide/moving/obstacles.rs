//! The obstacles of a move, as one function of the reads of an operator. A plan shows the
//! list, and each call asks it before its first write (MIGRATE-ONE-LIST).

use super::evidence::{Contradiction, MoveId, MoveRecord, StageRead, agree};
use super::values::ValuesAt;
use super::{MovePhase, Side, Stage, Way};

/// The marker that an operator finds on a side, compared with the marker of its move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MarkerStanding {
    /// The side has no marker.
    Missing,
    /// The marker of this move.
    Own,
    /// The marker of a side that this move has retired.
    Retired,
    /// The marker of a move with this name and direction, and another URL.
    Namesake,
    /// The marker of a namespace whose content has moved on since, by another move.
    MovedOn,
    /// The marker of another move, or of a namespace that was retired otherwise.
    Other,
}

/// The sides that list a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TakesPart {
    /// It is connected to the old side.
    pub on_old: bool,
    /// It is connected to the new side.
    pub on_new: bool,
    /// It is a member.
    pub member: bool,
}

impl TakesPart {
    /// Returns what keeps it from taking part on both sides, if anything does.
    pub fn lacks(self) -> Option<&'static str> {
        match (self.on_old, self.on_new, self.member) {
            (true, true, true) => None,
            (true, true, false) => Some("no member yet"),
            (false, _, _) => Some("not connected to the old side"),
            (_, false, _) => Some("not connected to the new side"),
        }
    }
}

/// The report of a member in its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MemberSays {
    /// The version of the stage that it has acknowledged.
    pub acknowledged: Option<u64>,
    /// The version of the stage that it knows, if it reports that without an acknowledgement.
    pub knows: Option<u64>,
    /// The contradiction at which it has stopped.
    pub stopped: Option<Contradiction>,
}

impl MemberSays {
    /// Returns whether this member may know a later stage than the one of this version.
    pub fn is_ahead(self, version: Option<u64>) -> bool {
        self.acknowledged.max(self.knows) > version && version.is_some()
    }

    /// Returns whether this member keeps an operator from each step from the stage of this version.
    pub fn is_in_the_way(&self, version: Option<u64>) -> bool {
        self.stopped.is_some() || self.is_ahead(version)
    }
}

/// The values on one side, and the abilities of the side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stored {
    /// It has values.
    pub any: bool,
    /// It has values that expire when they are unused.
    pub idle: bool,
    /// An operator can write values there.
    pub takes: bool,
    /// It can store values that expire when they are unused.
    pub takes_idle: bool,
}

/// Everything that an operator has read of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The stage.
    pub stage: Option<StageRead>,
    /// Whether the values of the new side are copies of the old side's.
    pub copies: bool,
    /// The record of this move's name on the new side.
    pub record: Option<MoveRecord>,
    /// The markers of the old side and of the new side.
    pub markers: [MarkerStanding; 2],
    /// The epochs of both stamps.
    pub epochs: [u16; 2],
    /// Whether the stamps have a layout with records.
    pub layouts: [bool; 2],
    /// Whether both sides list the same client: they are one place.
    pub one_place: bool,
    /// Whether plain clients are connected to a side that is shut in this phase.
    pub outsiders: bool,
    /// Whether clients other than operators are connected to the old side.
    pub left: bool,
    /// The participants.
    pub participants: Vec<TakesPart>,
    /// The members.
    pub members: Vec<MemberSays>,
    /// The values of the old side and of the new side; `None` if they were not listed.
    pub stored: Option<[Stored; 2]>,
}

/// The call that an operator is to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// The next step, forward or back.
    Step(Way),
    /// The end of a move that is done.
    Finish,
}

/// A thing that is in the way of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Obstacle {
    /// The two sides contradict each other.
    Contradicts(Contradiction),
    /// A member has stopped at a contradiction, or knows a later stage than the current one.
    MemberAhead,
    /// Both sides are one place.
    OnePlace,
    /// Plain clients are connected.
    Outsiders,
    /// Clients are connected to the old side.
    StillConnected,
    /// A side has another marker.
    Marked(Side),
    /// The marker of a side is missing, or its epoch.
    MarkerLost(Side),
    /// The new side of a move that is done is shut.
    NotOpened,
    /// The stamp of a side has a layout without records.
    Layout(Side),
    /// The tokens have no epochs left.
    NoEpochs,
    /// No participant is connected.
    NobodyTakesPart,
    /// A participant is connected to one side only, or has not joined the members.
    Apart,
    /// The new side has other values than copies.
    ValuesThere,
    /// Values are in use that this side cannot take: it lacks this capability.
    ValuesStay(Side, &'static str),
}

/// The restoration of a side that has lost data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repair {
    /// Nothing is to be restored.
    Nothing,
    /// Write this record, and then the [stage](MoveRecord::whole) that it names, with or without copies on the new
    /// side.
    Stage(MoveRecord, bool),
    /// Write this record.
    Record(MoveRecord),
    /// The new side has lost the values, and the old side may have the only copy: nothing is written
    /// (MIGRATE-REPAIR-KEEPS).
    OnlyCopy(Contradiction),
}

/// Returns the sides that are shut for plain clients in this phase, the new side first.
pub fn shut_in(phase: MovePhase) -> &'static [Side] {
    match phase {
        MovePhase::Done => &[Side::Old],
        _ => &[Side::New, Side::Old],
    }
}

impl Found {
    /// Returns the phase of the stage; *Old* without one.
    pub fn phase(&self) -> MovePhase {
        self.stage.map_or(MovePhase::Old, |read| read.stage.phase)
    }

    /// Returns the side of the values.
    pub fn values(&self) -> ValuesAt {
        self.stage.map_or(ValuesAt::Old, |read| read.values)
    }

    /// Returns the record of an announced change of the stage that was not made yet.
    pub fn announced(&self) -> Option<MoveRecord> {
        self.record.filter(|record| self.stage.is_some_and(|read| record.is_pending(read)))
    }

    /// Returns the contradiction between stage and record, if there is one.
    pub fn contradiction(&self) -> Option<Contradiction> {
        match (self.stage, self.record) {
            // A move that is done, whose old side is not retired, has its stage.
            (None, Some(MoveRecord { to: Some(MovePhase::Done), .. })) => {
                (self.markers[0] != MarkerStanding::Retired).then_some(Contradiction::StageLost)
            }
            _ => agree(self.stage, self.record).err(),
        }
    }

    /// Returns whether the new side has lost the values, and the old side still has them from before.
    pub fn has_only_copy(&self) -> bool {
        use Contradiction::{RecordLost, RecordWentBack};
        let is_new_side = matches!(self.contradiction(), Some(RecordLost | RecordWentBack));
        let has_copies = self.stored.is_some_and(|stored| stored[Side::Old as usize].any);
        is_new_side && self.values().side() == Side::New && has_copies
    }

    /// Returns the restoration that the move needs. `id`: the identity that a restored stage gets, unless another
    /// repair has written one into the record. The values were listed.
    pub fn repair(&self, id: MoveId) -> Repair {
        use Contradiction::{StageLost, StageWentBack};
        let is_ahead = |says: &MemberSays| says.is_ahead(self.version());
        match (self.contradiction(), self.record, self.stage) {
            (Some(StageLost | StageWentBack), Some(record), _) => {
                self.restored_stage(record, record.restores(), id)
            }
            (Some(contradiction), ..) if self.has_only_copy() => Repair::OnlyCopy(contradiction),
            (Some(_), _, Some(read)) => {
                let StageRead { id, version: over, stage: Stage { phase, epoch }, values } = read;
                Repair::Record(MoveRecord { id, from: phase, to: Some(phase), values, over, epoch })
            }
            // Members know a later stage, which the old side has lost.
            (None, Some(record), Some(read)) if self.members.iter().any(is_ahead) => {
                let phase = self.announced().map_or(read.stage.phase, MoveRecord::restores);
                let epoch = record.epoch.max(read.stage.epoch);
                self.restored_stage(MoveRecord { epoch, ..record }, phase, id)
            }
            _ => Repair::Nothing,
        }
    }

    fn restored_stage(&self, record: MoveRecord, phase: MovePhase, id: MoveId) -> Repair {
        // The record of a repair that has not written the stage yet.
        let is_repaired = record.over == 0
            && Some(record.from) == record.to
            && self.stage.is_none_or(|read| read.id != record.id);
        let id = if is_repaired { record.id } else { id };
        let epoch = record.epoch.max(self.epochs[phase.token() as usize]);
        let values = phase.token().into();
        // An old side without values may have lost them: then the new side may have the only copy.
        let has_values = self.stored.is_some_and(|stored| stored[Side::Old as usize].any);
        let copies = self.copies || phase != MovePhase::Old && has_values;
        Repair::Stage(MoveRecord { id, from: phase, to: Some(phase), values, over: 0, epoch }, copies)
    }

    /// Returns the obstacles of a call, the first one first. An empty list lets it write.
    pub fn obstacles(&self, wanted: Wanted) -> Vec<Obstacle> {
        let mut list: Vec<_> = self.contradiction().map(Obstacle::Contradicts).into_iter().collect();
        match (wanted, self.phase()) {
            (Wanted::Step(Way::Forward), MovePhase::Old) => self.against_begin(&mut list),
            (Wanted::Step(Way::Back), MovePhase::Old) => self.against_give_up(&mut list),
            (Wanted::Step(_), MovePhase::Done) => self.against_opening(&mut list),
            (Wanted::Step(way), _) => self.against_step(way, &mut list),
            (Wanted::Finish, _) => {
                self.against_opening(&mut list);
                list.extend((self.left && self.stage.is_some()).then_some(Obstacle::StillConnected));
            }
        }
        list
    }

    fn version(&self) -> Option<u64> {
        self.stage.map(|read| read.version)
    }

    fn member_ahead(&self) -> Option<Obstacle> {
        let is_in_the_way = self.members.iter().any(|member| member.is_in_the_way(self.version()));
        is_in_the_way.then_some(Obstacle::MemberAhead)
    }

    fn nobody(&self) -> Option<Obstacle> {
        (self.members.is_empty() && self.participants.is_empty()).then_some(Obstacle::NobodyTakesPart)
    }

    fn against_begin(&self, list: &mut Vec<Obstacle>) {
        list.extend(self.one_place.then_some(Obstacle::OnePlace));
        for side in Side::BOTH {
            let at = side as usize;
            let may_follow = matches!(self.markers[at], MarkerStanding::Missing | MarkerStanding::Own);
            list.extend((!may_follow).then_some(Obstacle::Marked(side)));
            list.extend((!self.layouts[at]).then_some(Obstacle::Layout(side)));
        }
        list.extend(self.outsiders.then_some(Obstacle::Outsiders));
        list.extend(self.member_ahead());
        list.extend(self.nobody());
        // From the first stage on, the step waits for them.
        let apart = self.stage.is_none() && self.participants.iter().any(|of| of.lacks().is_some());
        list.extend(apart.then_some(Obstacle::Apart));
        list.extend((!Stage::has_epochs(self.epochs[0], self.epochs[1])).then_some(Obstacle::NoEpochs));
        self.against_values(Side::Old, list);
    }

    fn against_give_up(&self, list: &mut Vec<Obstacle>) {
        for side in Side::BOTH {
            let is_other = match self.markers[side as usize] {
                MarkerStanding::Namesake => true,
                // Otherwise a call with other sides or another name would report that nothing is left.
                MarkerStanding::Other | MarkerStanding::MovedOn => self.stage.is_none(),
                MarkerStanding::Missing | MarkerStanding::Own | MarkerStanding::Retired => false,
            };
            list.extend(is_other.then_some(Obstacle::Marked(side)));
        }
        // Plain clients would give tokens that are lower than earlier ones.
        let is_below = self.stage.is_some_and(|read| self.epochs[0] < read.stage.epoch);
        list.extend(is_below.then_some(Obstacle::MarkerLost(Side::Old)));
        list.extend(self.member_ahead());
    }

    fn against_step(&self, way: Way, list: &mut Vec<Obstacle>) {
        for side in Side::BOTH {
            match self.markers[side as usize] {
                MarkerStanding::Own => {}
                // Its server has lost it together with the record.
                MarkerStanding::Missing if side == Side::New && !list.is_empty() => {}
                MarkerStanding::Missing => list.push(Obstacle::MarkerLost(side)),
                _ => list.push(Obstacle::Marked(side)),
            }
        }
        list.extend(self.outsiders.then_some(Obstacle::Outsiders));
        list.extend(self.member_ahead());
        let forward = way == Way::Forward;
        list.extend(self.nobody().filter(|_| forward));
        let leave = self.stage.is_some_and(|read| read.whole().values_leave(way));
        if let Some(from) = self.values().open().filter(|_| leave) {
            self.against_values(from, list);
        }
    }

    fn against_opening(&self, list: &mut Vec<Obstacle>) {
        match self.markers[0] {
            MarkerStanding::Missing if self.stage.is_some() => list.push(Obstacle::MarkerLost(Side::Old)),
            MarkerStanding::Missing | MarkerStanding::Own | MarkerStanding::Retired => {}
            _ => list.push(Obstacle::Marked(Side::Old)),
        }
        match self.markers[1] {
            MarkerStanding::Own => list.push(Obstacle::NotOpened),
            MarkerStanding::Namesake => list.push(Obstacle::Marked(Side::New)),
            // Another move has begun from there.
            _ => {}
        }
        list.extend(self.member_ahead());
    }

    /// The values that keep a side from leaving, and the values that a copy would replace
    /// (MIGRATE-VALUES-EMPTY-TARGET).
    fn against_values(&self, from: Side, list: &mut Vec<Obstacle>) {
        let Some(stored) = self.stored else { return };
        let (of, there) = (stored[from as usize], stored[from.other() as usize]);
        let stay = |side, lacks| Obstacle::ValuesStay(side, lacks);
        // They are copied to the other side. Here they are deleted at the end, or written if the move is taken back.
        let unable = [(from.other(), there), (from, of)].into_iter().find(|(_, of)| !of.takes);
        list.extend(unable.filter(|_| of.any).map(|(side, _)| stay(side, "held_writes")));
        list.extend((of.idle && !there.takes_idle).then(|| stay(from.other(), "idle_cells")));
        let replaces = from == Side::Old && there.any && !self.copies;
        list.extend(replaces.then_some(Obstacle::ValuesThere));
    }
}

#[cfg(test)]
mod tests;
