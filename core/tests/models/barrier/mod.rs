//! The model of a barrier, over [`Passage`], the code that runs.
//!
//! Clients enter a barrier of two, once or twice each. A client reads the cell, then the queue, then
//! writes what follows; anything may happen in between. Members die or give up at any instant; a
//! dead one stays in the queue until its lease ends. Whoever is done gives its place back, and then
//! takes the cell along if the queue is empty. A state is broken if fewer than two pass together,
//! if a member passes with others than those of its passage, or if two live members wait and
//! nothing can happen any more.

mod rules;

use latchwork_core::backend::decide::barrier::Passage;
use stateright::{Model, Property};

use crate::explore::{Broken, Protocol, sound};

pub(super) const PARTIES: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// CELL-CAS: the passage is written whatever it is by now.
    ComparesNothing,
    /// BARRIER-DELETE-UNDER-VERSION: the last one deletes the cell whatever it is by now.
    DeletesBlindly,
    /// BARRIER-COUNT-BEHIND: all who stand are counted, also those who have passed.
    CountsThePassed,
}

#[derive(Clone, Debug)]
pub(super) struct Barrier {
    pub(super) clients: usize,
    pub(super) rounds: u8,
    pub(super) deaths: u8,
    pub(super) emptied: bool,
    pub(super) fault: Option<Fault>,
}

/// The cell and its version.
type Cell = Option<(u8, u64, u64)>;

