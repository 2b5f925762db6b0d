//! The model of an owner, over its ledger (the OWNER- rules). Tasks of one owner come, join, are never polled
//! again, are dropped, downgrade, release and lose their holds, in every order. Leaves and downgrades arrive
//! later. Bounds: three tasks acquire four times in all (five with `LATCHWORK_LONG=1`), none more than twice;
//! one loss; one dropped waiter.

mod judge;
#[allow(dead_code, reason = "the model uses a part of the ledger")]
#[path = "../../../src/reentrancy/ledger.rs"]
mod ledger;
mod rules;

use self::ledger::{Entrant, Generation, Ledger, Left, Mode, Progress};
use crate::explore::{Broken, Protocol, long, offer};

const TASKS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fault {
    /// OWNER-GUARD-CARRIES-GENERATION: a release counts for the current generation.
    NoGeneration,
    /// OWNER-RELEASE-REMOVES-ENTRY: the entry remains until the leave is carried out.
    LateRemoval,
    /// OWNER-ONE-ACQUISITION: each task begins an acquisition.
    TwoAcquisitions,
    /// OWNER-ACQUIRES-IN-BACKGROUND: a dropped waiter still counts.
    SilentDrop,
    /// OWNER-ACQUIRES-IN-BACKGROUND: the acquisition is in the future of the first task.
    NotInTheBackground,
    /// OWNER-ACQUIRES-IN-BACKGROUND: an acquisition without waiters continues.
    Unstopped,
    /// OWNER-ACQUIRES-IN-BACKGROUND: the next acquisition begins before the clean-up.
    GoneAtOnce,
    /// OWNER-ACQUIRES-IN-BACKGROUND: a writing node is acquired for readers only.
    WritesForReaders,
    /// OWNER-LOSS-CLEARS-ENTRY: a task enters a lost hold.
    LossUnseen,
    NoDowngrade,
}

#[derive(Clone, Debug)]
struct Owners {
    fault: Option<Fault>,
}

