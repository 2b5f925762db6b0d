//! The model of several locks that are acquired as one.
//!
//! [`Gather`] and [`canonical_order`] are the code that runs. Three clients acquire two or three of
//! three locks once each, every client in an order of its own. A lock is a queue: it admits its
//! head. Tries and leaves arrive in any order, and one hold is lost while its client waits for
//! another lock. Nothing else is lost: a lost message delays a client and stops none, as the other
//! models show. A state is broken if clients wait and nothing can happen any more.

mod rules;

use latchwork_core::backend::decide::gather::{Gather, Next, canonical_order};
use stateright::{Model, Property};

use crate::explore::{Broken, Protocol, sound};

pub(super) const LOCKS: usize = 3;
pub(super) const CLIENTS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// GATHER-CANONICAL-ORDER: each client waits in the order in which it was given the locks.
    GivenOrder,
    /// GATHER-TRY-WHOLE: what a refused try has acquired is kept during the wait.
    KeepsTried,
    /// GATHER-LOSS-BEGINS-AGAIN: after a loss, only the lost lock is waited for.
    KeepsAfterLoss,
}

#[derive(Clone, Debug)]
pub(super) struct Locks {
    /// The locks of each client, in the order in which it was given them.
    pub(super) given: [&'static [usize]; CLIENTS],
    pub(super) losses: u8,
    pub(super) fault: Option<Fault>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    gather: Gather,
    doing: Doing,
    // Holds, as the client believes.
    holds: [bool; LOCKS],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Doing {
    /// The next step is due.
    Idle,
    /// Tries that have not arrived yet.
    Trying {
        on_the_way: [bool; LOCKS],
        refused: bool,
    },
    /// In this lock's queue.
    Waiting(usize),
    Holding,
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    clients: Vec<Client>,
    // The clients in each lock's queue.
    queues: [Vec<usize>; LOCKS],
    // Leaves on their way: client and lock.
    leaves: Vec<(usize, usize)>,
    losses: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Proceed(usize),
    TryArrives(usize, usize),
    Admitted(usize),
    Release(usize),
    LeaveArrives(usize),
    /// A hold is lost while its client waits for another lock.
    Lost(usize, usize),
}

impl Locks {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// The locks of a client, in the order in which it waits for them.
    fn order(&self, client: usize) -> Vec<usize> {
        let given = self.given[client];
        if self.has(Fault::GivenOrder) {
            return given.to_vec();
        }
        let order = canonical_order(given).expect("no lock twice");
        order.into_iter().map(|place| given[place]).collect()
    }

    fn give_back(state: &mut State, client: usize) {
        for lock in 0..LOCKS {
            if std::mem::take(&mut state.clients[client].holds[lock]) {
                state.leaves.push((client, lock));
            }
        }
        state.leaves.sort_unstable();
    }

    fn proceed(&self, state: &mut State, client: usize) {
        let order = self.order(client);
        let next = state.clients[client].gather.next();
        state.clients[client].doing = match next {
            Next::TryAll => {
                let on_the_way = std::array::from_fn(|lock| order.contains(&lock));
                Doing::Trying { on_the_way, refused: false }
            }
            Next::Done => Doing::Holding,
            Next::WaitFor(place) if state.clients[client].holds[order[place]] => {
                // Kept, by a fault.
                state.clients[client].gather.admitted();
                Doing::Idle
            }
            Next::WaitFor(place) => {
                state.queues[order[place]].push(client);
                Doing::Waiting(order[place])
            }
        };
    }

    fn try_arrives(&self, state: &mut State, client: usize, lock: usize) {
        let free = state.queues[lock].is_empty();
        let now = &mut state.clients[client];
        let Doing::Trying { on_the_way, refused } = &mut now.doing else { return };
        on_the_way[lock] = false;
        *refused |= !free;
        if free {
            state.queues[lock].push(client);
            now.holds[lock] = true;
        }
        if on_the_way.contains(&true) {
            return;
        }
        let all = !*refused;
        now.gather.tried(all);
        now.doing = Doing::Idle;
        if !all && !self.has(Fault::KeepsTried) {
            Self::give_back(state, client);
        }
    }

    fn lost(&self, state: &mut State, client: usize, lock: usize) {
        state.losses += 1;
        state.queues[lock].retain(|other| *other != client);
        state.clients[client].holds[lock] = false;
        // The wait is given up with it.
        if let Doing::Waiting(awaited) = state.clients[client].doing {
            state.leaves.push((client, awaited));
            state.leaves.sort_unstable();
        }
        state.clients[client].gather.lost();
        state.clients[client].doing = Doing::Idle;
        if !self.has(Fault::KeepsAfterLoss) {
            Self::give_back(state, client);
        }
    }
}

impl Model for Locks {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let client = |locks: &&[usize]| Client {
            gather: Gather::new(locks.len()),
            doing: Doing::Idle,
            holds: [false; LOCKS],
        };
        vec![State {
            clients: self.given.iter().map(client).collect(),
            queues: Default::default(),
            leaves: Vec::new(),
            losses: 0,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (number, client) in state.clients.iter().enumerate() {
            match &client.doing {
                // Its own leaves arrive first: a client waits for them before it joins again.
                Doing::Idle if state.leaves.iter().all(|(of, _)| *of != number) => {
                    steps.push(Step::Proceed(number));
                }
                Doing::Idle | Doing::Done => {}
                Doing::Trying { on_the_way, .. } => {
                    let locks = (0..LOCKS).filter(|lock| on_the_way[*lock]);
                    steps.extend(locks.map(|lock| Step::TryArrives(number, lock)));
                }
                Doing::Waiting(lock) => {
                    if state.queues[*lock].first() == Some(&number) {
                        steps.push(Step::Admitted(number));
                    }
                    if state.losses < self.losses {
                        let held = (0..LOCKS).filter(|lock| client.holds[*lock]);
                        steps.extend(held.map(|lock| Step::Lost(number, lock)));
                    }
                }
                Doing::Holding => steps.push(Step::Release(number)),
            }
        }
        steps.extend((0..state.leaves.len()).map(Step::LeaveArrives));
    }

    fn next_state(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        match step {
            Step::Proceed(client) => self.proceed(&mut state, client),
            Step::TryArrives(client, lock) => self.try_arrives(&mut state, client, lock),
            Step::Admitted(client) => {
                let now = &mut state.clients[client];
                if let Doing::Waiting(lock) = now.doing {
                    now.holds[lock] = true;
                    now.gather.admitted();
                    now.doing = Doing::Idle;
                }
            }
            Step::Release(client) => {
                state.clients[client].doing = Doing::Done;
                Self::give_back(&mut state, client);
            }
            Step::LeaveArrives(place) => {
                let (client, lock) = state.leaves.remove(place);
                state.queues[lock].retain(|other| *other != client);
            }
            Step::Lost(client, lock) => self.lost(&mut state, client, lock),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        sound()
    }
}

impl Protocol for Locks {
    fn verdict(&self, state: &State) -> Option<Broken> {
        for (number, client) in state.clients.iter().enumerate() {
            let whole = self.given[number].iter().all(|lock| client.holds[*lock]);
            if client.doing == Doing::Holding && !whole {
                return Some(Broken::Believes);
            }
            let heads = (0..LOCKS).filter(|lock| client.holds[*lock]);
            if heads.into_iter().any(|lock| state.queues[lock].first() != Some(&number)) {
                return Some(Broken::TwoHolders);
            }
        }
        let mut steps = Vec::new();
        self.actions(state, &mut steps);
        // A loss comes from outside: no client may depend on one.
        let moves = steps.iter().any(|step| !matches!(step, Step::Lost(..)));
        let done = state.clients.iter().all(|client| client.doing == Doing::Done);
        let left = state.queues.iter().any(|queue| !queue.is_empty());
        match (moves, done) {
            (false, false) => Some(Broken::Stuck),
            (false, true) if left => Some(Broken::Ghost),
            _ => None,
        }
    }
}
