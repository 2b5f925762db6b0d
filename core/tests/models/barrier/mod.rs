//! The model of a barrier, over [`Passage`], the code that runs.
//!
//! Clients enter a barrier of two, once or twice each. A client reads the cell, then the queue, then writes
//! the passage that follows from them. Between these steps, other clients take theirs. Members die or give up
//! at any instant; a dead member stays in the queue until its lease ends. A member that is done gives its
//! place back, and then deletes the cell if the queue is empty. A state is broken if fewer than two members
//! pass together, if a member passes with members of another passage, or if two live members wait and no step
//! is possible any more.

mod rules;

use latchwork_core::backend::decide::barrier::Passage;

use crate::explore::{Broken, Protocol, offer};

pub(super) const PARTIES: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// CELL-CAS: the passage is written without a comparison of the version.
    ComparesNothing,
    /// BARRIER-DELETE-UNDER-VERSION: the last member deletes the cell without a comparison of the version.
    DeletesBlindly,
    /// BARRIER-COUNT-BEHIND: all members in the queue are counted, also the members that have passed.
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
pub(super) type Cell = Option<(u8, u64, u64)>;

fn passage(cell: Cell) -> Passage {
    cell.map_or_else(Passage::default, |(_, passed, left)| Passage { passed, left })
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Doing {
    Outside,
    /// Waits with this number.
    Waiting(u64),
    /// Has read the cell.
    HasCell(u64, Cell),
    /// Has read the cell and the queue.
    HasBoth(u64, Cell, Vec<u64>),
    /// Has passed, and is still in the queue.
    Passed(u64),
    /// Has given its place back, and checks whether the barrier is empty.
    Leaves,
    /// The same, after a read of the cell.
    LeavesCell(Cell),
    /// Has also read an empty queue.
    Deletes(Cell),
    Dead,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    cell: Cell,
    versions: u8,
    queue: Vec<u64>,
    // The numbers of dead members that are still in the queue.
    dead: Vec<u64>,
    last: u64,
    clients: Vec<(Doing, u8)>,
    // Every passage: the number of the last member before it, and of its last member.
    passages: Vec<(u64, u64)>,
    deaths: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A client takes its next step from here.
    Goes(usize, Doing),
    Dies(usize),
    /// The lease of a dead member ends.
    Expires(usize),
}

impl Barrier {
    /// The passage that follows from the reads of a client.
    fn next(&self, cell: Cell, queue: &[u64]) -> Option<Passage> {
        let (now, numbers) = (passage(cell), || queue.iter().copied());
        if let Some(emptied) = now.emptied(numbers()).filter(|_| self.emptied) {
            return Some(emptied);
        }
        if self.fault == Some(Fault::CountsThePassed) {
            let all = Passage { passed: 0, left: 0 }.next(PARTIES, false, numbers());
            // `passed` never goes back.
            return all.filter(|all| all.passed > now.passed).or_else(|| {
                let behind = numbers().rfind(|number| *number > now.passed);
                behind.filter(|_| queue.len() >= PARTIES).map(|passed| Passage { passed, ..now })
            });
        }
        now.next(PARTIES, self.emptied, numbers())
    }

    fn writes(&self, state: &mut State, cell: Cell, queue: &[u64]) {
        let Some(next) = self.next(cell, queue) else { return };
        if cell == state.cell || self.fault == Some(Fault::ComparesNothing) {
            let before = passage(state.cell).passed;
            if next.passed != before {
                state.passages.push((before, next.passed));
            }
            state.versions += 1;
            state.cell = Some((state.versions, next.passed, next.left));
        }
    }

    fn goes(&self, state: &mut State, who: usize, doing: Doing) {
        state.clients[who].0 = match doing {
            Doing::Outside => {
                state.last += 1;
                state.queue.push(state.last);
                state.clients[who].1 += 1;
                Doing::Waiting(state.last)
            }
            Doing::Waiting(number) if passage(state.cell).passed >= number => Doing::Passed(number),
            Doing::Waiting(number) => Doing::HasCell(number, state.cell),
            Doing::HasCell(number, cell) => Doing::HasBoth(number, cell, state.queue.clone()),
            Doing::HasBoth(number, cell, queue) => {
                self.writes(state, cell, &queue);
                Doing::Waiting(number)
            }
            Doing::Passed(number) => {
                state.queue.retain(|other| *other != number);
                Doing::Leaves
            }
            Doing::Leaves => Doing::LeavesCell(state.cell),
            Doing::LeavesCell(Some(cell)) if state.queue.is_empty() => Doing::Deletes(Some(cell)),
            Doing::LeavesCell(_) => Doing::Outside,
            Doing::Deletes(cell) => {
                if cell == state.cell || self.fault == Some(Fault::DeletesBlindly) {
                    state.cell = None;
                }
                Doing::Outside
            }
            Doing::Dead => Doing::Dead,
        };
    }
}

impl Protocol for Barrier {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State { clients: vec![(Doing::Outside, 0); self.clients], ..State::default() }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (who, (doing, rounds)) in state.clients.iter().enumerate() {
            let inside = !matches!(doing, Doing::Outside | Doing::Dead);
            let comes = *doing == Doing::Outside && *rounds < self.rounds;
            offer(steps, inside || comes, Step::Goes(who, doing.clone()));
            offer(steps, inside && state.deaths < self.deaths, Step::Dies(who));
        }
        steps.extend((0..state.dead.len()).map(Step::Expires));
    }

    fn step(&self, state: &mut State, step: Step) {
        match step {
            Step::Goes(who, doing) => self.goes(state, who, doing),
            Step::Dies(who) => {
                state.deaths += 1;
                if let Doing::Waiting(number)
                | Doing::HasCell(number, _)
                | Doing::HasBoth(number, ..)
                | Doing::Passed(number) = std::mem::replace(&mut state.clients[who].0, Doing::Dead)
                {
                    state.dead.push(number);
                }
            }
            Step::Expires(place) => {
                let number = state.dead.remove(place);
                state.queue.retain(|other| *other != number);
            }
        }
    }

    fn verdict(&self, state: &State) -> Option<Broken> {
        // A passage needs as many numbers as there are parties, and members that passed before do not count
        // again.
        let mut highest = 0;
        for (_, to) in &state.passages {
            if *to <= highest || to - highest < PARTIES as u64 {
                return Some(Broken::PassedAlone);
            }
            highest = *to;
        }
        // A look without a result changes nothing, so a waiter may repeat it for ever.
        let waits =
            |doing: &Doing| matches!(doing, Doing::Waiting(number) if *number > passage(state.cell).passed);
        let stays = |(doing, rounds): &(Doing, u8)| match doing {
            Doing::Outside => *rounds >= self.rounds,
            doing => *doing == Doing::Dead || waits(doing),
        };
        let waiting = state.clients.iter().filter(|(doing, _)| waits(doing)).count();
        let idle = state.dead.is_empty() && state.clients.iter().all(stays);
        let looks_help = || self.next(state.cell, &state.queue).is_some();
        (idle && waiting >= PARTIES && !looks_help()).then_some(Broken::Stuck)
    }
}