type NodeId = u8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    id: NodeId,
    generation: Generation,
    began: usize,
    mode: Mode,
    admitted: bool,
    leaving: bool,
    turning: bool,
    lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Task {
    Idle,
    // The acquisition may be admitted before the task knows it. Without `counted`, the task only waits for
    // its end.
    Waiting { mode: Mode, generation: Generation, woken: bool, counted: bool },
    Holding { mode: Mode, generation: Generation, node: NodeId },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    ledger: Book,
    tasks: Vec<Task>,
    rounds: [u8; TASKS],
    nodes: Vec<Node>,
    made: NodeId,
    losses: u8,
    drops: u8,
    kept: Option<usize>,
    revived: bool,
    // Releases that reach the ledger late, by a fault.
    late: Vec<(Generation, Mode, NodeId)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Book(Ledger<(), NodeId>);

impl std::hash::Hash for Book {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash_of(&(), state);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Enter(usize, Mode),
    Look(usize),
    Keep(usize),
    Admit(NodeId),
    /// No task waits for it any more.
    Stop(NodeId),
    Drop(usize),
    Release(usize),
    Downgrade(usize),
    Lose(NodeId),
    LeaveLands(NodeId),
    TurnLands(NodeId),
}

impl State {
    fn change(&mut self, id: NodeId, change: impl FnOnce(&mut Node)) -> Option<Generation> {
        let node = self.nodes.iter_mut().find(|node| node.id == id)?;
        change(node);
        Some(node.generation)
    }

    fn is_lost(&self, id: NodeId) -> bool {
        self.nodes.iter().all(|node| node.id != id || node.lost)
    }

    fn wake(&mut self) {
        for task in &mut self.tasks {
            if let Task::Waiting { woken, .. } = task {
                *woken = true;
            }
        }
    }

    fn leave(&mut self, id: NodeId) -> Option<Generation> {
        self.change(id, |node| node.leaving = true)
    }
}

impl Owners {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn enter(&self, state: &mut State, task: usize, mode: Mode) {
        let held: Vec<_> = state.nodes.iter().filter(|node| !node.lost).map(|node| node.id).collect();
        let is_lost = |node: &NodeId| !self.has(Fault::LossUnseen) && !held.contains(node);
        let entered = state.ledger.0.enter(&(), mode, is_lost);
        let waiting = |generation, counted| Task::Waiting { mode, generation, woken: false, counted };
        state.tasks[task] = match entered {
            Entrant::Acquire(generation) => {
                Self::acquire(state, task, mode, generation);
                waiting(generation, true)
            }
            Entrant::Join(generation) => {
                if self.has(Fault::TwoAcquisitions) {
                    Self::acquire(state, task, mode, generation);
                }
                waiting(generation, true)
            }
            Entrant::Later(generation) => waiting(generation, false),
            Entrant::Again(generation, node) => {
                state.revived |= state.is_lost(node);
                Task::Holding { mode, generation, node }
            }
            Entrant::Deadlock => Task::Idle,
        };
    }

    fn acquire(state: &mut State, began: usize, mode: Mode, generation: Generation) {
        state.made += 1;
        let (id, admitted, leaving, turning, lost) = (state.made, false, false, false, false);
        state.nodes.push(Node { id, generation, began, mode, admitted, leaving, turning, lost });
    }

    fn look(&self, state: &mut State, task: usize) {
        let Task::Waiting { mode, generation, counted, .. } = state.tasks[task] else { return };
        match state.ledger.0.progress(&(), generation) {
            Progress::Acquiring { .. } | Progress::Unwanted => {
                state.tasks[task] = Task::Waiting { mode, generation, woken: false, counted };
            }
            // No task enters a lost hold.
            Progress::Held(node) if counted && state.is_lost(node) => {
                let left = state.ledger.0.leave(&(), generation, mode);
                self.left(state, left);
                self.enter(state, task, mode);
            }
            Progress::Held(node) if counted => state.tasks[task] = Task::Holding { mode, generation, node },
            Progress::Held(_) | Progress::Over => self.enter(state, task, mode),
        }
    }

    fn drop(&self, state: &mut State, task: usize) {
        let Task::Waiting { mode, generation, counted, .. } = state.tasks[task] else { return };
        state.drops += 1;
        state.tasks[task] = Task::Idle;
        if counted && !self.has(Fault::SilentDrop) {
            let before = state.ledger.clone();
            let left = state.ledger.0.leave(&(), generation, mode);
            let readers = state.tasks.iter().any(
                |task| matches!(task, Task::Waiting { generation: of, counted: true, .. } if *of == generation),
            );
            if left == Left::Unwanted && readers && self.has(Fault::WritesForReaders) {
                state.ledger = before;
            }
            self.left(state, left);
        }
    }

    fn left(&self, state: &mut State, left: Left<NodeId>) {
        match left {
            Left::Last(node) => {
                state.leave(node);
            }
            Left::Downgrade(node) if !self.has(Fault::NoDowngrade) => {
                state.change(node, |node| node.turning = true);
            }
            Left::Unwanted if self.has(Fault::GoneAtOnce) => {
                if let Some(generation) = state.ledger.0.generation(&()) {
                    state.ledger.0.gave_up(&(), generation);
                }
                state.wake();
            }
            _ => {}
        }
    }

    fn release(&self, state: &mut State, task: usize) {
        let Task::Holding { mode, generation, node } = state.tasks[task] else { return };
        state.tasks[task] = Task::Idle;
        if self.has(Fault::LateRemoval) && state.ledger.0.count(&(), |_| false) == 1 && !state.is_lost(node) {
            state.leave(node);
            state.late.push((generation, mode, node));
            return;
        }
        let generation = match self.has(Fault::NoGeneration) {
            true => state.ledger.0.generation(&()).unwrap_or(generation),
            false => generation,
        };
        let left = state.ledger.0.leave(&(), generation, mode);
        self.left(state, left);
    }

    fn goes_on(&self, state: &State, node: &Node) -> bool {
        !self.has(Fault::NotInTheBackground) || state.kept != Some(node.began)
    }
}

impl Protocol for Owners {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State { tasks: vec![Task::Idle; TASKS], ..State::default() }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        let rounds = if long() { 5 } else { 4 };
        for (task, now) in state.tasks.iter().enumerate() {
            match now {
                // Tasks are interchangeable, so they begin in order.
                Task::Idle if task > 0 && state.rounds[task - 1] == 0 => {}
                Task::Idle if state.rounds[task] < 2 && state.rounds.iter().sum::<u8>() < rounds => {
                    steps.extend([Mode::Exclusive, Mode::Shared].map(|mode| Step::Enter(task, mode)));
                }
                Task::Idle => {}
                Task::Waiting { woken, .. } => {
                    offer(steps, *woken && state.kept != Some(task), Step::Look(task));
                    let unpolled = self.has(Fault::NotInTheBackground);
                    offer(steps, unpolled && state.kept.is_none(), Step::Keep(task));
                    offer(steps, state.drops == 0, Step::Drop(task));
                }
                Task::Holding { mode, .. } => {
                    steps.push(Step::Release(task));
                    offer(steps, *mode == Mode::Exclusive, Step::Downgrade(task));
                }
            }
        }
        let first = state.nodes.iter().find(|node| !node.lost).filter(|node| !node.admitted && !node.leaving);
        steps.extend(first.filter(|node| self.goes_on(state, node)).map(|node| Step::Admit(node.id)));
        for node in &state.nodes {
            let progress = state.ledger.0.progress(&(), node.generation);
            let unwanted = matches!(progress, Progress::Unwanted | Progress::Over);
            let stops = unwanted && !node.admitted && !node.leaving;
            offer(steps, stops && !self.has(Fault::Unstopped), Step::Stop(node.id));
            offer(steps, node.admitted && !node.lost && state.losses == 0, Step::Lose(node.id));
            offer(steps, node.leaving, Step::LeaveLands(node.id));
            offer(steps, node.turning, Step::TurnLands(node.id));
        }
    }

    fn step(&self, state: &mut State, step: Step) {
        match step {
            Step::Enter(task, mode) => {
                state.rounds[task] += 1;
                self.enter(state, task, mode);
            }
            Step::Look(task) => self.look(state, task),
            Step::Keep(task) => state.kept = Some(task),
            Step::Admit(id) => {
                let Some(generation) = state.change(id, |node| node.admitted = true) else { return };
                if !state.ledger.0.acquired(&(), generation, id) && !self.has(Fault::Unstopped) {
                    state.leave(id);
                }
                state.ledger.0.gave_up(&(), generation);
                state.wake();
            }
            Step::Stop(id) => {
                let Some(generation) = state.leave(id) else { return };
                state.ledger.0.gave_up(&(), generation);
                state.wake();
            }
            Step::Drop(task) => self.drop(state, task),
            Step::Release(task) => self.release(state, task),
            Step::Downgrade(task) => {
                let Task::Holding { generation, node, .. } = state.tasks[task] else { return };
                let turned = state.ledger.0.convert(&(), generation);
                state.tasks[task] = match turned {
                    // The guard was lost before, and reports it.
                    Left::Stale => Task::Idle,
                    _ => Task::Holding { mode: Mode::Shared, generation, node },
                };
                self.left(state, turned);
            }
            Step::Lose(id) => {
                state.losses += 1;
                state.change(id, |node| node.lost = true);
            }
            Step::LeaveLands(id) => {
                state.nodes.retain(|node| node.id != id);
                if let Some(at) = state.late.iter().position(|(.., node)| *node == id) {
                    let (generation, mode, _) = state.late.remove(at);
                    let left = state.ledger.0.leave(&(), generation, mode);
                    self.left(state, left);
                }
            }
            Step::TurnLands(id) => {
                state.change(id, |node| (node.turning, node.mode) = (false, Mode::Shared));
            }
        }
    }

    fn verdict(&self, state: &State) -> Option<Broken> {
        self.judge(state)
    }
}
