use latchwork_core::backend::decide::moving::evidence::{MoveId, MoveRecord, StageRead};
use latchwork_core::backend::decide::moving::obstacles::{
    Found, MarkerStanding, MemberSays, Obstacle, Repair, Stored, TakesPart, Wanted,
};
use latchwork_core::backend::decide::moving::values::{ValuesAt, WholeStage, WholeStep};
use latchwork_core::backend::decide::moving::{MovePhase, Side, Stage, Way};

use super::{Data, Ends, Fault, Member, Places, Staged, State, at};

/// The next request of an operator, which may stop before any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Doing {
    Idle,
    Creates,
    /// It marks the sides, and writes the first record.
    Prepares(StageRead),
    /// It writes the record over the record that it has read, and then the stage over this one.
    Announces(Staged, WholeStage, Option<MoveRecord>),
    Writes(Staged, WholeStage),
    /// It repairs, and looks again after its first look.
    Looks,
    /// It writes this record over the one that it has read, and then a restored stage over this one.
    Restores(Option<Staged>, Option<MoveRecord>, Repair),
    RestoresStage(Option<Staged>, MoveRecord, bool),
    /// It marks the record as given up, and deletes the stage.
    Deletes(Staged),
    Clears(Staged),
}

impl Places {
    fn found(&self, state: &State, ends: Ends) -> Found {
        let (old, new) = (&state.servers[ends.0].now, &state.servers[ends.1].now);
        let stage = old.stage;
        let markers = [
            match old.leaves_to {
                None => MarkerStanding::Missing,
                Some(to) if to == ends.1 => MarkerStanding::Own,
                Some(_) => MarkerStanding::Namesake,
            },
            match new.record {
                Some(record) if record.to.is_some() => MarkerStanding::Own,
                _ => MarkerStanding::Missing,
            },
        ];
        let participants = self.participants.iter().enumerate().filter_map(|(who, (from, to))| {
            let on = |server: usize| server == *from || server == *to;
            let takes =
                TakesPart { on_old: on(ends.0), on_new: on(ends.1), member: old.members[who].is_some() };
            (state.clients[who].came && (takes.on_old || takes.on_new)).then_some(takes)
        });
        let has = |server: usize| state.latest.is_none_or(|latest| latest[server]);
        let stored = |any| Stored { any, idle: false, takes: true, takes_idle: true };
        Found {
            stage: stage.map(|staged| staged.read),
            copies: stage.is_some_and(|staged| staged.copies),
            record: new.record,
            markers,
            epochs: [state.epoch; 2],
            layouts: [true; 2],
            one_place: false,
            outsiders: false,
            left: false,
            participants: participants.collect(),
            members: old.members.iter().flatten().map(|member| says_of(member, stage)).collect(),
            stored: Some([stored(has(ends.0)), stored(has(ends.1) && !has(ends.0))]),
        }
    }

    fn is_let(&self, found: &Found, wanted: Wanted) -> bool {
        let passed = |obstacle: &Obstacle| match obstacle {
            // These are in the model of the gate.
            Obstacle::MarkerLost(_) | Obstacle::NotOpened => true,
            Obstacle::Contradicts(_) | Obstacle::MemberAhead => self.has(Fault::RecordsNothing),
            _ => false,
        };
        found.obstacles(wanted).iter().all(passed)
    }

