use latchwork_core::backend::decide::moving::gate::GateMarker;
use latchwork_core::backend::decide::moving::{MovePhase, Side, Stage, Step as Decision, Way};

use super::{Cell, Fault, Gate, Stamp, State, index, marker};

/// The next request of an operator, which may stop before any of them. Unless stated otherwise, a `u8` is the
/// version of the cell that it read, and an array has the versions of the markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Operator {
    Idle,
    /// It marks this side.
    Marks(Side, u8, [u8; 2]),
    /// By a fault: it has marked both sides, and makes the cell.
    Creates([u8; 2]),
    Lists(Side, u8, [u8; 2]),
    /// It reads the stamp that gives the next stage's tokens. Then it writes that stage over this version.
    ReadsStamp(u8, Stage),
    /// The stamp has an earlier epoch, at the version in the last field: it reads the cell again.
    ReadsAgain(u8, Stage, u8),
    /// It records the epoch over the stamp's version.
    Records(u8, Stage, u8),
    /// By a fault: it records the epoch after the stage.
    RecordsLate(Stage),
    /// It reads this side's marker before it lists the clients.
    ChecksMarker(Side, u8, Stage),
    /// It lists this side's clients before a step.
    ChecksClients(Side, u8, Stage),
    /// It writes this side's marker if there is none.
    Repairs(Side, [Option<u8>; 2]),
    /// It has written the markers, and reads the cell again.
    ReadsRepaired([Option<u8>; 2]),
    /// It removes the marker that it wrote on this side.
    Unmarks(Side, [Option<u8>; 2]),
    /// It lists this side's clients, and then records the epoch of this stage.
    ListsRepaired(Side, Stage),
    ReadsForgotten(Stage),
    RecordsForgotten(Stage, u8),
    Steps(u8, Stage),
    /// It has read the markers' versions to give up, and reads the cell.
    ReadsToGiveUp([u8; 2]),
    /// It deletes the cell over this version.
    Ends([u8; 2], u8),
    /// It lifts this side's marker over its version.
    Lifts([u8; 2], Side),
    /// It opens the new side over this version of its marker.
    Opens(u8),
    /// It has read the version of the new side's marker, and reads the cell.
    ReadsToOpen(u8),
}

impl State {
    fn stage(&mut self, value: Option<Stage>) {
        self.writes += 1;
        match value {
            Some(_) => {
                let stands = |client: &super::Client| client.came_in && client.doing == super::Doing::Works;
                self.passed_by |= self.clients.iter().any(stands);
            }
            None => {
                self.clients.iter_mut().for_each(|client| client.came_in = false);
                self.forgotten = [false; 2];
            }
        }
        self.phase = Cell { version: self.phase.version + 1, value };
        self.participants_give();
    }

    fn stamp(&mut self, side: Side, change: impl FnOnce(&mut Stamp)) {
        self.writes += 1;
        let stamp = &mut self.stamps[index(side)];
        stamp.version += 1;
        change(stamp);
    }
}

impl Gate {
    pub(super) fn goes_forward(&self, state: &mut State, who: usize) {
        let Cell { version, value } = state.phase;
        let marks = if self.has(Fault::LeavesTheNewSideOpen) { Side::Old } else { Side::New };
        state.operators[who] = match value {
            None if self.has(Fault::MarksBeforeTheCell) => Operator::Marks(marks, version, [0; 2]),
            // The creation is a separate request, so it reads the cell in its next step.
            None => return self.creates(state),
            Some(Stage { phase: MovePhase::Old, .. }) if self.has(Fault::MarksBeforeTheCell) => {
                Operator::Idle
            }
            Some(Stage { phase: MovePhase::Old, .. }) if self.has(Fault::ListsFirst) => {
                Operator::Lists(Side::New, version, [0; 2])
            }
            Some(Stage { phase: MovePhase::Old, .. }) => Operator::Marks(marks, version, [0; 2]),
            Some(stage) => {
                let may_open = stage.phase == MovePhase::Done
                    || self.has(Fault::OpensEarly) && stage.phase == MovePhase::New;
                match stage.step(&version, [], Way::Forward) {
                    _ if may_open && state.stamps[1].marked => Operator::ReadsToOpen(state.stamps[1].version),
                    Decision::Write(next) => self.checks(version, next),
                    _ => Operator::Idle,
                }
            }
        };
    }

    fn checks(&self, version: u8, next: Stage) -> Operator {
        match self.forgets {
            0 => Operator::ReadsStamp(version, next),
            _ if self.has(Fault::StepsUnmarked) => Operator::ChecksClients(Side::Old, version, next),
            _ => Operator::ChecksMarker(Side::Old, version, next),
        }
    }

    pub(super) fn goes_back(&self, state: &mut State, who: usize) {
        let Cell { version, value } = state.phase;
        let marks = state.stamps.map(|stamp| stamp.version);
        state.operators[who] = match value.map(|stage| stage.step(&version, [], Way::Back)) {
            Some(Decision::Write(next)) => self.checks(version, next),
            // Otherwise plain clients would give tokens below the move's tokens.
            Some(_) if self.keeps_the_cell(state) => Operator::Idle,
            _ => Operator::ReadsToGiveUp(marks),
        };
    }

