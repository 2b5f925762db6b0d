//! The possible next steps in a state of the Redis queue model.

use stateright::{Model, Property};

use super::client::{Client, Phase};
use super::{Fault, Message, Redis, State, Step};
use crate::explore::sound;

impl Model for Redis {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let clients = self.claims.iter().map(|_| Client::new()).collect();
        vec![State {
            now: 0,
            back: 0,
            server: self.server(),
            net: Vec::new(),
            clients,
            losses: 0,
            crashes: 0,
            slow: 0,
            made: Vec::new(),
            highest_token: 0,
            broken: None,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        let room = state.net.len() < self.in_flight;
        for (index, client) in state.clients.iter().enumerate().filter(|(_, client)| client.alive) {
            if room {
                self.client_actions(state, index, client, steps);
            } else if !matches!(client.phase, Phase::Idle | Phase::Leaving { .. }) {
                steps.push(Step::Leave(index));
            }
            if state.crashes < self.crashes && client.phase != Phase::Idle {
                steps.push(Step::Crash(index));
            }
        }
        let mut last = None;
        for &message in &state.net {
            if last.replace(message) == Some(message) {
                continue;
            }
            steps.push(Step::Deliver(message));
            if state.losses < self.losses {
                steps.push(Step::Lose(message));
            }
        }
        if state.now < self.ticks {
            steps.push(Step::Tick);
            if state.slow < self.slow {
                let living = (0..state.clients.len()).filter(|&index| state.clients[index].alive);
                steps.extend(living.map(Step::SlowTick));
            }
        }
        if state.back < self.back {
            steps.push(Step::ClockBack);
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Join(index) => next.join(index, true),
            Step::Try(index) => next.join(index, false),
            Step::JoinAgain(index) => next.join_again(index),
            Step::Renew(index) => next.renew(self, index),
            Step::Leave(index) => next.leave(index),
            Step::LeaveAgain(index) => next.leave_again(index),
            Step::Deliver(message) => next.deliver(self, message),
            Step::Lose(message) => {
                next.take(message);
                next.losses += 1;
            }
            Step::Crash(index) => {
                next.clients[index] = Client::dead();
                next.crashes += 1;
                // Messages to a dead client change nothing. Its own requests may still arrive.
                next.net.retain(|message| {
                    !matches!(message,
                    Message::Answer { to, .. } | Message::Left { to } | Message::HandOff { to, .. }
                    if usize::from(to.client) == index)
                });
            }
            Step::Tick => next.now += 1,
            Step::SlowTick(index) => {
                next.now += 1;
                next.clients[index].lag += 1;
                next.slow += 1;
            }
            Step::ClockBack => next.back += 1,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        sound()
    }
}

impl Redis {
    fn client_actions(&self, state: &State, index: usize, client: &Client, steps: &mut Vec<Step>) {
        match client.phase {
            Phase::Idle => {
                // Clients with equal claims are interchangeable, so their first attempts come in
                // order.
                let in_turn = client.number > 0
                    || index == 0
                    || self.claims[index - 1] != self.claims[index]
                    || state.clients[index - 1].number > 0
                    || !state.clients[index - 1].alive;
                if client.number < self.attempts[index] && in_turn {
                    steps.push(Step::Join(index));
                    if self.tries {
                        steps.push(Step::Try(index));
                    }
                }
            }
            Phase::Joining { .. } => {
                if client.repeats < self.repeats {
                    steps.push(Step::JoinAgain(index));
                }
                steps.push(Step::Leave(index));
            }
            Phase::Waiting | Phase::Holding => {
                let lost = state.local_moment(index) >= client.deadline;
                if state.local_moment(index) >= client.look_at
                    && (!lost || self.has(Fault::LateRepliesAndNamesById))
                {
                    steps.push(Step::Renew(index));
                }
                steps.push(Step::Leave(index));
            }
            Phase::Leaving { .. } => {
                if client.repeats < self.repeats {
                    steps.push(Step::LeaveAgain(index));
                }
            }
        }
    }
}
