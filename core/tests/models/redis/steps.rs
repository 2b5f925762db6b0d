use super::client::{Client, Phase};
use super::{Fault, Redis, State, Step, recovery};
use crate::explore::{Broken, Protocol, offer};

impl Protocol for Redis {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let clients = self.claims.iter().map(|_| Client::new()).collect();
        vec![State { server: self.server(), clients, ..State::default() }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        let room = state.net.len() < self.in_flight;
        for (index, client) in state.clients.iter().enumerate().filter(|(_, client)| client.alive) {
            if room {
                self.client_actions(state, index, client, steps);
            } else if !matches!(client.phase, Phase::Idle | Phase::Leaving { .. }) {
                steps.push(Step::Leave(index));
            }
            offer(steps, state.crashes < self.crashes && client.phase != Phase::Idle, Step::Crash(index));
        }
        for same in state.net.chunk_by(|message, other| message == other) {
            steps.push(Step::Deliver(same[0]));
            offer(steps, state.losses < self.losses, Step::Lose(same[0]));
        }
        offer(steps, state.now < self.ticks, Step::Tick);
        if state.now < self.ticks && state.slow < self.slow {
            let living = (0..state.clients.len()).filter(|&index| state.clients[index].alive);
            steps.extend(living.map(Step::SlowTick));
        }
        offer(steps, state.back < self.back, Step::ClockBack);
    }

    fn step(&self, state: &mut State, step: Step) {
        match step {
            Step::Join(index) => state.join(index, true),
            Step::Try(index) => state.join(index, false),
            Step::JoinAgain(index) => state.join_again(index),
            Step::Renew(index) => state.renew(self, index),
            Step::Leave(index) => state.leave(index),
            Step::LeaveAgain(index) => state.leave_again(index),
            Step::Deliver(message) => state.deliver(self, message),
            Step::Lose(message) => {
                state.take(message);
                state.losses += 1;
            }
            Step::Crash(index) => {
                state.clients[index] = Client::dead();
                state.crashes += 1;
                state.net.retain(|message| message.is_request() || message.client() != index);
            }
            Step::Tick => state.now += 1,
            Step::SlowTick(index) => {
                state.now += 1;
                state.clients[index].lag += 1;
                state.slow += 1;
            }
            Step::ClockBack => state.back += 1,
        }
    }

    fn verdict(&self, state: &State) -> Option<Broken> {
        let judged = |broken: &Broken| self.only.is_none_or(|only| only == *broken);
        let recovers = self.only.is_none_or(|only| matches!(only, Broken::Stuck | Broken::Slow));
        (state.broken.filter(judged))
            .or_else(|| state.holders(self).filter(judged))
            .or_else(|| state.nodes(self))
            .or_else(|| recovers.then(|| recovery::verdict(self, state)).flatten().filter(judged))
    }
}

impl Redis {
    fn client_actions(&self, state: &State, index: usize, client: &Client, steps: &mut Vec<Step>) {
        match client.phase {
            Phase::Idle => {
                // Clients with equal claims are interchangeable, so they begin in order.
                let in_turn = client.number > 0
                    || index == 0
                    || self.claims[index - 1] != self.claims[index]
                    || state.clients[index - 1].number > 0
                    || !state.clients[index - 1].alive;
                if client.number < self.attempts[index] && in_turn {
                    steps.push(Step::Join(index));
                    offer(steps, self.tries, Step::Try(index));
                }
            }
            Phase::Joining { .. } => {
                offer(steps, client.repeats < self.repeats, Step::JoinAgain(index));
                steps.push(Step::Leave(index));
            }
            Phase::Waiting | Phase::Holding => {
                let now = state.local_moment(index);
                let may_renew = now < client.deadline || self.has(Fault::LateRepliesAndNamesById);
                offer(steps, now >= client.look_at && may_renew, Step::Renew(index));
                steps.push(Step::Leave(index));
            }
            Phase::Leaving { .. } => {
                offer(steps, client.repeats < self.repeats, Step::LeaveAgain(index));
            }
        }
    }
}