    pub(super) fn walks(&self, state: &mut State, who: usize, way: Way) {
        let ends = self.operators[who];
        let found = self.found(state, ends);
        if !self.is_let(&found, Wanted::Step(way)) {
            return;
        }
        let Some(staged) = state.servers[ends.0].now.stage else {
            if way == Way::Forward {
                state.operators[who] = Doing::Creates;
            }
            return;
        };
        let record = found.record.filter(|record| record.id == staged.read.id);
        if record.is_none() {
            if way == Way::Forward && staged.read.stage.phase == MovePhase::Old {
                state.operators[who] = Doing::Prepares(staged.read);
            }
            return;
        }
        let pending = found.announced().filter(|_| !self.has(Fault::CompletesNothing));
        let way = match pending {
            Some(MoveRecord { to: None, .. }) => Way::Back,
            Some(record) => staged.read.whole().way_to(record.whole()).unwrap_or(way),
            None => way,
        };
        let version = staged.read.version;
        let acknowledged: Vec<_> = found.members.iter().map(|member| member.acknowledged).collect();
        if way == Way::Back && staged.read.stage.phase == MovePhase::Old {
            if acknowledged.iter().all(|acknowledged| *acknowledged == Some(version)) {
                state.operators[who] = match staged.copies {
                    true => Doing::Clears(staged),
                    false => Doing::Deletes(staged),
                };
            }
            return;
        }
        state.operators[who] = match staged.read.whole().step(&version, acknowledged, way) {
            WholeStep::Write(next)
                if next.stage.phase == staged.read.stage.phase && self.has(Fault::RecordsPhasesOnly) =>
            {
                Doing::Writes(staged, next)
            }
            WholeStep::Write(next) => Doing::Announces(staged, next, found.record),
            WholeStep::Mirror { from, then } => {
                // An announced switch was copied before.
                if pending.is_none() {
                    self.copies(state, ends, from);
                }
                Doing::Announces(staged, then, found.record)
            }
            _ => Doing::Idle,
        };
    }

    fn copies(&self, state: &mut State, ends: Ends, from: Side) {
        let (source, target) = (at(ends, from), at(ends, from.other()));
        if let Some(latest) = &mut state.latest {
            latest[target] = latest[source];
            state.lost_value |= *latest == [false; 3];
        }
    }

    pub(super) fn operator(&self, state: &mut State, who: usize) {
        let ends = self.operators[who];
        state.operators[who] = match state.operators[who] {
            Doing::Idle => Doing::Idle,
            Doing::Creates => self.creates(state, ends),
            Doing::Prepares(read) => self.prepares(state, ends, read),
            Doing::Announces(staged, next, record) => self.announces(state, ends, staged, next, record),
            Doing::Writes(staged, next) => {
                writes(state, ends.0, staged, next);
                Doing::Idle
            }
            Doing::Looks => self.looks(state, who),
            Doing::Restores(over, read, repair) => restores(state, ends, over, read, repair),
            Doing::RestoresStage(over, record, copies) => {
                restores_stage(state, ends, over, record, copies);
                Doing::Idle
            }
            Doing::Deletes(staged) => {
                if state.servers[ends.0].now.stage == Some(staged) {
                    state.write(ends.1, |data| data.record = data.record.map(given_up));
                    state.write(ends.0, |data| (data.stage, data.leaves_to) = (None, None));
                    state.writes += 1;
                }
                Doing::Idle
            }
            Doing::Clears(staged) => {
                if state.servers[ends.0].now.stage == Some(staged) {
                    writes(state, ends.0, staged, staged.read.whole());
                    if let Some(latest) = &mut state.latest {
                        latest[ends.1] = false;
                        state.lost_value |= *latest == [false; 3];
                    }
                    if let Some(staged) = &mut state.servers[ends.0].now.stage {
                        staged.copies = false;
                    }
                }
                Doing::Idle
            }
        };
    }

    fn creates(&self, state: &mut State, ends: Ends) -> Doing {
        if state.servers[ends.0].now.stage.is_some() {
            return Doing::Idle;
        }
        state.ids += 1;
        state.writes += 1;
        let (id, stage) = (MoveId::new(state.ids), Stage::before(state.epoch));
        let version = state.servers[ends.0].now.versions + 1;
        let staged = Staged { read: StageRead { id, version, stage, values: ValuesAt::Old }, copies: false };
        let read = staged.read;
        state.write(ends.0, |data| (data.stage, data.versions) = (Some(staged), version));
        Doing::Prepares(read)
    }

    fn prepares(&self, state: &mut State, ends: Ends, read: StageRead) -> Doing {
        let leaves = state.servers[ends.0].now.leaves_to;
        let stands = state.servers[ends.0].now.stage.is_some_and(|staged| staged.read == read);
        let found = self.found(state, ends);
        let keeps = found.record.is_some_and(|record| record.is_under_way());
        if !stands || leaves.is_some_and(|to| to != ends.1) || keeps {
            return Doing::Idle;
        }
        state.write(ends.1, |data| data.record = Some(MoveRecord::prepared(read.id, read.stage.epoch)));
        state.write(ends.0, |data| data.leaves_to = Some(ends.1));
        Doing::Idle
    }

