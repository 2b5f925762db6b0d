//! The steps of an operator at the gate.

use latchwork_core::decide::moving::gate::GateMarker;
use latchwork_core::decide::moving::{MovePhase, Side, Stage, Step as Decision, Way};

use super::{Cell, Fault, Gate, State, index, marker};

/// What an operator is about to do. It may end for good before any of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Operator {
    Idle,
    /// It begins: it marks this side; it has read the cell at this version.
    Marks(Side, u8),
    /// It has marked both sides, and makes the cell: too late.
    Creates,
    /// It lists this side's clients.
    Lists(Side, u8),
    /// It writes the next stage over this version of the cell.
    Steps(u8, Stage),
    /// It gives the move up: it has read the markers' versions, and reads the cell.
    ReadsToGiveUp([u8; 2]),
    /// It deletes the cell over this version.
    Ends([u8; 2], u8),
    /// It lifts the marker of this side over its version.
    Lifts([u8; 2], Side),
    /// It opens the new side, over this version of its marker.
    Opens(u8),
    /// It has read the version of the new side's marker, and reads the cell.
    ReadsToOpen(u8),
}

fn write<T>(cell: &mut Cell<T>, writes: &mut u8, value: Option<T>) {
    *writes += 1;
    *cell = Cell { version: cell.version + 1, value };
}

impl Gate {
    pub(super) fn goes_forward(&self, state: &mut State, who: usize) {
        let Cell { version, value } = state.phase;
        let marks = if self.has(Fault::LeavesTheNewSideOpen) { Side::Old } else { Side::New };
        state.operators[who] = match value {
            None if self.has(Fault::MarksBeforeTheCell) => Operator::Marks(marks, version),
            // Its creation is a request of its own: the operator comes again, and reads it.
            None => return write(&mut state.phase, &mut state.writes, Some(Stage::before(0))),
            Some(Stage { phase: MovePhase::Old, .. }) if self.has(Fault::MarksBeforeTheCell) => {
                Operator::Idle
            }
            Some(Stage { phase: MovePhase::Old, .. }) if self.has(Fault::ListsFirst) => {
                Operator::Lists(Side::New, version)
            }
            Some(Stage { phase: MovePhase::Old, .. }) => Operator::Marks(marks, version),
            Some(stage) => {
                let may_open = stage.phase == MovePhase::Done
                    || self.has(Fault::OpensEarly) && stage.phase == MovePhase::New;
                match stage.step(&version, [], Way::Forward) {
                    _ if may_open && state.marks[1].value.is_some() => {
                        Operator::ReadsToOpen(state.marks[1].version)
                    }
                    Decision::Write(next) => Operator::Steps(version, next),
                    _ => Operator::Idle,
                }
            }
        };
    }

    pub(super) fn goes_back(&self, state: &mut State, who: usize) {
        let Cell { version, value } = state.phase;
        let marks = state.marks.map(|mark| mark.version);
        state.operators[who] = match value.map(|stage| stage.step(&version, [], Way::Back)) {
            Some(Decision::Write(next)) => Operator::Steps(version, next),
            // Nothing is moved, or nothing any more.
            _ => Operator::ReadsToGiveUp(marks),
        };
    }

    pub(super) fn operator(&self, state: &mut State, who: usize) {
        let doing = state.operators[who];
        state.operators[who] = match doing {
            Operator::Idle => return,
            Operator::Marks(side, version) => self.marks(state, side, version),
            Operator::Creates => {
                if state.phase.value.is_none() {
                    write(&mut state.phase, &mut state.writes, Some(Stage::before(0)));
                }
                Operator::Lists(Side::New, state.phase.version)
            }
            Operator::Lists(side, _) if self.lists_an_outsider(state, side) => Operator::Idle,
            Operator::Lists(Side::New, version) => Operator::Lists(Side::Old, version),
            Operator::Lists(Side::Old, version) => self.has_listed(state, version),
            Operator::Steps(version, next) => {
                if state.phase.version == version {
                    write(&mut state.phase, &mut state.writes, Some(next));
                }
                Operator::Idle
            }
            Operator::ReadsToGiveUp(marks) => match state.phase {
                Cell { version, value: Some(Stage { phase: MovePhase::Old, .. }) } => {
                    Operator::Ends(marks, version)
                }
                Cell { value: None, .. } => Operator::Lifts(marks, Side::Old),
                _ => Operator::Idle,
            },
            Operator::Ends(marks, version) if state.phase.version == version => {
                write(&mut state.phase, &mut state.writes, None);
                Operator::Lifts(marks, Side::Old)
            }
            Operator::Ends(..) => Operator::Idle,
            Operator::Lifts(marks, side) => {
                self.lifts(state, side, marks[index(side)]);
                if side == Side::Old { Operator::Lifts(marks, Side::New) } else { Operator::Idle }
            }
            Operator::ReadsToOpen(mark) => {
                let phase = state.phase.value.map_or(MovePhase::Old, |stage| stage.phase);
                let early = self.has(Fault::OpensEarly) && phase == MovePhase::New;
                if phase == MovePhase::Done || early { Operator::Opens(mark) } else { Operator::Idle }
            }
            Operator::Opens(mark) => {
                self.lifts(state, Side::New, mark);
                Operator::Idle
            }
        };
    }

    /// The new side first: a plain client of the old one works for as long as it may.
    fn marks(&self, state: &mut State, side: Side, version: u8) -> Operator {
        let mark = &mut state.marks[index(side)];
        let (stands, own) = (mark.value.map(|()| marker(side)), marker(side));
        if own.may_follow(stands.as_ref()) && !(self.has(Fault::KeepsTheMarker) && stands.is_some()) {
            write(mark, &mut state.writes, Some(()));
        }
        match side {
            Side::New => Operator::Marks(Side::Old, version),
            Side::Old if self.has(Fault::MarksBeforeTheCell) => Operator::Creates,
            Side::Old if self.has(Fault::ListsFirst) => self.begins(state, version),
            Side::Old => Operator::Lists(Side::New, version),
        }
    }

    fn has_listed(&self, state: &State, version: u8) -> Operator {
        match self.has(Fault::ListsFirst) {
            true => Operator::Marks(Side::New, version),
            false => self.begins(state, version),
        }
    }

    /// Nobody is outside: the first step.
    fn begins(&self, state: &State, version: u8) -> Operator {
        match state.phase.value.map(|stage| stage.step(&version, [], Way::Forward)) {
            Some(Decision::Write(next)) => Operator::Steps(version, next),
            _ => Operator::Idle,
        }
    }

    fn lifts(&self, state: &mut State, side: Side, read: u8) {
        let mark = &mut state.marks[index(side)];
        let stands = mark.version == read || self.has(Fault::LiftsAnyMarker);
        if stands && !GateMarker::admits(mark.value.map(|()| marker(side)).as_ref(), super::Who::Plain) {
            write(mark, &mut state.writes, None);
        }
    }
}
