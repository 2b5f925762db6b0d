//! Model D: the ledger that runs, with tasks of one owner that come, join, are dropped, downgrade, release, and lose what they
//! hold, in every order.
//!
//! The ledger is called, not copied. A node of the server is a number; a leave and a downgrade are on their way until they
//! land, in any order. Each fault is the opposite of a rule, laid on the way into the ledger; each must be found as what
//! the rule prevents (RULES D). Bounds: three tasks, each of which acquires twice; one loss, one dropped driver.

#[allow(dead_code)]
#[path = "../../tests/models/explore.rs"]
mod explore;

use explore::{Broken, Protocol, assert_found, assert_sound, sound};
use stateright::{Model, Property};

use super::ledger::{Entered, Generation, Ledger, Left, Mode};

const TASKS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fault {
    /// D1: a guard carries no generation: it releases what is held now.
    NoGeneration,
    /// D2: the entry goes only when the server has confirmed the leave.
    LateRemoval,
    /// D3: who finds an acquisition under way begins one of its own.
    TwoAcquisitions,
    /// D4: a dropped driver tells nobody.
    SilentDrop,
    /// D5: a lost hold is entered again.
    LossUnseen,
    /// The last that writes goes, and the node stays a writer's.
    NoDowngrade,
}

#[derive(Clone, Debug)]
struct Owners {
    fault: Option<Fault>,
}

type NodeId = u8;

