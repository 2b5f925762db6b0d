//! Model D: the ledger that runs, with tasks of one owner that come, join, are kept and not polled, are dropped, downgrade, release,
//! and lose what they hold, in every order.
//!
//! The ledger is called, not copied. A node of the server is a number; a leave and a downgrade are on their way until they
//! land, in any order. Each fault is the opposite of a rule, laid on the way into the ledger; each must be found as what
//! the rule prevents (RULES D). Bounds: three tasks that acquire four times in all (five in the long tier), none more than twice; one
//! loss, one that is dropped while it waits. One that nobody polls takes no step, which is among all orders.

#[allow(dead_code)]
#[path = "../../tests/models/explore.rs"]
mod explore;

use explore::{Broken, Protocol, assert_found, assert_sound, sound};
use stateright::{Model, Property};

use super::ledger::{Entered, Generation, Ledger, Left, Mode, Progress};

const TASKS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fault {
    /// D1: a guard carries no generation: it releases what is held now.
    NoGeneration,
    /// D2: the entry goes only when the server has confirmed the leave.
    LateRemoval,
    /// D3: who finds an acquisition under way begins one of its own.
    TwoAcquisitions,
    /// D4: one that waits, and is dropped, tells nobody.
    SilentDrop,
    /// D4: the acquisition is part of the future of the task that began it: it goes on while that one is polled.
    NotInTheBackground,
    /// D4: an acquisition that nobody waits for any more goes on, and what it is admitted to is held by nobody.
    Unstopped,
    /// D4: another acquisition of the owner may begin before one that nobody waits for is taken back.
    GoneAtOnce,
    /// D4: readers go on waiting for a node that writes, which nobody wants any more.
    WritesForReaders,
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
    generation: Generation,
    // The task that began it.
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
    /// Waits for the acquisition of this generation; woken when that has ended. It may be admitted by then, and not know it.
    Waiting {
        mode: Mode,
        generation: Generation,
        woken: bool,
        // One that would not do: it only waits for its end.
        counted: bool,
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
    // The task that is kept and polled no more.
    kept: Option<usize>,
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
    /// A task that was woken looks.
    Look(usize),
    /// A task that waits is kept, and polled no more.
    Keep(usize),
    /// The server admits this node.
    Admit(NodeId),
    /// The task of an acquisition finds that nobody waits for it.
    Stop(NodeId),
    /// A task that waits is dropped.
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
            if let Task::Waiting { woken, .. } = task {
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
        let waiting = |generation, counted| Task::Waiting { mode, generation, woken: false, counted };
        state.tasks[task] = match entered {
            Entered::Acquire(generation) => {
                Self::acquire(state, task, mode, generation);
                waiting(generation, true)
            }
            Entered::Join(generation) => {
                if self.has(Fault::TwoAcquisitions) {
                    Self::acquire(state, task, mode, generation);
                }
                waiting(generation, true)
            }
            Entered::Later(generation) => waiting(generation, false),
            Entered::Again(generation, node) => {
                state.revived |= state.is_lost(node);
                Task::Holding { mode, generation, node }
            }
            Entered::Deadlock => Task::Idle,
        };
    }

    fn acquire(state: &mut State, began: usize, mode: Mode, generation: Generation) {
        state.made += 1;
        let (id, lost) = (state.made, false);
        state.nodes.push(Node {
            id,
            generation,
            began,
            mode,
            admitted: false,
            leaving: false,
            turning: false,
            lost,
        });
    }

    /// What it waited for has ended, or it was woken for another's sake.
    fn look(&self, state: &mut State, task: usize) {
        let Task::Waiting { mode, generation, counted, .. } = state.tasks[task] else { return };
        match state.ledger.0.progress(&(), generation) {
            Progress::Acquiring { .. } | Progress::Unwanted => {
                state.tasks[task] = Task::Waiting { mode, generation, woken: false, counted };
            }
            // In one that is lost nobody enters: what is counted is given back.
            Progress::Held(node) if counted && state.is_lost(node) => {
                let left = state.ledger.0.leave(&(), generation, mode);
                self.left(state, left);
                self.enter(state, task, mode);
            }
            Progress::Held(node) if counted => state.tasks[task] = Task::Holding { mode, generation, node },
            Progress::Held(_) | Progress::Over => self.enter(state, task, mode),
        }
    }

    /// One that waits is dropped.
    fn drop(&self, state: &mut State, task: usize) -> Option<()> {
        let Task::Waiting { mode, generation, counted, .. } = state.tasks[task] else { return None };
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
        Some(())
    }

    fn left(&self, state: &mut State, left: Left<NodeId>) {
        match left {
            Left::Last(node) => state.leave(node),
            Left::Downgrade(node) if !self.has(Fault::NoDowngrade) => {
                if let Some(node) = state.node(node) {
                    node.turning = true;
                }
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
}

impl Owners {
    /// Whether the acquisition of a node goes on by itself.
    fn goes_on(&self, state: &State, node: &Node) -> bool {
        !self.has(Fault::NotInTheBackground) || state.kept != Some(node.began)
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
            kept: None,
            revived: false,
            late: Vec::new(),
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        let rounds = if explore::long() { 5 } else { 4 };
        for (task, now) in state.tasks.iter().enumerate() {
            match now {
                // One task is as good as another: they begin in their order.
                Task::Idle if task > 0 && state.rounds[task - 1] == 0 => {}
                Task::Idle if state.rounds[task] < 2 && state.rounds.iter().sum::<u8>() < rounds => {
                    steps.extend([Mode::Exclusive, Mode::Shared].map(|mode| Step::Enter(task, mode)));
                }
                Task::Idle => {}
                Task::Waiting { woken, .. } => {
                    if *woken && state.kept != Some(task) {
                        steps.push(Step::Look(task));
                    }
                    // Otherwise a task that nobody polls is one that takes no step: among all orders.
                    if state.kept.is_none() && self.has(Fault::NotInTheBackground) {
                        steps.push(Step::Keep(task));
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
        // The server lets one in once no other of this owner's stands before it.
        let first = state.nodes.iter().find(|node| !node.lost).filter(|node| !node.admitted && !node.leaving);
        steps.extend(first.filter(|node| self.goes_on(state, node)).map(|node| Step::Admit(node.id)));
        for node in &state.nodes {
            let wanted =
                !matches!(state.ledger.0.progress(&(), node.generation), Progress::Unwanted | Progress::Over);
            if !node.admitted && !node.leaving && !wanted && !self.has(Fault::Unstopped) {
                steps.push(Step::Stop(node.id));
            }
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
            Step::Look(task) => self.look(&mut state, task),
            Step::Keep(task) => state.kept = Some(task),
            Step::Admit(id) => {
                let node = state.node(id)?;
                node.admitted = true;
                let generation = node.generation;
                // Nobody waits any more: the hold is dropped as it is made.
                if !state.ledger.0.acquired(&(), generation, id) && !self.has(Fault::Unstopped) {
                    state.leave(id);
                }
                state.ledger.0.gave_up(&(), generation);
                state.wake();
            }
            Step::Stop(id) => {
                let generation = state.node(id)?.generation;
                state.leave(id);
                state.ledger.0.gave_up(&(), generation);
                state.wake();
            }
            Step::Drop(task) => self.drop(&mut state, task)?,
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
        let acquiring =
            state.nodes.iter().any(|node| !node.admitted && !node.leaving && self.goes_on(state, node));
        let asleep = state.tasks.iter().enumerate().any(|(task, now)| {
            let waits = matches!(now, Task::Waiting { woken: false, .. });
            waits && state.kept != Some(task)
        });
        if asleep && !acquiring {
            return Some(Broken::Stuck);
        }
        // Who waited holds from the admission on.
        let held = |of: &Node, by: Mode| {
            state.tasks.iter().any(|task| match *task {
                Task::Holding { mode, node, .. } => node == of.id && mode == by,
                Task::Waiting { mode, generation, counted: true, .. } => {
                    generation == of.generation && mode == by
                }
                _ => false,
            })
        };
        for node in alive.filter(|node| node.admitted) {
            let (writes, reads) = (held(node, Mode::Exclusive), held(node, Mode::Shared));
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
fn d4_who_waits_no_more_says_so() {
    found(Fault::SilentDrop);
}

#[test]
fn d4_acquired_in_the_background() {
    found(Fault::NotInTheBackground);
}

#[test]
fn d4_ended_when_nobody_waits() {
    found(Fault::Unstopped);
}

#[test]
fn d4_taken_back_before_another_begins() {
    found(Fault::GoneAtOnce);
}

#[test]
fn d4_readers_wait_for_a_node_that_somebody_writes_by() {
    found(Fault::WritesForReaders);
}

#[test]
fn d5_loss_clears() {
    found(Fault::LossUnseen);
}

#[test]
fn the_last_writer_downgrades() {
    found(Fault::NoDowngrade);
}