    fn announces(
        &self,
        state: &mut State,
        ends: Ends,
        staged: Staged,
        next: WholeStage,
        read: Option<MoveRecord>,
    ) -> Doing {
        let stands = state.servers[ends.0].now.stage == Some(staged);
        if !stands || state.servers[ends.1].now.record != read {
            return Doing::Idle;
        }
        let StageRead { id, version: over, stage, .. } = staged.read;
        let (from, to) = (stage.phase, Some(next.stage.phase));
        let record = MoveRecord { id, from, to, values: next.values, over, epoch: next.stage.epoch };
        if !self.has(Fault::RecordsNothing) && read != Some(record) {
            state.write(ends.1, |data| data.record = Some(record));
        }
        Doing::Writes(staged, next)
    }

    /// The first look of a repair, which refuses if the old side may have the only copy. The markers are in the
    /// model of the gate.
    pub(super) fn repairs(&self, state: &mut State, who: usize) {
        let mut found = self.found(state, self.operators[who]);
        found.stored = found.stored.filter(|_| !self.has(Fault::RepairsOverLoss));
        if !matches!(found.repair(MoveId::new(state.ids + 1)), Repair::OnlyCopy(_)) {
            state.operators[who] = Doing::Looks;
        }
    }

    /// The look by which a repair decides and writes.
    fn looks(&self, state: &State, who: usize) -> Doing {
        let ends = self.operators[who];
        let mut found = self.found(state, ends);
        let asks = !self.has(Fault::RepairsOverLoss) && !self.has(Fault::KeepsByTheFirstLook);
        found.stored = found.stored.filter(|_| asks);
        // Another operator that looks now takes another identity.
        match found.repair(MoveId::new(state.ids + 1 + ((who as u128) << 64))) {
            Repair::Nothing | Repair::OnlyCopy(_) => Doing::Idle,
            repair => Doing::Restores(state.servers[ends.0].now.stage, found.record, repair),
        }
    }
}

/// Writes the record over the one that was read.
fn restores(
    state: &mut State,
    ends: Ends,
    over: Option<Staged>,
    read: Option<MoveRecord>,
    repair: Repair,
) -> Doing {
    let (Repair::Stage(record, _) | Repair::Record(record)) = repair else { return Doing::Idle };
    if state.servers[ends.1].now.record != read {
        return Doing::Idle;
    }
    state.write(ends.1, |data| data.record = Some(record));
    match repair {
        Repair::Stage(_, copies) => {
            state.ids += 1;
            Doing::RestoresStage(over, record, copies)
        }
        _ => Doing::Idle,
    }
}

/// Writes the stage of a record over the one that was read.
fn restores_stage(state: &mut State, ends: Ends, over: Option<Staged>, record: MoveRecord, copies: bool) {
    let Data { stage, versions, .. } = &state.servers[ends.0].now;
    if *stage != over {
        return;
    }
    let (version, WholeStage { stage, values }) = (versions + 1, record.whole());
    let read = StageRead { id: record.id, version, stage, values };
    let staged = Staged { read, copies };
    state.write(ends.0, |data| {
        (data.stage, data.versions, data.leaves_to) = (Some(staged), version, Some(ends.1));
    });
    state.writes += 1;
}

/// The report of a member about the move of this stage.
fn says_of(member: &Member, stage: Option<Staged>) -> MemberSays {
    match member.id == stage.map(|staged| staged.read.id) {
        true => member.says,
        false => MemberSays { stopped: member.says.stopped, ..MemberSays::default() },
    }
}

fn given_up(record: MoveRecord) -> MoveRecord {
    MoveRecord { to: None, ..record }
}

fn writes(state: &mut State, server: usize, over: Staged, next: WholeStage) {
    if state.servers[server].now.stage != Some(over) {
        return;
    }
    let version = state.servers[server].now.versions + 1;
    let read = StageRead { id: over.read.id, version, stage: next.stage, values: next.values };
    let copies = over.copies || next.values == ValuesAt::LeavingOld;
    let staged = Staged { read, copies };
    state.write(server, |data| (data.stage, data.versions) = (Some(staged), version));
    state.writes += 1;
}