/// A node of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    id: NodeId,
    mode: Mode,
    admitted: bool,
    leaving: bool,
    turning: bool,
    lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Task {
    Idle,
    /// Another of the owner acquires; woken when that has ended.
    Joined {
        mode: Mode,
        woken: bool,
    },
    Acquiring {
        mode: Mode,
        generation: Generation,
        node: NodeId,
    },
    Holding {
        mode: Mode,
        generation: Generation,
        node: NodeId,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    ledger: Book,
    tasks: [Task; TASKS],
    rounds: [u8; TASKS],
    nodes: Vec<Node>,
    made: NodeId,
    losses: u8,
    drops: u8,
    // A guard was made on a node that was lost before.
    revived: bool,
    // Releases that the fault of D2 tells the ledger later: (task's generation, mode, node).
    late: Vec<(Generation, Mode, NodeId)>,
}

/// The ledger, as a hashable value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Book(Ledger<(), NodeId>);

impl std::hash::Hash for Book {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash_of(&(), state);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Enter(usize, Mode),
    /// A task that joined looks again.
    Again(usize),
    /// The server admits the node of the task that acquires.
    Admit(usize),
    /// The task that acquires is dropped.
    Drop(usize),
    Release(usize),
    Downgrade(usize),
    Lose(NodeId),
    LeaveLands(NodeId),
    TurnLands(NodeId),
}

impl State {
    fn node(&mut self, id: NodeId) -> Option<&mut Node> {
        self.nodes.iter_mut().find(|node| node.id == id)
    }

    fn is_lost(&self, id: NodeId) -> bool {
        self.nodes.iter().all(|node| node.id != id || node.lost)
    }

    fn wake(&mut self) {
        for task in &mut self.tasks {
            if let Task::Joined { woken, .. } = task {
                *woken = true;
            }
        }
    }

    fn leave(&mut self, id: NodeId) {
        if let Some(node) = self.node(id) {
            node.leaving = true;
        }
    }
}

impl Owners {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn enter(&self, state: &mut State, task: usize, mode: Mode) {
        let lost: Vec<_> = state.nodes.iter().filter(|node| node.lost).map(|node| node.id).collect();
        let left_of = |id: &NodeId, state: &State| state.nodes.iter().all(|node| node.id != *id);
        let (before, unseen) = (state.clone(), self.has(Fault::LossUnseen));
        let entered = state
            .ledger
            .0
            .enter(&(), mode, |node| !unseen && (lost.contains(node) || left_of(node, &before)));
        state.tasks[task] = match entered {
            Entered::Acquire(generation) => self.acquire(state, mode, generation),
            Entered::Join { .. } if self.has(Fault::TwoAcquisitions) => self.acquire(state, mode, 0),
            Entered::Join { .. } => Task::Joined { mode, woken: false },
            Entered::Again(generation, node) => {
                state.revived |= state.is_lost(node);
                Task::Holding { mode, generation, node }
            }
            Entered::Deadlock => Task::Idle,
        };
    }

    fn acquire(&self, state: &mut State, mode: Mode, generation: Generation) -> Task {
        state.made += 1;
        let id = state.made;
        state.nodes.push(Node { id, mode, admitted: false, leaving: false, turning: false, lost: false });
        Task::Acquiring { mode, generation, node: id }
    }

    fn left(&self, state: &mut State, left: Left<NodeId>) {
        match left {
            Left::Last(node) => state.leave(node),
            Left::Downgrade(node) if !self.has(Fault::NoDowngrade) => {
                if let Some(node) = state.node(node) {
                    node.turning = true;
                }
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
}

impl Model for Owners {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            ledger: Book(Ledger::new()),
            tasks: [Task::Idle; TASKS],
            rounds: [0; TASKS],
            nodes: Vec::new(),
            made: 0,
            losses: 0,
            drops: 0,
            revived: false,
            late: Vec::new(),
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (task, now) in state.tasks.iter().enumerate() {
            match now {
                Task::Idle if state.rounds[task] < 2 => {
                    steps.extend([Mode::Exclusive, Mode::Shared].map(|mode| Step::Enter(task, mode)));
                }
                Task::Idle | Task::Joined { woken: false, .. } => {}
                Task::Joined { woken: true, .. } => steps.push(Step::Again(task)),
                Task::Acquiring { node, .. } => {
                    // The server lets it in once no other of this owner's stands before it.
                    let first = state.nodes.iter().find(|other| !other.lost).map(|other| other.id);
                    if first == Some(*node) {
                        steps.push(Step::Admit(task));
                    }
                    if state.drops == 0 {
                        steps.push(Step::Drop(task));
                    }
                }
                Task::Holding { mode, .. } => {
                    steps.push(Step::Release(task));
                    if *mode == Mode::Exclusive {
                        steps.push(Step::Downgrade(task));
                    }
                }
            }
        }
        for node in &state.nodes {
            if node.admitted && !node.lost && state.losses == 0 {
                steps.push(Step::Lose(node.id));
            }
            if node.leaving {
                steps.push(Step::LeaveLands(node.id));
            }
            if node.turning {
                steps.push(Step::TurnLands(node.id));
            }
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::Enter(task, mode) => {
                state.rounds[task] += 1;
                self.enter(&mut state, task, mode);
            }
            Step::Again(task) => {
                let Task::Joined { mode, .. } = state.tasks[task] else { return None };
                self.enter(&mut state, task, mode);
            }
            Step::Admit(task) => {
                let Task::Acquiring { mode, generation, node } = state.tasks[task] else { return None };
                state.node(node)?.admitted = true;
                state.ledger.0.acquired(&(), generation, mode, node);
                state.tasks[task] = Task::Holding { mode, generation, node };
                state.wake();
            }
            Step::Drop(task) => {
                let Task::Acquiring { generation, node, .. } = state.tasks[task] else { return None };
                state.drops += 1;
                state.tasks[task] = Task::Idle;
                state.leave(node);
                if !self.has(Fault::SilentDrop) {
                    state.ledger.0.gave_up(&(), generation);
                    state.wake();
                }
            }
            Step::Release(task) => self.release(&mut state, task),
            Step::Downgrade(task) => {
                let Task::Holding { generation, node, .. } = state.tasks[task] else { return None };
                let turned = state.ledger.0.convert(&(), generation);
                state.tasks[task] = match turned {
                    // The guard was lost before, and says so.
                    Left::Stale => Task::Idle,
                    _ => Task::Holding { mode: Mode::Shared, generation, node },
                };
                self.left(&mut state, turned);
            }
            Step::Lose(id) => {
                state.losses += 1;
                state.node(id)?.lost = true;
            }
            Step::LeaveLands(id) => {
                state.nodes.retain(|node| node.id != id);
                if let Some(at) = state.late.iter().position(|(.., node)| *node == id) {
                    let (generation, mode, _) = state.late.remove(at);
                    let left = state.ledger.0.leave(&(), generation, mode);
                    self.left(&mut state, left);
                }
            }
            Step::TurnLands(id) => {
                let node = state.node(id)?;
                node.turning = false;
                node.mode = Mode::Shared;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        sound()
    }
}

impl Protocol for Owners {
    fn verdict(&self, state: &State) -> Option<Broken> {
        if state.revived {
            return Some(Broken::Revived);
        }
        let node = |id: NodeId| state.nodes.iter().find(|node| node.id == id);
        for task in &state.tasks {
            let Task::Holding { mode, node: id, .. } = *task else { continue };
            // A guard whose node is not lost counts on it.
            match node(id) {
                Some(node) if node.lost => {}
                Some(node) if mode == Mode::Exclusive && (node.mode == Mode::Shared || node.turning) => {
                    return Some(Broken::Believes);
                }
                Some(node) if !node.leaving => {}
                // A lost node that was swept away is told by its loss.
                None if state.losses > 0 && state.made > 1 && !state.late.is_empty() => {}
                _ => return Some(Broken::Believes),
            }
        }
        let alive = state.nodes.iter().filter(|node| !node.leaving && !node.lost);
        if alive.clone().count() > 1 {
            return Some(Broken::TwoNodes);
        }
        let acquiring = state.tasks.iter().any(|task| matches!(task, Task::Acquiring { .. }));
        let asleep = state.tasks.iter().any(|task| matches!(task, Task::Joined { woken: false, .. }));
        if asleep && !acquiring {
            return Some(Broken::Stuck);
        }
        let held = |id: NodeId, by: Mode| {
            state
                .tasks
                .iter()
                .any(|task| matches!(task, Task::Holding { mode, node, .. } if *node == id && *mode == by))
        };
        for node in alive.filter(|node| node.admitted) {
            let (writes, reads) = (held(node.id, Mode::Exclusive), held(node.id, Mode::Shared));
            if !writes && !reads && state.late.is_empty() {
                return Some(Broken::Ghost);
            }
            // Other readers wait for a writer that is none.
            if !writes && reads && node.mode == Mode::Exclusive && !node.turning {
                return Some(Broken::Stuck);
            }
        }
        None
    }
}

#[test]
fn d_every_order_of_an_owners_tasks_is_sound() {
    assert_sound("D", Owners { fault: None });
}

fn found(fault: Fault) {
    assert_found(&format!("D without {fault:?}"), Owners { fault: Some(fault) });
}

#[test]
fn d1_generations() {
    found(Fault::NoGeneration);
}

#[test]
fn d2_removed_at_once() {
    found(Fault::LateRemoval);
}

#[test]
fn d3_one_acquisition() {
    found(Fault::TwoAcquisitions);
}

#[test]
fn d4_another_takes_over() {
    found(Fault::SilentDrop);
}

#[test]
fn d5_loss_clears() {
    found(Fault::LossUnseen);
}

#[test]
fn the_last_writer_downgrades() {
    found(Fault::NoDowngrade);
}
