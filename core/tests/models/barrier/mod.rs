//! The model of a barrier, over [`Passage`] (the BARRIER- rules).
//!
//! Clients enter a barrier of two, once or twice each. A client reads the cell, then the queue, then writes
//! the next passage, each in a separate step. It looks after its join only if enough nodes were ahead, and
//! again only if clients may die or lose leases. Their nodes then stay in the queue until the server ends the
//! lease. In a mixed model the last client uses the barrier as one of three. A state is broken if fewer than
//! two members pass together, if a member passes uncounted or still waits after a passage that counted it, or
//! if two live members wait and no step is possible.

mod rules;
mod steps;

use latchwork_core::backend::decide::barrier::Passage;

use crate::explore::{Broken, Protocol, offer};

pub(super) const PARTIES: u32 = 2;
/// The parties of the last client in a mixed model.
pub(super) const OTHERS: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// CELL-CAS: a passage is written without a comparison of the version.
    ComparesNothing,
    /// BARRIER-DELETE-UNDER-VERSION: the cell is deleted without a comparison of the version.
    DeletesBlindly,
    /// BARRIER-COUNT-BEHIND: members that have passed count again.
    CountsThePassed,
    /// BARRIER-COUNT-MEMBERS: each node counts as a member. A member joins again at once.
    CountsNodes,
    /// BARRIER-GONE-BEFORE-AGAIN: a member joins again at once.
    JoinsAtOnce,
    /// BARRIER-GONE-BEFORE-AGAIN: a member joins again without a write of the cell.
    WritesNothing,
    /// BARRIER-ONE-NUMBER: members with another number count too.
    CountsOthers,
    /// BARRIER-ONE-NUMBER: a number is replaced next to members of the last passage.
    ReplacesAtOnce,
    /// BARRIER-LAST-LOOKS: a member looks only if one node more was ahead.
    LooksLate,
    /// BARRIER-LAST-LOOKS: the last member that leaves lets no others enter.
    LeavesSilently,
}

#[derive(Clone, Debug)]
pub(super) struct Barrier {
    pub(super) clients: usize,
    pub(super) rounds: u8,
    pub(super) deaths: u8,
    pub(super) losses: u8,
    pub(super) emptied: bool,
    pub(super) mixed: bool,
    pub(super) fault: Option<Fault>,
}

pub(super) type Cell = Option<(u8, u64, u64, u32)>;

fn passage(cell: Cell) -> Passage {
    cell.map_or_else(Passage::default, |(_, passed, left, parties)| Passage { passed, left, parties })
}

/// A number in the queue, and a client.
pub(super) type Node = (u64, usize);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Doing {
    Outside,
    /// The flag: it is about to look.
    Waiting(u64, bool),
    HasCell(u64, Cell),
    HasBoth(u64, Cell, Vec<Node>),
    /// It has lost its lease while it waited.
    Lost(u64),
    LostCell(u64, Cell),
    /// It has seen that its old node is gone.
    Gone(u64, Cell),
    Passed(u64),
    /// It has given its place back, and checks whether the barrier is empty.
    Leaves,
    LeavesCell(Cell),
    LeavesBoth(Cell, Vec<Node>),
    Refused(u64),
    Dead,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    cell: Cell,
    versions: u8,
    queue: Vec<Node>,
    // Numbers of nodes on lost leases.
    dead: Vec<u64>,
    last: u64,
    clients: Vec<(Doing, u8)>,
    // Of each passage: the last number before it, its last number, and the number of clients that it counts
    // too few.
    passages: Vec<(u64, u64, u32)>,
    // Clients that a passage has counted, and that have not passed yet.
    owed: Vec<usize>,
    uncounted: bool,
    deaths: u8,
    losses: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Goes(usize, Doing),
    Dies(usize),
    Loses(usize),
    /// The server ends a lost lease.
    Expires(usize),
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
            let sleeps = match doing {
                Doing::Waiting(number, false) => {
                    let agrees = passage(state.cell).parties == self.parties(who);
                    agrees && !self.rechecks() && !self.has_passed(state, who, *number)
                }
                _ => false,
            };
            offer(steps, inside && !sleeps || comes, Step::Goes(who, doing.clone()));
            offer(steps, inside && state.deaths < self.deaths, Step::Dies(who));
            let waits = matches!(doing, Doing::Waiting(..) | Doing::HasCell(..) | Doing::HasBoth(..));
            offer(steps, waits && state.losses < self.losses, Step::Loses(who));
        }
        steps.extend((0..state.dead.len()).map(Step::Expires));
    }

    fn step(&self, state: &mut State, step: Step) {
        match step {
            Step::Goes(who, doing) => self.goes(state, who, doing),
            Step::Dies(who) => {
                state.deaths += 1;
                if let Doing::Waiting(number, _)
                | Doing::HasCell(number, _)
                | Doing::HasBoth(number, ..)
                | Doing::Refused(number)
                | Doing::Passed(number) = std::mem::replace(&mut state.clients[who].0, Doing::Dead)
                {
                    state.dead.push(number);
                }
                state.owed.retain(|owed| *owed != who);
            }
            Step::Loses(who) => {
                state.losses += 1;
                if let Doing::Waiting(number, _) | Doing::HasCell(number, _) | Doing::HasBoth(number, ..) =
                    state.clients[who].0
                {
                    state.dead.push(number);
                    state.clients[who].0 = Doing::Lost(number);
                }
            }
            Step::Expires(place) => {
                let number = state.dead.remove(place);
                state.queue.retain(|(other, _)| *other != number);
            }
        }
    }

    fn verdict(&self, state: &State) -> Option<Broken> {
        let mut highest = 0;
        for (_, to, missing) in &state.passages {
            if *to <= highest || *missing > 0 || state.uncounted {
                return Some(Broken::PassedAlone);
            }
            highest = *to;
        }
        let waits = |who: usize| matches!(&state.clients[who].0, Doing::Waiting(number, _) if !self.has_passed(state, who, *number));
        let passed = passage(state.cell).passed;
        let behind =
            |who: &usize| matches!(&state.clients[*who].0, Doing::Waiting(number, _) if *number > passed);
        if state.owed.iter().any(behind) {
            return Some(Broken::LeftBehind);
        }
        // A look without a result changes nothing, so a waiter may repeat it for ever.
        let stays = |who: usize| match &state.clients[who] {
            (Doing::Outside, rounds) => *rounds >= self.rounds,
            (Doing::Dead, _) => true,
            (Doing::Waiting(_, looks), _) => {
                waits(who) && !looks && passage(state.cell).parties == self.parties(who)
            }
            _ => false,
        };
        let waiting = (0..self.clients).filter(|who| waits(*who) && self.parties(*who) == PARTIES).count();
        let idle = state.dead.is_empty() && (0..self.clients).all(stays);
        let looks_help = || self.rechecks() && self.next(state.cell, &state.queue, false).is_some();
        (idle && waiting >= PARTIES as usize && !looks_help()).then_some(Broken::Stuck)
    }
}