    /// Plain clients still give tokens with the old side's epoch.
    fn creates(&self, state: &mut State) {
        let [old, new] = state.stamps.map(|stamp| stamp.epoch);
        let epoch = if self.has(Fault::BeginsHigher) { old.max(new) } else { old };
        state.stage(Some(Stage::before(epoch)));
    }

    pub(super) fn operator(&self, state: &mut State, who: usize) {
        let doing = state.operators[who];
        state.operators[who] = match doing {
            Operator::Idle => return,
            Operator::Marks(side, version, marks) => self.marks(state, side, version, marks),
            Operator::Creates(marks) => {
                if state.phase.value.is_none() {
                    self.creates(state);
                }
                Operator::Lists(Side::New, state.phase.version, marks)
            }
            Operator::Lists(side, ..)
                if self.has(Fault::ListsFirst) && self.lists_an_outsider(state, side) =>
            {
                Operator::Idle
            }
            // MIGRATE-GATE-EACH-STEP: the stamp's epoch was lost.
            Operator::Lists(side, ..)
                if self.lists_an_outsider(state, side) && self.keeps_the_cell(state) =>
            {
                Operator::Idle
            }
            // It removes the markers that it wrote, over their versions.
            Operator::Lists(side, version, marks) if self.lists_an_outsider(state, side) => {
                Operator::Ends(marks, version)
            }
            Operator::Lists(Side::New, version, marks) => Operator::Lists(Side::Old, version, marks),
            Operator::Lists(Side::Old, version, marks) => self.has_listed(state, version, marks),
            Operator::ReadsStamp(..)
            | Operator::ReadsAgain(..)
            | Operator::Records(..)
            | Operator::RecordsLate(_)
            | Operator::Steps(..) => self.steps(state, doing),
            Operator::ChecksMarker(..)
            | Operator::ChecksClients(..)
            | Operator::Repairs(..)
            | Operator::ReadsRepaired(_)
            | Operator::Unmarks(..)
            | Operator::ListsRepaired(..)
            | Operator::ReadsForgotten(_)
            | Operator::RecordsForgotten(..) => self.repairs(state, doing),
            Operator::ReadsToGiveUp(marks) => match state.phase {
                Cell { version, value: Some(Stage { phase: MovePhase::Old, .. }) } => {
                    Operator::Ends(marks, version)
                }
                Cell { value: None, .. } => Operator::Lifts(marks, Side::Old),
                _ => Operator::Idle,
            },
            Operator::Ends(marks, version) if state.phase.version == version => {
                state.stage(None);
                Operator::Lifts(marks, Side::Old)
            }
            Operator::Ends(..) => Operator::Idle,
            Operator::Lifts(marks, side) => {
                self.lifts(state, side, marks[index(side)]);
                if side == Side::Old { Operator::Lifts(marks, Side::New) } else { Operator::Idle }
            }
            Operator::ReadsToOpen(mark) => {
                let early = self.has(Fault::OpensEarly) && state.phase() == MovePhase::New;
                if state.phase() == MovePhase::Done || early { Operator::Opens(mark) } else { Operator::Idle }
            }
            Operator::Opens(mark) => {
                self.lifts(state, Side::New, mark);
                Operator::Idle
            }
        };
    }

    fn steps(&self, state: &mut State, doing: Operator) -> Operator {
        match doing {
            Operator::ReadsStamp(version, next) => {
                let stamp = state.stamps[index(next.phase.token())];
                let next = next.above(stamp.epoch);
                match next.epoch > stamp.epoch {
                    true if self.has(Fault::RecordsUnchecked) => {
                        Operator::Records(version, next, stamp.version)
                    }
                    true if !self.has(Fault::RecordsLate) => {
                        Operator::ReadsAgain(version, next, stamp.version)
                    }
                    _ => Operator::Steps(version, next),
                }
            }
            Operator::ReadsAgain(version, next, stamp) if state.phase.version == version => {
                Operator::Records(version, next, stamp)
            }
            Operator::Records(version, next, stamp) => {
                let side = next.phase.token();
                if state.stamps[index(side)].version != stamp {
                    return Operator::Idle;
                }
                state.stamp(side, |stamp| stamp.epoch = next.epoch);
                Operator::Steps(version, next)
            }
            Operator::RecordsLate(next) => {
                let epoch = |stamp: &mut Stamp| stamp.epoch = stamp.epoch.max(next.epoch);
                state.stamp(next.phase.token(), epoch);
                Operator::Idle
            }
            Operator::Steps(version, next) if state.phase.version == version => {
                let side = state.phase.value.map(|stage| stage.phase.token());
                state.stage(Some(next));
                match self.has(Fault::RecordsLate) && side != Some(next.phase.token()) {
                    true => Operator::RecordsLate(next),
                    false => Operator::Idle,
                }
            }
            _ => Operator::Idle,
        }
    }

