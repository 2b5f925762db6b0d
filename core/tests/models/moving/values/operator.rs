use latchwork_core::backend::decide::moving::values::{WholeStage, WholeStep};
use latchwork_core::backend::decide::moving::{Side, Way};

use super::{Copy, Copying, Count, Fault, State, Step, other};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::moving) enum Move {
    /// It reads the stage and the acknowledgements.
    Checks(Way),
    /// It reads the stage before it deletes the cells of the side that no client uses.
    ChecksToClear,
    Joins,
    /// It learns that it is alone there.
    Admitted,
    /// It writes the same stage again.
    Renews,
    /// It reads the source, and sends its write.
    Copies,
    Compares,
    Writes,
    Leaves,
    /// The server ends its node without its knowledge.
    Lapses,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Pass {
    Copies,
    Compares,
    Clears,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Task {
    #[default]
    Idle,
    /// It writes this stage next, over this version.
    Decided(u8, WholeStage),
    /// It has read this version, and will copy from this side, or delete on the other one.
    Wants(u8, Side, Pass),
    /// It has written the same stage again, with this version.
    Renewed(u8, Side, Pass),
    Copied(Side),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Operator {
    pub(super) task: Task,
    node: Option<u8>,
    admitted: bool,
}

impl Task {
    /// The side that it copies from, if the task needs the hold.
    fn from(self) -> Option<Side> {
        match self {
            Task::Wants(_, from, _) | Task::Renewed(_, from, _) | Task::Copied(from) => Some(from),
            Task::Idle | Task::Decided(..) => None,
        }
    }
}

fn way(from: Side) -> Way {
    match from {
        Side::Old => Way::Forward,
        Side::New => Way::Back,
    }
}

impl Copying {
    pub(super) fn moves_of(&self, state: &State, at: usize, steps: &mut Vec<Step>) {
        let Operator { task, node, admitted } = state.operators[at];
        let mut may = |what| steps.push(Step::Of(at, what));
        match (task, node) {
            (Task::Idle, Some(_)) => may(Move::Leaves),
            (Task::Idle, None) if state.version < self.writes => {
                may(Move::Checks(Way::Forward));
                may(Move::Checks(Way::Back));
                if self.clears && state.whole.values.open().is_some() {
                    may(Move::ChecksToClear);
                }
            }
            (Task::Idle, None) => {}
            (Task::Decided(..), _) => may(Move::Writes),
            (Task::Copied(_), _) => may(Move::Leaves),
            (_, None) => may(Move::Joins),
            (_, Some(_)) if !admitted => may(Move::Admitted),
            (Task::Wants(..), _) if state.version < self.writes => may(Move::Renews),
            (Task::Wants(..), _) => {}
            (Task::Renewed(.., Pass::Copies | Pass::Clears), _) if state.sent < self.copies => {
                may(Move::Copies);
            }
            (Task::Renewed(.., Pass::Copies | Pass::Clears), _) => {}
            (Task::Renewed(.., Pass::Compares), _) => may(Move::Compares),
        }
        if state.expiries < self.expiries && node.is_some() {
            may(Move::Lapses);
        }
    }

    pub(super) fn moves(&self, state: &mut State, at: usize, what: Move) {
        let mut operator = state.operators[at];
        match what {
            Move::Checks(way) => {
                operator.task = match self.decides(state, way) {
                    WholeStep::Write(next) => Task::Decided(state.version, next),
                    WholeStep::Mirror { from, .. } => Task::Wants(state.version, from, Pass::Copies),
                    WholeStep::Waits | WholeStep::Ends | WholeStep::NoEpoch => Task::Idle,
                }
            }
            Move::ChecksToClear => {
                let Some(used) = state.whole.values.open() else { return };
                operator.task = Task::Wants(state.version, used, Pass::Clears);
            }
            Move::Joins => {
                let Some(from) = operator.task.from() else { return };
                let node = state.next_node;
                operator.node = Some(node);
                state.server_mut(other(from)).queue.push(node);
                state.next_node += 1;
            }
            Move::Admitted => {
                let Some((from, node)) = operator.task.from().zip(operator.node) else { return };
                let queue = &state.server(other(from)).queue;
                match queue.contains(&node) {
                    true => operator.admitted = queue.first() == Some(&node),
                    false => operator.node = None,
                }
            }
            Move::Renews => self.renews(state, &mut operator),
            Move::Copies => self.copies(state, &mut operator),
            Move::Compares => self.compares(state, &mut operator),
            Move::Writes => {
                let Task::Decided(checked, next) = operator.task else { return };
                if checked == state.version || self.has(Fault::ComparesNothing) {
                    state.version += 1;
                    state.whole = next;
                }
                operator.task = Task::Idle;
            }
            Move::Leaves => match operator.task {
                Task::Copied(from) if self.has(Fault::StepsByTheSameHold) => {
                    operator.task = Task::Renewed(state.version, from, Pass::Compares);
                }
                Task::Copied(from) => {
                    leave(state, &mut operator);
                    operator.task = wants(state, from, Pass::Compares);
                }
                _ => leave(state, &mut operator),
            },
            Move::Lapses => {
                let Some(node) = operator.node else { return };
                let before = (state.old.queue.len(), state.new.queue.len());
                give_up(state, node);
                state.expiries += u8::from(before != (state.old.queue.len(), state.new.queue.len()));
            }
        }
        state.operators[at] = operator;
    }

    /// The order of the two reads does not matter, because acknowledgements name the version.
    fn decides(&self, state: &State, way: Way) -> WholeStep {
        let asked = if self.has(Fault::AsksNobody) { Vec::new() } else { state.acknowledged() };
        state.whole.step(&state.version, asked, way)
    }

    /// After this write, no operator that read the stage before can take a step.
    fn renews(&self, state: &mut State, operator: &mut Operator) {
        let Task::Wants(read, from, pass) = operator.task else { return };
        let over = if self.has(Fault::ReadsBehindAdmission) { state.version } else { read };
        if self.has(Fault::KeepsTheVersion) || (self.has(Fault::ClearsByWhatItRead) && pass == Pass::Clears) {
            operator.task = Task::Renewed(over, from, pass);
        } else if over == state.version {
            state.version += 1;
            operator.task = Task::Renewed(state.version, from, pass);
        } else {
            operator.task = Task::Idle;
        }
    }

    fn copies(&self, state: &mut State, operator: &mut Operator) {
        let (Task::Renewed(_, from, pass), Some(node)) = (operator.task, operator.node) else { return };
        if pass == Pass::Clears {
            state.copies.push(Copy { node, to: other(from), count: Count::default() });
            state.sent += 1;
            operator.task = Task::Idle;
            return;
        }
        let mut count = state.server(from).count;
        if self.has(Fault::CopiesTheNumber) {
            count.records = count.records.map(|_| 0);
        }
        if count.records.is_some() || !self.has(Fault::LeavesExtras) {
            state.copies.push(Copy { node, to: other(from), count });
        }
        state.sent += 1;
        operator.task = Task::Copied(from);
    }

    fn compares(&self, state: &mut State, operator: &mut Operator) {
        let Task::Renewed(version, from, Pass::Compares) = operator.task else { return };
        let then = match self.decides(state, way(from)) {
            WholeStep::Mirror { from: side, then } if side == from && version == state.version => then,
            WholeStep::Waits if version == state.version => return,
            _ => {
                operator.task = Task::Idle;
                return;
            }
        };
        let (source, target) = (state.server(from).count, state.server(other(from)).count);
        if self.has(Fault::ComparesNoCells) {
            operator.task = Task::Decided(version, then);
        } else if self.is_same(source, target) {
            if source.records == target.records {
                // The records are equal, so no client can see how either cell was made.
                state.server_mut(other(from)).count = source;
            }
            operator.task = Task::Decided(version, then);
        } else if self.has(Fault::StepsByTheSameHold) {
            operator.task = Task::Renewed(version, from, Pass::Copies);
        } else {
            leave(state, operator);
            operator.task = wants(state, from, Pass::Copies);
        }
    }

    fn is_same(&self, source: Count, target: Count) -> bool {
        match self.fault {
            Some(Fault::CopiesTheNumber) => source.records.is_some() == target.records.is_some(),
            Some(Fault::LeavesExtras) => source.records.is_none() || source.records == target.records,
            _ => source.records == target.records,
        }
    }
}

/// Reads the stage before the join.
fn wants(state: &State, from: Side, pass: Pass) -> Task {
    match (state.whole.values.open(), state.whole.values.side() == from) {
        (None, true) => Task::Wants(state.version, from, pass),
        _ => Task::Idle,
    }
}

fn leave(state: &mut State, operator: &mut Operator) {
    if let Some(node) = operator.node.take() {
        give_up(state, node);
    }
    operator.admitted = false;
}

fn give_up(state: &mut State, node: u8) {
    for queue in [&mut state.old.queue, &mut state.new.queue] {
        queue.retain(|other| *other != node);
    }
}
