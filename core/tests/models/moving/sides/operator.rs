use latchwork_core::backend::decide::moving::evidence::{Contradiction, MoveId, MoveRecord, StageRead};
use latchwork_core::backend::decide::moving::obstacles::{
    Found, MarkerStanding, MemberSays, Obstacle, Stored, TakesPart, Wanted,
};
use latchwork_core::backend::decide::moving::values::{ValuesAt, WholeStage, WholeStep};
use latchwork_core::backend::decide::moving::{MovePhase, Side, Stage, Way};

use super::{Ends, Fault, Places, Staged, State, at};

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
    /// It marks the record as given up, and deletes the stage.
    Deletes(Staged),
    Clears(Staged),
}

fn whole(staged: Staged) -> WholeStage {
    WholeStage { stage: staged.read.stage, values: staged.values }
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
            values: stage.map_or(ValuesAt::Old, |staged| staged.values),
            copies: stage.is_some_and(|staged| staged.copies),
            record: new.record,
            markers,
            epochs: [0; 2],
            layouts: [true; 2],
            outsiders: false,
            left: false,
            participants: participants.collect(),
            members: old.members.iter().flatten().copied().collect(),
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
        let pending = record.filter(|record| record.is_pending(staged.read));
        let way = match pending {
            Some(record) if !self.has(Fault::CompletesNothing) => match record.to {
                Some(to) if to > staged.read.stage.phase => Way::Forward,
                _ => Way::Back,
            },
            _ => way,
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
        state.operators[who] = match whole(staged).step(&version, acknowledged, way) {
            WholeStep::Write(next) if next.stage.phase == staged.read.stage.phase => {
                Doing::Writes(staged, next)
            }
            WholeStep::Write(next) => Doing::Announces(staged, next, found.record),
            WholeStep::Mirror { from, then } => {
                // An announced switch was copied before.
                if pending.is_none() || self.has(Fault::CompletesNothing) {
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
                    writes(state, ends.0, staged, whole(staged));
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
        let read = StageRead { id, version, stage };
        let staged = Staged { read, values: ValuesAt::Old, copies: false };
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
        let StageRead { id, version, stage } = staged.read;
        let (from, to) = (stage.phase, Some(next.stage.phase));
        let record = MoveRecord { id, from, to, over: version, epoch: next.stage.epoch };
        if !self.has(Fault::RecordsNothing) && read != Some(record) {
            state.write(ends.1, |data| data.record = Some(record));
        }
        Doing::Writes(staged, next)
    }

    /// Restores the side that contradicts the other one. All writes are one step.
    pub(super) fn repairs(&self, state: &mut State, who: usize) {
        let ends = self.operators[who];
        let found = self.found(state, ends);
        let ahead = found.members.iter().filter_map(|member| member.acknowledged.max(member.knows)).max();
        match (found.contradiction(), found.record, state.servers[ends.0].now.stage) {
            (Some(Contradiction::StageLost | Contradiction::StageWentBack), Some(record), _) => {
                restores(state, ends, record);
            }
            (Some(_), _, Some(staged)) => {
                let has_values = found.stored.is_some_and(|stored| stored[0].any) || state.latest.is_none();
                let keeps = staged.values.side() == Side::Old || !has_values;
                if keeps || self.has(Fault::RepairsOverLoss) {
                    let StageRead { id, version, stage } = staged.read;
                    let (from, to) = (stage.phase, Some(stage.phase));
                    let record = MoveRecord { id, from, to, over: version, epoch: stage.epoch };
                    state.write(ends.1, |data| data.record = Some(record));
                }
            }
            // Members know a later stage, which the old side has lost.
            (None, Some(record), Some(staged)) if ahead > Some(staged.read.version) => {
                let phase = staged.read.stage.phase;
                let announced = record.to.filter(|_| record.is_pending(staged.read));
                let phase = announced.map_or(phase, |to| to.max(phase));
                let epoch = record.epoch.max(staged.read.stage.epoch);
                restores(state, ends, MoveRecord { from: phase, to: Some(phase), epoch, ..record });
            }
            _ => {}
        }
    }
}

/// Writes the stage of the latest phase of a record, with another identity. The members report again.
fn restores(state: &mut State, ends: Ends, record: MoveRecord) {
    state.ids += 1;
    let (reached, id) = (record.reached(), MoveId::new(state.ids));
    let epoch = record.epoch.max(state.epoch);
    state.write(ends.1, |data| {
        data.record = Some(MoveRecord { id, from: reached, to: Some(reached), over: 0, epoch });
    });
    let version = state.servers[ends.0].now.versions + 1;
    let read = StageRead { id, version, stage: Stage { phase: reached, epoch } };
    let staged = Staged { read, values: reached.token().into(), copies: false };
    state.write(ends.0, |data| {
        (data.stage, data.versions, data.leaves_to) = (Some(staged), version, Some(ends.1));
        data.members.iter_mut().flatten().for_each(|member| *member = MemberSays::default());
    });
    state.writes += 1;
}

fn given_up(record: MoveRecord) -> MoveRecord {
    MoveRecord { to: None, ..record }
}

fn writes(state: &mut State, server: usize, over: Staged, next: WholeStage) {
    if state.servers[server].now.stage != Some(over) {
        return;
    }
    let version = state.servers[server].now.versions + 1;
    let read = StageRead { id: over.read.id, version, stage: next.stage };
    let copies = over.copies || next.values == ValuesAt::LeavingOld;
    let staged = Staged { read, values: next.values, copies };
    state.write(server, |data| (data.stage, data.versions) = (Some(staged), version));
    state.writes += 1;
}