    /// The new side first, so that plain clients of the old side can work longer.
    fn marks(&self, state: &mut State, side: Side, version: u8, mut marks: [u8; 2]) -> Operator {
        let (stands, own) = (state.stamps[index(side)].marked.then(|| marker(side)), marker(side));
        if own.may_follow(stands.as_ref()) && !(self.has(Fault::KeepsTheMarker) && stands.is_some()) {
            state.stamp(side, |stamp| stamp.marked = true);
            state.forgotten[index(side)] = false;
        }
        marks[index(side)] = state.stamps[index(side)].version;
        match side {
            Side::New => Operator::Marks(Side::Old, version, marks),
            Side::Old if self.has(Fault::MarksBeforeTheCell) => Operator::Creates(marks),
            Side::Old if self.has(Fault::ListsFirst) => self.begins(state, version),
            Side::Old => Operator::Lists(Side::New, version, marks),
        }
    }

    fn has_listed(&self, state: &State, version: u8, marks: [u8; 2]) -> Operator {
        match self.has(Fault::ListsFirst) {
            true => Operator::Marks(Side::New, version, marks),
            false => self.begins(state, version),
        }
    }

    fn begins(&self, state: &State, version: u8) -> Operator {
        match state.phase.value.map(|stage| stage.step(&version, [], Way::Forward)) {
            Some(Decision::Write(next)) => self.checks(version, next),
            _ => Operator::Idle,
        }
    }

    /// In the first phase, returns whether the old side's stamp has a lower epoch than the cell.
    fn keeps_the_cell(&self, state: &State) -> bool {
        let says_more = |stage: Stage| stage.phase == MovePhase::Old && state.stamps[0].epoch < stage.epoch;
        self.forgets > 0 && !self.has(Fault::GivesUpBelow) && state.phase.value.is_some_and(says_more)
    }

    /// Checks the markers and clients before a step, and writes forgotten markers again.
    fn repairs(&self, state: &mut State, doing: Operator) -> Operator {
        match doing {
            Operator::ChecksMarker(side, version, next) => match (state.stamps[index(side)].marked, side) {
                (false, _) => Operator::Idle,
                (true, Side::Old) => Operator::ChecksMarker(Side::New, version, next),
                (true, Side::New) if self.has(Fault::StepsUnlisted) => Operator::ReadsStamp(version, next),
                (true, Side::New) => Operator::ChecksClients(Side::Old, version, next),
            },
            Operator::ChecksClients(side, ..) if self.lists_an_outsider(state, side) => Operator::Idle,
            Operator::ChecksClients(Side::Old, version, next) => {
                Operator::ChecksClients(Side::New, version, next)
            }
            Operator::ChecksClients(Side::New, version, next) => Operator::ReadsStamp(version, next),
            Operator::Repairs(side, mut wrote) => {
                let open = state.phase() == MovePhase::Done && side == Side::New;
                if !state.stamps[index(side)].marked && !open {
                    state.stamp(side, |stamp| stamp.marked = true);
                    state.forgotten[index(side)] = false;
                    wrote[index(side)] = Some(state.stamps[index(side)].version);
                }
                match side {
                    Side::New => Operator::Repairs(Side::Old, wrote),
                    Side::Old => Operator::ReadsRepaired(wrote),
                }
            }
            Operator::ReadsRepaired(wrote) => match state.phase.value {
                None => Operator::Unmarks(Side::Old, wrote),
                Some(stage) if self.has(Fault::RecordsBeforeTheList) => Operator::ReadsForgotten(stage),
                Some(stage) => Operator::ListsRepaired(Side::Old, stage),
            },
            Operator::Unmarks(side, wrote) => {
                if let Some(version) = wrote[index(side)] {
                    self.lifts(state, side, version);
                }
                if side == Side::Old { Operator::Unmarks(Side::New, wrote) } else { Operator::Idle }
            }
            Operator::ListsRepaired(side, _) if self.lists_an_outsider(state, side) => Operator::Idle,
            Operator::ListsRepaired(Side::Old, stage) if stage.phase != MovePhase::Done => {
                Operator::ListsRepaired(Side::New, stage)
            }
            Operator::ListsRepaired(_, stage) => Operator::ReadsForgotten(stage),
            Operator::ReadsForgotten(stage) => {
                let stamp = state.stamps[index(stage.phase.token())];
                match stamp.epoch < stage.epoch && stamp.marked {
                    true => Operator::RecordsForgotten(stage, stamp.version),
                    false => Operator::Idle,
                }
            }
            Operator::RecordsForgotten(stage, version) => {
                let side = stage.phase.token();
                if state.stamps[index(side)].version == version {
                    state.stamp(side, |stamp| stamp.epoch = stage.epoch);
                }
                Operator::Idle
            }
            _ => Operator::Idle,
        }
    }

    fn lifts(&self, state: &mut State, side: Side, read: u8) {
        let stamp = state.stamps[index(side)];
        let stands = stamp.version == read || self.has(Fault::LiftsAnyMarker);
        let own = stamp.marked.then(|| marker(side));
        if stands && !GateMarker::admits(own.as_ref(), super::Who::Plain) {
            state.stamp(side, |stamp| stamp.marked = false);
        }
    }
}
