//! The model of clients that acquire a majority.
//!
//! [`MajorityGather`] is the code that runs. Three clients acquire two of three members once each. Each
//! client may leave one member out, which it cannot reach. A member is a queue: it admits its head.
//! Tries and leaves arrive in any order, and one hold is lost while its client waits. A state is
//! broken if two hold, or if clients wait and nothing can happen any more.

use latchwork_core::backend::decide::quorum::{MajorityGather, NextStep, majority};
use stateright::{Model, Property};

use super::MEMBERS;
use crate::explore::{Broken, Protocol, sound};

pub(super) const CLIENTS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// QUORUM-TRY-WHOLE: an acquisition joins all queues at once, and waits in them.
    JoinsAll,
    /// QUORUM-TRY-WHOLE: what a try without a majority has acquired is kept during the wait.
    KeepsTried,
    /// QUORUM-WAIT-IN-ORDER: each client waits in an order of its own.
    OwnOrder,
}

#[derive(Clone, Debug)]
pub(super) struct Members {
    /// The member that each client cannot reach.
    pub(super) left_out: [Option<usize>; CLIENTS],
    pub(super) losses: u8,
    pub(super) fault: Option<Fault>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    gathering: MajorityGather,
    doing: Doing,
    // Holds, as the client believes.
    holds: [bool; MEMBERS],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Doing {
    /// The next step is due.
    Idle,
    /// Tries that have not arrived yet.
    Trying {
        on_the_way: [bool; MEMBERS],
        answered: usize,
    },
    /// In this member's queue.
    Waiting(usize),
    /// In all queues, by a fault.
    WaitingInAll,
    Holding,
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    clients: Vec<Client>,
    // The clients in each member's queue.
    queues: [Vec<usize>; MEMBERS],
    // Leaves on their way: client and member.
    leaves: Vec<(usize, usize)>,
    losses: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Proceed(usize),
    TryArrives(usize, usize),
    Admitted(usize, usize),
    /// One that has waited for long tries all others at once, which make a majority.
    TryOthers(usize),
    Release(usize),
    LeaveArrives(usize),
    /// A hold is lost while its client waits.
    Lost(usize, usize),
}

impl Client {
    fn held(&self) -> usize {
        self.holds.iter().filter(|holds| **holds).count()
    }
}

impl Members {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn reaches(&self, client: usize, member: usize) -> bool {
        self.left_out[client] != Some(member)
    }

    fn member(&self, client: usize, place: usize) -> usize {
        if self.has(Fault::OwnOrder) { (place + client) % MEMBERS } else { place }
    }

    fn give_back(state: &mut State, client: usize, given: impl Fn(usize) -> bool) {
        for member in (0..MEMBERS).filter(|member| given(*member)) {
            if std::mem::take(&mut state.clients[client].holds[member]) {
                state.leaves.push((client, member));
            }
        }
        state.leaves.sort_unstable();
    }

    fn proceed(&self, state: &mut State, client: usize) {
        let now = &mut state.clients[client];
        match now.gathering.next(now.held()) {
            NextStep::TryAll => {
                let on_the_way = std::array::from_fn(|member| self.reaches(client, member));
                now.doing = Doing::Trying { on_the_way, answered: 0 };
            }
            NextStep::Done => now.doing = Doing::Holding,
            NextStep::Again => {
                now.gathering.again();
                Self::give_back(state, client, |_| true);
            }
            NextStep::WaitFor(place) => {
                let member = self.member(client, place);
                if !self.reaches(client, member) || now.holds[member] {
                    now.gathering.passed();
                    return;
                }
                now.doing = Doing::Waiting(member);
                state.queues[member].push(client);
                if !self.has(Fault::KeepsTried) {
                    let kept: Vec<_> = (0..place).map(|place| self.member(client, place)).collect();
                    Self::give_back(state, client, |member| !kept.contains(&member));
                }
            }
        }
    }

    fn try_arrives(&self, state: &mut State, client: usize, member: usize) {
        let joins = self.has(Fault::JoinsAll);
        let free = state.queues[member].is_empty();
        let now = &mut state.clients[client];
        let Doing::Trying { on_the_way, answered } = &mut now.doing else { return };
        on_the_way[member] = false;
        *answered += 1;
        let (answered, last) = (*answered, !on_the_way.contains(&true));
        now.holds[member] = free;
        if free || joins {
            state.queues[member].push(client);
        }
        if !last {
            return;
        }
        if now.held() >= majority(MEMBERS) {
            now.doing = Doing::Idle;
        } else if joins {
            now.doing = Doing::WaitingInAll;
        } else {
            now.doing = Doing::Idle;
            now.gathering.tried(answered);
            if !self.has(Fault::KeepsTried) {
                Self::give_back(state, client, |_| true);
            }
        }
    }

