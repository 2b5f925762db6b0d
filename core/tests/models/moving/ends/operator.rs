use latchwork_core::backend::decide::moving::{MovePhase, Side, Stage, Step as Decision, Way};

use super::state::{Cell, Entry, Mark, Stamp, State};
use super::{Ends, Step, record};

/// The next request of an operator, which may stop before any of them. "Version" means a version of the cell,
/// and "mark" a version of the stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Operator {
    Idle,
    /// It found no stage, and makes the cell.
    Creates,
    /// It writes the marker of the old side. The flag: it made the cell of this version.
    Marks(u8, bool),
    /// It lists the clients, and reads the acknowledgements.
    Lists(u8, bool),
    /// It records the epoch of the next stage, which it then writes over this version.
    Records(u8, Stage),
    Writes(u8, Stage),
    /// It has read this mark to give up, and reads the cell. The members have acknowledged this version, if
    /// there was a cell.
    ReadsToGiveUp(Option<u8>, u8),
    /// It deletes the cell over this version, and then lifts the marker over this mark.
    Deletes(u8, u8),
    Lifts(u8),
    /// It finishes: over this mark it writes a marker that refuses all clients.
    Retires(u8, u8),
    /// It lists the clients of the old side after the write of that marker.
    ListsTheLast(u8, u8),
    /// It found a client: it writes the stage again, and then admits clients again.
    WritesAnew(u8, u8),
    LetsIn(u8),
    /// It found no client: it writes the stage again, as if it deleted values, and then deletes the cell.
    Clears(u8),
    DeletesTheLast(u8),
}

impl State {
    fn writes_stage(&mut self, stage: Option<Stage>) {
        let (over, from) = (self.cell.version, self.cell.stage.map_or(MovePhase::Old, |stage| stage.phase));
        match stage {
            Some(_) if self.cell.stage.is_none() => {
                self.ids += 1;
                self.record = Some(record(self.ids, MovePhase::Old, Some(MovePhase::Old), 0));
            }
            Some(stage) if stage.phase != from => {
                self.record = Some(record(self.cell.id, from, Some(stage.phase), over));
            }
            // It is given up. The record of a move that is done remains.
            None if from == MovePhase::Old => self.record = Some(record(self.cell.id, from, None, over)),
            _ => {}
        }
        let id = if self.cell.stage.is_none() { self.ids } else { self.cell.id };
        self.cell = Cell { id, version: self.cell.version + 1, stage };
    }

    /// Returns whether the cell had this version.
    fn writes_over(&mut self, version: u8, stage: Option<Stage>) -> bool {
        let stands = self.cell.version == version && self.cell.stage.is_some();
        if stands {
            self.writes_stage(stage);
        }
        stands
    }

    fn marks(&mut self, mark: Mark) {
        self.stamp = Stamp { version: self.stamp.version + 1, mark, ..self.stamp };
    }

    fn marks_over(&mut self, read: u8, mark: Mark) -> bool {
        let stands = self.stamp.version == read;
        if stands {
            self.marks(mark);
        }
        stands
    }

    fn raises(&mut self, epoch: u16) {
        self.stamp =
            Stamp { version: self.stamp.version + 1, epoch: epoch.max(self.stamp.epoch), ..self.stamp };
    }

    fn acknowledged(&self) -> impl Iterator<Item = Option<u64>> {
        self.members.iter().filter(|member| member.registered).map(|member| member.acknowledged)
    }

    fn is_acknowledged(&self) -> bool {
        self.acknowledged().all(|acknowledged| acknowledged == Some(self.cell.version.into()))
    }

    fn lists_anybody(&self) -> bool {
        self.clients.iter().any(|client| client.entry != Entry::Out)
    }
}

impl Ends {
    pub(super) fn operator_steps(&self, state: &State, who: usize, doing: Operator, steps: &mut Vec<Step>) {
        let is_done = state.cell.stage.is_some_and(|stage| stage.phase == MovePhase::Done);
        match doing {
            Operator::Idle if state.cell.version + state.stamp.version > self.writes => {}
            Operator::Idle if is_done => steps.push(Step::Finishes(who)),
            Operator::Idle => steps.extend([Step::Forward(who), Step::Back(who)]),
            Operator::Lists(..) => steps.extend([Step::Operator(who), Step::NamesAnOutsider(who)]),
            _ => steps.push(Step::Operator(who)),
        }
    }

    pub(super) fn goes_forward(&self, state: &mut State, who: usize) {
        state.operators[who] = match state.cell.stage {
            // The marker is of another move, or of a finished one.
            None if state.stamp.mark == Mark::Retired => Operator::Idle,
            None => Operator::Creates,
            Some(Stage { phase: MovePhase::Old, .. }) => Operator::Marks(state.cell.version, false),
            Some(_) => self.checks(state, Way::Forward),
        };
    }

