//! The obstacles of a move, as one function of an operator's reads, for plans and before the first write of
//! each call (MIGRATE-ONE-LIST).

use super::evidence::{Contradiction, MoveId, MoveRecord, StageRead, agree};
use super::values::ValuesAt;
use super::{MovePhase, Side, Stage, Way};

/// A marker, compared with the move's marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MarkerStanding {
    /// No marker exists.
    Missing,
    /// The marker of this move.
    Own,
    /// The marker of the old side after this move.
    Retired,
    /// A marker of this move's name and direction, but another URL.
    Namesake,
    /// The content has moved on, by another move.
    MovedOn,
    /// The marker of another move, or of another retirement.
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
    /// Returns what it lacks, if anything.
    pub fn lacks(self) -> Option<&'static str> {
        match (self.on_old, self.on_new, self.member) {
            (true, true, true) => None,
            (true, true, false) => Some("no member yet"),
            (false, _, _) => Some("not connected to the old side"),
            (_, false, _) => Some("not connected to the new side"),
        }
    }
}

/// The report of a member, in its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MemberSays {
    /// The version of the stage that it has acknowledged.
    pub acknowledged: Option<u64>,
    /// The version of the stage that it knows, if it has stopped.
    pub knows: Option<u64>,
    /// The contradiction at which it has stopped.
    pub stopped: Option<Contradiction>,
}

impl MemberSays {
    /// Returns whether it may know a later stage than this version.
    pub fn is_ahead(self, version: Option<u64>) -> bool {
        self.acknowledged.max(self.knows) > version && version.is_some()
    }

    /// Returns whether it prevents each step from this version.
    pub fn is_in_the_way(&self, version: Option<u64>) -> bool {
        self.stopped.is_some() || self.is_ahead(version)
    }
}

/// The values on one side, and the side's abilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stored {
    /// It has values.
    pub any: bool,
    /// It has values that expire when unused.
    pub idle: bool,
    /// Operators can write values there.
    pub takes: bool,
    /// It can store values that expire when unused.
    pub takes_idle: bool,
}

/// All that an operator has read of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The stage.
    pub stage: Option<StageRead>,
    /// Whether the values of the new side are copies.
    pub copies: bool,
    /// The record of this move's name on the new side.
    pub record: Option<MoveRecord>,
    /// The markers of both sides, the old side's first.
    pub markers: [MarkerStanding; 2],
    /// The epochs of both stamps.
    pub epochs: [u16; 2],
    /// Whether the stamps have a layout with records.
    pub layouts: [bool; 2],
    /// Whether both sides list the same client.
    pub one_place: bool,
    /// Whether plain clients are connected to a shut side.
    pub outsiders: bool,
    /// Whether the old side has clients other than operators.
    pub left: bool,
    /// The participants.
    pub participants: Vec<TakesPart>,
    /// The members.
    pub members: Vec<MemberSays>,
    /// The values of both sides; `None` if not listed.
    pub stored: Option<[Stored; 2]>,
}

/// The wanted call of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// The next step, forward or back.
    Step(Way),
    /// The end of a move that is done.
    Finish,
}

/// An obstacle of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Obstacle {
    /// The two sides contradict each other.
    Contradicts(Contradiction),
    /// A member has stopped, or knows a later stage.
    MemberAhead,
    /// Both sides are one place.
    OnePlace,
    /// Plain clients are connected.
    Outsiders,
    /// Clients are connected to the old side.
    StillConnected,
    /// A side has another marker.
    Marked(Side),
    /// The marker of a side, or its epoch, is missing.
    MarkerLost(Side),
    /// The move is done, but its new side is still shut.
    NotOpened,
    /// A side's layout has no records of moves.
    Layout(Side),
    /// The tokens have no epochs left.
    NoEpochs,
    /// No participant is connected.
    NobodyTakesPart,
    /// A participant is on one side only, or is not a member.
    Apart,
    /// The new side has values that are not copies.
    ValuesThere,
    /// This side lacks the capability for the values in use.
    ValuesStay(Side, &'static str),
}

/// The restoration of a side that has lost data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repair {
    /// Restore nothing.
    Nothing,
    /// Write this record, and then its [stage](MoveRecord::whole), with copies or without.
    Stage(MoveRecord, bool),
    /// Write this record.
    Record(MoveRecord),
    /// Write nothing: the old side may have the only copy of the values (MIGRATE-REPAIR-KEEPS).
    OnlyCopy(Contradiction),
}