fn passage(cell: Cell) -> Passage {
    cell.map_or_else(Passage::default, |(_, passed, left)| Passage { passed, left })
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Doing {
    Outside,
    /// Waits with this number.
    Waiting(u64),
    /// Has read the cell.
    HasCell(u64, Cell),
    /// Has read both.
    HasBoth(u64, Cell, Vec<u64>),
    /// Has passed, and stands still.
    Passed(u64),
    /// Has given its place back, and looks whether the barrier is empty.
    Leaves(Option<Option<Cell>>),
    Dead,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    cell: Cell,
    versions: u8,
    queue: Vec<u64>,
    // The numbers of dead members that stand still.
    dead: Vec<u64>,
    last: u64,
    clients: Vec<(Doing, u8)>,
    // Every passage: from above the first number to the second.
    passages: Vec<(u64, u64)>,
    deaths: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Joins(usize),
    ReadsCell(usize),
    ReadsQueue(usize),
    Writes(usize),
    Passes(usize),
    GivesBack(usize),
    Tidies(usize),
    Dies(usize),
    /// The lease of a dead member ends.
    Expires(usize),
}

impl Barrier {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// What follows, by what a client has read.
    fn next(&self, cell: Cell, queue: &[u64]) -> Option<Passage> {
        let now = passage(cell);
        if self.emptied
            && let Some(emptied) = now.emptied(queue.iter().copied())
        {
            return Some(emptied);
        }
        if self.has(Fault::CountsThePassed) {
            let all = Passage { passed: 0, left: 0 }.next(PARTIES, false, queue.iter().copied());
            // What has passed does not go back.
            return all.filter(|all| all.passed > now.passed).or_else(|| {
                let behind = queue.iter().copied().filter(|number| *number > now.passed).next_back();
                behind.filter(|_| queue.len() >= PARTIES).map(|passed| Passage { passed, ..now })
            });
        }
        now.next(PARTIES, self.emptied, queue.iter().copied())
    }

    fn writes(&self, state: &mut State, who: usize) {
        let Doing::HasBoth(number, cell, queue) = state.clients[who].0.clone() else { return };
        state.clients[who].0 = Doing::Waiting(number);
        let Some(next) = self.next(cell, &queue) else { return };
        let unchanged = cell.map(|cell| cell.0) == state.cell.map(|cell| cell.0);
        if unchanged || self.has(Fault::ComparesNothing) {
            let before = passage(state.cell).passed;
            if next.passed != before {
                state.passages.push((before, next.passed));
            }
            state.versions += 1;
            state.cell = Some((state.versions, next.passed, next.left));
        }
    }

    fn tidies(&self, state: &mut State, who: usize) {
        let Doing::Leaves(read) = state.clients[who].0 else { return };
        let next = match read {
            // The cell, then the queue and the deletion in two steps.
            None => Doing::Leaves(Some(Some(state.cell))),
            Some(Some(_)) if !state.queue.is_empty() => Doing::Outside,
            Some(Some(None)) => Doing::Outside,
            Some(Some(cell)) => {
                // The queue was seen to be empty; the deletion comes in the next step.
                state.clients[who].0 = Doing::HasBoth(0, cell, Vec::new());
                return;
            }
            Some(None) => Doing::Outside,
        };
        state.clients[who].0 = next;
    }

    fn deletes(&self, state: &mut State, who: usize, cell: Cell) {
        let unchanged = cell.map(|cell| cell.0) == state.cell.map(|cell| cell.0);
        if unchanged || self.has(Fault::DeletesBlindly) {
            state.cell = None;
        }
        state.clients[who].0 = Doing::Outside;
    }
}

impl Model for Barrier {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            cell: None,
            versions: 0,
            queue: Vec::new(),
            dead: Vec::new(),
            last: 0,
            clients: vec![(Doing::Outside, 0); self.clients],
            passages: Vec::new(),
            deaths: 0,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (who, (doing, rounds)) in state.clients.iter().enumerate() {
            match doing {
                Doing::Outside if *rounds < self.rounds => steps.push(Step::Joins(who)),
                Doing::Outside | Doing::Dead => {}
                Doing::Waiting(number) if passage(state.cell).passed >= *number => {
                    steps.push(Step::Passes(who));
                }
                Doing::Waiting(_) => steps.push(Step::ReadsCell(who)),
                Doing::HasCell(..) => steps.push(Step::ReadsQueue(who)),
                Doing::HasBoth(..) => steps.push(Step::Writes(who)),
                Doing::Passed(_) => steps.push(Step::GivesBack(who)),
                Doing::Leaves(_) => steps.push(Step::Tidies(who)),
            }
            if state.deaths < self.deaths && !matches!(doing, Doing::Outside | Doing::Dead) {
                steps.push(Step::Dies(who));
            }
        }
        steps.extend((0..state.dead.len()).map(Step::Expires));
    }

    fn next_state(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        match step {
            Step::Joins(who) => {
                state.last += 1;
                state.queue.push(state.last);
                state.clients[who] = (Doing::Waiting(state.last), state.clients[who].1 + 1);
            }
            Step::ReadsCell(who) => {
                state.clients[who].0 = match state.clients[who].0.clone() {
                    Doing::Waiting(number) => Doing::HasCell(number, state.cell),
                    _ => return None,
                };
            }
            Step::ReadsQueue(who) => {
                state.clients[who].0 = match state.clients[who].0.clone() {
                    Doing::HasCell(number, cell) => Doing::HasBoth(number, cell, state.queue.clone()),
                    _ => return None,
                };
            }
            Step::Writes(who) => match state.clients[who].0.clone() {
                Doing::HasBoth(0, cell, _) => self.deletes(&mut state, who, cell),
                _ => self.writes(&mut state, who),
            },
            Step::Passes(who) => {
                let Doing::Waiting(number) = state.clients[who].0 else { return None };
                state.clients[who].0 = Doing::Passed(number);
            }
            Step::GivesBack(who) => {
                let Doing::Passed(number) = state.clients[who].0 else { return None };
                state.queue.retain(|other| *other != number);
                state.clients[who].0 = Doing::Leaves(None);
            }
            Step::Tidies(who) => self.tidies(&mut state, who),
            Step::Dies(who) => {
                state.deaths += 1;
                let doing = std::mem::replace(&mut state.clients[who].0, Doing::Dead);
                if let Doing::Waiting(number)
                | Doing::HasCell(number, _)
                | Doing::HasBoth(number @ 1.., ..)
                | Doing::Passed(number) = doing
                {
                    state.dead.push(number);
                }
            }
            Step::Expires(place) => {
                let number = state.dead.remove(place);
                state.queue.retain(|other| *other != number);
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        sound()
    }
}

impl Protocol for Barrier {
    fn verdict(&self, state: &State) -> Option<Broken> {
        // Numbers that have passed before count no more; numbers that never were are none.
        let mut highest = 0;
        for (_, to) in &state.passages {
            if *to <= highest || to - highest < PARTIES as u64 {
                return Some(Broken::PassedAlone);
            }
            highest = *to;
        }
        let mut steps = Vec::new();
        self.actions(state, &mut steps);
        let waits = |(doing, _): &&(Doing, u8)| matches!(doing, Doing::Waiting(_));
        let waiting = state.clients.iter().filter(waits).count();
        // A look that finds nothing changes nothing: who waits may look for ever.
        let idle =
            steps.iter().all(|step| matches!(step, Step::ReadsCell(_) | Step::ReadsQueue(_) | Step::Dies(_)));
        let looks_help = || {
            let now = state.cell;
            self.next(now, &state.queue).is_some()
        };
        let all_wait = state
            .clients
            .iter()
            .all(|(doing, _)| matches!(doing, Doing::Waiting(_) | Doing::Dead | Doing::Outside));
        (idle && all_wait && waiting >= PARTIES && !looks_help()).then_some(Broken::Stuck)
    }
}