    fn checks(&self, state: &State, way: Way) -> Operator {
        let Cell { version, stage: Some(stage), .. } = state.cell else { return Operator::Idle };
        let Decision::Write(next) = stage.step(&u64::from(version), state.acknowledged(), way) else {
            return Operator::Idle;
        };
        // The epoch of the new side's stamp does not matter here.
        let is_recorded = next.phase.token() == Side::New || next.epoch == state.stamp.epoch;
        match is_recorded {
            true => Operator::Writes(version, next),
            false => Operator::Records(version, next),
        }
    }

    pub(super) fn goes_back(&self, state: &mut State, who: usize) {
        let mark = state.stamp.version;
        state.operators[who] = match state.cell.stage {
            None => Operator::ReadsToGiveUp(None, mark),
            Some(Stage { phase: MovePhase::Old, .. }) if state.is_acknowledged() => {
                Operator::ReadsToGiveUp(Some(state.cell.version), mark)
            }
            Some(Stage { phase: MovePhase::Old, .. }) => Operator::Idle,
            Some(_) => self.checks(state, Way::Back),
        };
    }

    /// An operator that begins lists a plain client. It deletes only a cell that it made, because members may
    /// acknowledge any other.
    pub(super) fn names_an_outsider(&self, state: &mut State, who: usize) {
        let Operator::Lists(version, is_own) = state.operators[who] else { return };
        state.operators[who] = match is_own && state.writes_over(version, None) {
            true => Operator::Lifts(state.stamp.version),
            false => Operator::Idle,
        };
    }

    pub(super) fn finishes(&self, state: &mut State, who: usize) {
        let (version, mark) = (state.cell.version, state.stamp.version);
        state.operators[who] = match state.stamp.mark {
            Mark::Nothing => Operator::Idle,
            _ => Operator::Retires(version, mark),
        };
    }

    pub(super) fn operator(&self, state: &mut State, who: usize) {
        let doing = state.operators[who];
        state.operators[who] = match doing {
            Operator::Idle => return,
            // Plain clients of the old side still give tokens with the epoch of the stamp.
            Operator::Creates if state.cell.stage.is_none() => {
                state.writes_stage(Some(Stage::before(state.stamp.epoch)));
                Operator::Marks(state.cell.version, true)
            }
            Operator::Creates => Operator::Idle,
            Operator::Marks(version, is_own) if state.stamp.mark == Mark::Retired => {
                if is_own {
                    state.writes_over(version, None);
                }
                Operator::Idle
            }
            Operator::Marks(version, is_own) => {
                state.marks(Mark::Leaves);
                Operator::Lists(version, is_own)
            }
            Operator::Lists(version, _) if version == state.cell.version => self.checks(state, Way::Forward),
            Operator::Lists(..) => Operator::Idle,
            Operator::Records(version, _) if state.cell.version != version => Operator::Idle,
            Operator::Records(version, next) => {
                state.raises(next.epoch);
                Operator::Writes(version, next)
            }
            Operator::Writes(version, next) => {
                state.writes_over(version, Some(next));
                Operator::Idle
            }
            Operator::ReadsToGiveUp(..) | Operator::Deletes(..) | Operator::Lifts(_) => {
                self.gives_up(state, doing)
            }
            _ => self.ends(state, doing),
        };
    }

    fn gives_up(&self, state: &mut State, doing: Operator) -> Operator {
        match doing {
            Operator::ReadsToGiveUp(checked, mark) => match state.cell.stage {
                None => Operator::Lifts(mark),
                Some(_) if checked == Some(state.cell.version) => Operator::Deletes(state.cell.version, mark),
                Some(_) => Operator::Idle,
            },
            Operator::Deletes(version, mark) if state.writes_over(version, None) => Operator::Lifts(mark),
            Operator::Lifts(mark) => {
                if state.stamp.mark == Mark::Leaves {
                    state.marks_over(mark, Mark::Nothing);
                }
                Operator::Idle
            }
            _ => Operator::Idle,
        }
    }

    fn ends(&self, state: &mut State, doing: Operator) -> Operator {
        match doing {
            Operator::Retires(version, mark) if state.marks_over(mark, Mark::Retired) => {
                Operator::ListsTheLast(version, state.stamp.version)
            }
            Operator::ListsTheLast(version, mark) if state.lists_anybody() => {
                Operator::WritesAnew(version, mark)
            }
            Operator::ListsTheLast(version, _) => Operator::Clears(version),
            Operator::WritesAnew(version, mark) if state.writes_over(version, state.cell.stage) => {
                Operator::LetsIn(mark)
            }
            Operator::LetsIn(mark) => {
                state.marks_over(mark, Mark::Leaves);
                Operator::Idle
            }
            Operator::Clears(version) if state.writes_over(version, state.cell.stage) => {
                Operator::DeletesTheLast(state.cell.version)
            }
            Operator::DeletesTheLast(version) => {
                state.writes_over(version, None);
                Operator::Idle
            }
            _ => Operator::Idle,
        }
    }
}
