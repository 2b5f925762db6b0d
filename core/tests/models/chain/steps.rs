use latchwork_core::Claim;

use super::{Behind, Chain, Client, Fault, Phase, Server, State, Step, View, Watch, recovery};
use crate::explore::{Broken, Protocol, offer};

impl Protocol for Chain {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let clients = self.claims.iter().map(|&claim| Client::new(claim)).collect();
        let view = View { limit: self.limit, most_woken: u8::MAX, ..View::default() };
        vec![State { views: vec![view], clients, largest_limit: self.limit, ..State::default() }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (index, client) in state.clients.iter().enumerate() {
            offer(steps, !client.valid && !client.expired, Step::Expire(index));
            if client.alive {
                self.client_actions(state, index, client, steps);
            }
        }
        steps.extend(state.late.iter().map(|&late| Step::Land(late)));
        let used = state.next.counter > 0 && state.leader().nodes.is_empty();
        offer(steps, self.returns && used && state.collections == 0, Step::Collect);
        offer(steps, state.changes < self.limits.len(), Step::SetLimit);
    }

    fn step(&self, state: &mut State, step: Step) {
        state.step(self, step);
        state.forget_old_views();
    }

    fn verdict(&self, state: &State) -> Option<Broken> {
        let judged = |broken: &Broken| self.only.is_none_or(|only| only == *broken);
        let recovers = self.only.is_none_or(|only| matches!(only, Broken::Stuck | Broken::Uninformed));
        let crowd = || state.views.iter().any(|view| view.woken > view.most_woken).then_some(Broken::Crowd);
        (state.broken.filter(judged))
            .or_else(|| state.holders(self))
            .or_else(|| state.nodes(self))
            .or_else(|| crowd().filter(judged))
            .or_else(|| recovers.then(|| recovery::verdict(self, state)).flatten().filter(judged))
    }
}

impl Chain {
    fn client_actions(&self, state: &State, index: usize, client: &Client, steps: &mut Vec<Step>) {
        let may_be_unknown = state.unknowns < self.unknowns;
        let etcd = self.server == Server::Etcd;
        match client.phase {
            Phase::Idle => {
                // Clients with equal claims are interchangeable, so they begin in order.
                let in_turn = client.number > 0
                    || index == 0
                    || self.claims[index - 1] != self.claims[index]
                    || state.clients[index - 1].number > 0;
                if client.number < self.attempts && client.valid && in_turn {
                    steps.push(Step::Join(index));
                    offer(steps, may_be_unknown, Step::JoinUnknown(index, false));
                    offer(steps, may_be_unknown && !etcd, Step::JoinUnknown(index, true));
                }
                return;
            }
            Phase::Unknown => steps.push(Step::Resolve(index)),
            Phase::Listing => steps.push(Step::List(index)),
            Phase::Arming { .. } => steps.push(Step::Arm(index)),
            Phase::Sleeping(Watch::Nothing) | Phase::Leaving => {}
            Phase::Sleeping(_) => offer(steps, state.reconnects < self.reconnects, Step::Reconnect(index)),
            Phase::Holding => {
                offer(steps, client.owes_mark, Step::Mark(index));
                offer(steps, client.owes_mark && may_be_unknown && etcd, Step::MarkLate(index));
                let writes = client.claim == Claim::Exclusive && client.valid;
                offer(steps, writes && state.downgrades < self.downgrades, Step::Downgrade(index));
            }
            Phase::Told => steps.push(Step::Told(index)),
            Phase::Out if self.gives_back(client) => {}
            Phase::Out => return,
        }
        let waits = || state.leader().admits(client.sequence) == Some(false);
        offer(steps, state.removals < self.removals && waits(), Step::Remove(index));
        offer(steps, self.has(Fault::WriteIsTold) && state.leader().told.is_none(), Step::Write(index));
        let speaks = self.speaks(client);
        let says = speaks && client.behind != Behind::Unknown;
        offer(steps, speaks, Step::LookBehind(index));
        offer(steps, says, Step::Say(index));
        // A full server accepts only this leave, without a notice. After it the successor watches this node,
        // except with `relies`.
        offer(steps, !speaks || !self.relies, Step::Leave(index));
        let tells = self.may_tell(client);
        offer(steps, tells, Step::Tell(index));
        let made = !client.unknown && client.phase != Phase::Unknown;
        if may_be_unknown && client.phase != Phase::Leaving && made && (etcd || self.reuses || self.tells) {
            steps.push(Step::LeaveLate(index));
            offer(steps, tells, Step::TellLate(index));
            offer(steps, says, Step::SayLate(index));
            offer(steps, etcd && self.reuses, Step::LeaveTwice(index));
        }
        offer(steps, client.view + 1 < state.views.len(), Step::Advance(index));
        if state.failures < self.failures && client.valid {
            steps.extend([Step::Deadline(index), Step::Crash(index)]);
        }
    }
}