/// Returns the shut sides, the new side first.
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

    /// Returns the record of a change that is announced, but not made.
    pub fn announced(&self) -> Option<MoveRecord> {
        self.record.filter(|record| self.stage.is_some_and(|read| record.is_pending(read)))
    }

    /// Returns the contradiction between stage and record, if any.
    pub fn contradiction(&self) -> Option<Contradiction> {
        match (self.stage, self.record) {
            // Until the old side is retired, a move that is done has a stage.
            (None, Some(MoveRecord { to: Some(MovePhase::Done), .. })) => {
                (self.markers[0] != MarkerStanding::Retired).then_some(Contradiction::StageLost)
            }
            _ => agree(self.stage, self.record).err(),
        }
    }

    /// Returns whether the new side has lost the values, but the old side has earlier ones.
    pub fn has_only_copy(&self) -> bool {
        use Contradiction::{RecordLost, RecordWentBack};
        let is_new_side = matches!(self.contradiction(), Some(RecordLost | RecordWentBack));
        let has_copies = self.stored.is_some_and(|stored| stored[Side::Old as usize].any);
        is_new_side && self.values().side() == Side::New && has_copies
    }

    /// Returns the needed restoration; the values were listed. `id`: the identity of a restored stage, unless
    /// another repair has recorded one.
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
            // The old side has lost a stage that members know.
            (None, Some(record), Some(read)) if self.members.iter().any(is_ahead) => {
                let phase = self.announced().map_or(read.stage.phase, MoveRecord::restores);
                let epoch = record.epoch.max(read.stage.epoch);
                self.restored_stage(MoveRecord { epoch, ..record }, phase, id)
            }
            _ => Repair::Nothing,
        }
    }

    fn restored_stage(&self, record: MoveRecord, phase: MovePhase, id: MoveId) -> Repair {
        // Another repair has written the record, but not yet the stage.
        let is_repaired = record.over == 0
            && Some(record.from) == record.to
            && self.stage.is_none_or(|read| read.id != record.id);
        let id = if is_repaired { record.id } else { id };
        let epoch = record.epoch.max(self.epochs[phase.token() as usize]);
        let values = phase.token().into();
        // If the old side has no values, the new side may have the only copy.
        let has_values = self.stored.is_some_and(|stored| stored[Side::Old as usize].any);
        let copies = self.copies || phase != MovePhase::Old && has_values;
        Repair::Stage(MoveRecord { id, from: phase, to: Some(phase), values, over: 0, epoch }, copies)
    }

    /// Returns the obstacles of a call, in order.
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
                // Otherwise a call with a wrong name or URL would find nothing left.
                MarkerStanding::Other | MarkerStanding::MovedOn => self.stage.is_none(),
                MarkerStanding::Missing | MarkerStanding::Own | MarkerStanding::Retired => false,
            };
            list.extend(is_other.then_some(Obstacle::Marked(side)));
        }
        // Plain clients would give tokens below earlier ones.
        let is_below = self.stage.is_some_and(|read| self.epochs[0] < read.stage.epoch);
        list.extend(is_below.then_some(Obstacle::MarkerLost(Side::Old)));
        list.extend(self.member_ahead());
    }

    fn against_step(&self, way: Way, list: &mut Vec<Obstacle>) {
        for side in Side::BOTH {
            match self.markers[side as usize] {
                MarkerStanding::Own => {}
                // The server has lost it together with the record.
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

    /// Adds the values that cannot leave, or that a copy would replace (MIGRATE-VALUES-EMPTY-TARGET).
    fn against_values(&self, from: Side, list: &mut Vec<Obstacle>) {
        let Some(stored) = self.stored else { return };
        let (of, there) = (stored[from as usize], stored[from.other() as usize]);
        let stay = |side, lacks| Obstacle::ValuesStay(side, lacks);
        // The copy is written there. Here values are deleted at the end, or written on the way back.
        let unable = [(from.other(), there), (from, of)].into_iter().find(|(_, of)| !of.takes);
        list.extend(unable.filter(|_| of.any).map(|(side, _)| stay(side, "held_writes")));
        list.extend((of.idle && !there.takes_idle).then(|| stay(from.other(), "idle_cells")));
        let replaces = from == Side::Old && there.any && !self.copies;
        list.extend(replaces.then_some(Obstacle::ValuesThere));
    }
}

#[cfg(test)]
mod tests;
