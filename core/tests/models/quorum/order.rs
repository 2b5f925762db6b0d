//! The model of clients that acquire a majority, over [`MajorityGather`] (QUORUM-TRY-WHOLE,
//! QUORUM-WAIT-IN-ORDER). Three clients acquire two of three members once. Each client may be unable to reach
//! one member. A state is broken if two clients hold, or if clients wait and no step is possible.

use latchwork_core::backend::decide::quorum::{MajorityGather, NextStep, majority};

use super::MEMBERS;
use crate::explore::{Broken, Protocol, damage};
use crate::queues::{self, Doing, Step};

pub(super) const CLIENTS: usize = 3;

type State = queues::State<MajorityGather>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// QUORUM-TRY-WHOLE: an acquisition waits in all queues at once.
    JoinsAll,
    /// QUORUM-TRY-WHOLE: a client keeps the members of a failed try.
    KeepsTried,
    /// QUORUM-WAIT-IN-ORDER: each client has its own order.
    OwnOrder,
}

#[derive(Clone, Debug)]
pub(super) struct Members {
    pub(super) left_out: [Option<usize>; CLIENTS],
    pub(super) losses: u8,
    pub(super) fault: Option<Fault>,
}

impl Members {
    fn reaches(&self, client: usize, member: usize) -> bool {
        self.left_out[client] != Some(member)
    }

    fn member(&self, client: usize, place: usize) -> usize {
        if self.fault == Some(Fault::OwnOrder) { (place + client) % MEMBERS } else { place }
    }

    fn proceed(&self, state: &mut State, client: usize) {
        let now = &mut state.clients[client];
        match now.gather.next(now.held()) {
            NextStep::TryAll => now.tries(|member| self.reaches(client, member)),
            NextStep::Done => now.doing = Doing::Holding,
            NextStep::Again => {
                now.gather.again();
                state.give_back(client, |_| true);
            }
            NextStep::WaitFor(place) => {
                let member = self.member(client, place);
                if !self.reaches(client, member) || now.holds[member] {
                    now.gather.passed();
                    return;
                }
                state.wait_for(client, member);
                if self.fault != Some(Fault::KeepsTried) {
                    let kept: Vec<_> = (0..place).map(|place| self.member(client, place)).collect();
                    state.give_back(client, |member| !kept.contains(&member));
                }
            }
        }
    }

    fn try_arrives(&self, state: &mut State, client: usize, member: usize) {
        let joins = self.fault == Some(Fault::JoinsAll);
        if state.try_arrives(client, member, joins).is_none() {
            return;
        }
        let now = &mut state.clients[client];
        let short = now.held() < majority(MEMBERS);
        now.doing = if short && joins { Doing::WaitingInAll } else { Doing::Idle };
        if short && !joins {
            now.gather.tried((0..MEMBERS).filter(|member| self.reaches(client, *member)).count());
            if self.fault != Some(Fault::KeepsTried) {
                state.give_back(client, |_| true);
            }
        }
    }

    fn others(&self, state: &State, client: usize) -> Option<Vec<usize>> {
        let Doing::Waiting(awaited) = state.clients[client].doing else { return None };
        let free = |member: &usize| {
            *member != awaited && self.reaches(client, *member) && state.queues[*member].is_empty()
        };
        let others: Vec<_> = (0..MEMBERS).filter(free).collect();
        (state.clients[client].held() + others.len() >= majority(MEMBERS)).then_some(others)
    }
}

impl Protocol for Members {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(vec![MajorityGather::new(MEMBERS); CLIENTS])]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        state.actions(self.losses, |client| self.others(state, client).is_some(), steps);
    }

    fn step(&self, state: &mut State, step: Step) {
        match step {
            Step::Proceed(client) => self.proceed(state, client),
            Step::TryArrives(client, member) => self.try_arrives(state, client, member),
            Step::Admitted(client, member) => {
                let now = &mut state.clients[client];
                now.holds[member] = true;
                if now.doing != Doing::WaitingInAll || now.held() >= majority(MEMBERS) {
                    now.doing = Doing::Idle;
                    now.gather.passed();
                }
            }
            Step::TryOthers(client) => {
                let others = self.others(state, client).expect("they make a majority");
                state.give_up_waiting(client);
                for member in others {
                    state.queues[member].push(client);
                    state.clients[client].holds[member] = true;
                }
                state.clients[client].gather.passed();
            }
            Step::Release(client) => {
                state.release(client);
                if self.fault == Some(Fault::JoinsAll) {
                    state.forget(client);
                }
            }
            Step::LeaveArrives(place) => state.leave_arrives(place),
            Step::Lost(client, member) => state.lose(client, member),
        }
    }

    fn verdict(&self, state: &State) -> Option<Broken> {
        let holding = state.clients.iter().filter(|client| client.doing == Doing::Holding);
        let short = holding.clone().any(|client| client.held() < majority(MEMBERS));
        let two = holding.count() > 1;
        damage(None, [(short, Broken::Believes), (two, Broken::TwoHolders)]).or_else(|| state.end(self))
    }
}