    /// The members that a try of all others would acquire, if they make a majority.
    fn others(&self, state: &State, client: usize) -> Option<Vec<usize>> {
        let Doing::Waiting(awaited) = state.clients[client].doing else { return None };
        let free = |member: &usize| {
            *member != awaited && self.reaches(client, *member) && state.queues[*member].is_empty()
        };
        let others: Vec<_> = (0..MEMBERS).filter(free).collect();
        (state.clients[client].held() + others.len() >= majority(MEMBERS)).then_some(others)
    }

    fn is_admitted(state: &State, client: usize, member: usize) -> bool {
        let now = &state.clients[client];
        let waits = match now.doing {
            Doing::Waiting(awaited) => awaited == member,
            Doing::WaitingInAll => !now.holds[member],
            _ => false,
        };
        waits && state.queues[member].first() == Some(&client)
    }
}

impl Model for Members {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let gathering = MajorityGather::new(MEMBERS);
        let client = Client { gathering, doing: Doing::Idle, holds: [false; MEMBERS] };
        vec![State {
            clients: vec![client; CLIENTS],
            queues: Default::default(),
            leaves: Vec::new(),
            losses: 0,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (number, client) in state.clients.iter().enumerate() {
            match &client.doing {
                // It waits for its own leaves (QUEUE-LEAVE-BEFORE-JOIN).
                Doing::Idle if state.leaves.iter().any(|(client, _)| *client == number) => {}
                Doing::Idle => steps.push(Step::Proceed(number)),
                Doing::Trying { on_the_way, .. } => {
                    let arriving = (0..MEMBERS).filter(|member| on_the_way[*member]);
                    steps.extend(arriving.map(|member| Step::TryArrives(number, member)));
                }
                Doing::Holding => steps.push(Step::Release(number)),
                Doing::Waiting(_) | Doing::WaitingInAll => {
                    let admitted = (0..MEMBERS).filter(|member| Self::is_admitted(state, number, *member));
                    steps.extend(admitted.map(|member| Step::Admitted(number, member)));
                    if self.others(state, number).is_some() {
                        steps.push(Step::TryOthers(number));
                    }
                    if state.losses < self.losses {
                        let held = (0..MEMBERS).filter(|member| client.holds[*member]);
                        steps.extend(held.map(|member| Step::Lost(number, member)));
                    }
                }
                Doing::Done => {}
            }
        }
        steps.extend((0..state.leaves.len()).map(Step::LeaveArrives));
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut state = state.clone();
        match step {
            Step::Proceed(client) => self.proceed(&mut state, client),
            Step::TryArrives(client, member) => self.try_arrives(&mut state, client, member),
            Step::Admitted(client, member) => {
                let now = &mut state.clients[client];
                now.holds[member] = true;
                if now.doing != Doing::WaitingInAll || now.held() >= majority(MEMBERS) {
                    now.doing = Doing::Idle;
                    now.gathering.passed();
                }
            }
            Step::TryOthers(client) => {
                let others = self.others(&state, client)?;
                if let Doing::Waiting(awaited) = state.clients[client].doing {
                    state.leaves.push((client, awaited));
                    state.leaves.sort_unstable();
                }
                for member in others {
                    state.queues[member].push(client);
                    state.clients[client].holds[member] = true;
                }
                state.clients[client].doing = Doing::Idle;
                state.clients[client].gathering.passed();
            }
            Step::Release(client) => {
                state.clients[client].doing = Doing::Done;
                Self::give_back(&mut state, client, |_| true);
                if self.has(Fault::JoinsAll) {
                    state.queues.iter_mut().for_each(|queue| queue.retain(|other| *other != client));
                    state.leaves.retain(|(other, _)| *other != client);
                }
            }
            Step::LeaveArrives(place) => {
                let (client, member) = state.leaves.remove(place);
                state.queues[member].retain(|other| *other != client);
            }
            Step::Lost(client, member) => {
                state.losses += 1;
                state.queues[member].retain(|other| *other != client);
                state.clients[client].holds[member] = false;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        sound()
    }
}

impl Protocol for Members {
    fn verdict(&self, state: &State) -> Option<Broken> {
        let holding = state.clients.iter().filter(|client| client.doing == Doing::Holding);
        if holding.clone().any(|client| client.held() < majority(MEMBERS)) {
            return Some(Broken::Believes);
        }
        if holding.count() > 1 {
            return Some(Broken::TwoHolders);
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
