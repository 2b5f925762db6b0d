//! The possible next steps in a state of the chain model.

use std::collections::BTreeSet;

use latchwork_core::Claim;
use stateright::{Model, Property};

use super::{Behind, Birth, Chain, Client, Fault, Phase, Server, State, Step, View, Watch};
use crate::explore::sound;

impl Model for Chain {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let clients = self.claims.iter().map(|&claim| Client::new(claim)).collect();
        let view = View {
            nodes: Vec::new(),
            limit: self.limit,
            told: None,
            said: None,
            woken: 0,
            most_woken: u8::MAX,
        };
        vec![State {
            views: vec![view],
            clients,
            late: BTreeSet::new(),
            tombstones: BTreeSet::new(),
            last: 0,
            spoken_to: BTreeSet::new(),
            next: Birth::default(),
            collections: 0,
            changes: 0,
            unknowns: 0,
            failures: 0,
            reconnects: 0,
            downgrades: 0,
            removals: 0,
            largest_limit: self.limit,
            highest_token: 0,
            broken: None,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (index, client) in state.clients.iter().enumerate() {
            if !client.valid && !client.expired {
                steps.push(Step::Expire(index));
            }
            if !client.alive {
                continue;
            }
            self.client_actions(state, index, client, steps);
        }
        steps.extend(state.late.iter().map(|&late| Step::Land(late)));
        if self.returns && state.collections == 0 && state.leader().nodes.is_empty() && state.next.counter > 0
        {
            steps.push(Step::Collect);
        }
        if state.changes < self.limits.len() {
            steps.push(Step::SetLimit);
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        next.step(self, step);
        next.forget_old_views();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        sound()
    }
}

impl Chain {
    fn client_actions(&self, state: &State, index: usize, client: &Client, steps: &mut Vec<Step>) {
        let may_be_unknown = state.unknowns < self.unknowns;
        match client.phase {
            Phase::Idle => {
                // Clients with equal claims are interchangeable, so their first attempts come in
                // order.
                let in_turn = client.number > 0
                    || index == 0
                    || self.claims[index - 1] != self.claims[index]
                    || state.clients[index - 1].number > 0;
                if client.number < self.attempts && client.valid && in_turn {
                    steps.push(Step::Join(index));
                    if may_be_unknown {
                        steps.push(Step::JoinUnknown(index, false));
                        if self.server == Server::ZooKeeper {
                            steps.push(Step::JoinUnknown(index, true));
                        }
                    }
                }
                return;
            }
            Phase::Unknown => {
                steps.push(Step::Resolve(index));
            }
            Phase::Listing => steps.push(Step::List(index)),
            Phase::Arming { .. } => steps.push(Step::Arm(index)),
            Phase::Sleeping(watch) => {
                if state.reconnects < self.reconnects && watch != Watch::Nothing {
                    steps.push(Step::Reconnect(index));
                }
            }
            Phase::Holding => {
                if client.owes_mark {
                    steps.push(Step::Mark(index));
                    if may_be_unknown && self.server == Server::Etcd {
                        steps.push(Step::MarkLate(index));
                    }
                }
                if client.claim == Claim::Exclusive && client.valid && state.downgrades < self.downgrades {
                    steps.push(Step::Downgrade(index));
                }
            }
            Phase::Told => steps.push(Step::Told(index)),
            Phase::Leaving => {}
            Phase::Out if self.gives_back(client) => {}
            Phase::Out => return,
        }
        if state.removals < self.removals && state.leader().admits(client.sequence) == Some(false) {
            steps.push(Step::Remove(index));
        }
        if self.has(Fault::WriteIsTold) && state.leader().told.is_none() {
            steps.push(Step::Write(index));
        }
        let speaks = self.speaks(client);
        if speaks {
            steps.push(Step::LookBehind(index));
            if client.behind != Behind::Unknown {
                steps.push(Step::Say(index));
            }
        }
        // A full server accepts only this leave, without a notice; then the node behind watches
        // this one. With `relies` it watches nothing, so this leave is left out.
        if !speaks || !self.relies {
            steps.push(Step::Leave(index));
        }
        let tells = self.may_tell(client);
        if tells {
            steps.push(Step::Tell(index));
        }
        let etcd = self.server == Server::Etcd;
        // Only with an answered create, on ZooKeeper too: an unknown one is looked for first.
        let made = !client.unknown && client.phase != Phase::Unknown;
        if may_be_unknown && client.phase != Phase::Leaving && made && (etcd || self.reuses || self.tells) {
            steps.push(Step::LeaveLate(index));
            if tells {
                steps.push(Step::TellLate(index));
            }
            if speaks && client.behind != Behind::Unknown {
                steps.push(Step::SayLate(index));
            }
            if etcd && self.reuses {
                steps.push(Step::LeaveTwice(index));
            }
        }
        if client.view + 1 < state.views.len() {
            steps.push(Step::Advance(index));
        }
        if state.failures < self.failures && client.valid {
            steps.push(Step::Deadline(index));
            steps.push(Step::Crash(index));
        }
    }
}
