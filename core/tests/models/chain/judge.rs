//! What must never be true in a state of the chain model.

use latchwork_core::Claim;
use latchwork_core::backend::decide::fits;

use super::{Chain, Phase, State, recovery};
use crate::explore::{Broken, Protocol};

impl State {
    /// What is wrong with the clients that believe they hold.
    fn holders(&self, model: &Chain) -> Option<Broken> {
        let mut holders = Vec::new();
        for client in
            (0..self.clients.len()).filter(|&index| self.believes(index)).map(|index| &self.clients[index])
        {
            let there = self.leader().nodes.iter().any(|node| node.sequence == client.sequence);
            if !there && model.judges(Broken::Believes) {
                return Some(Broken::Believes);
            }
            let old = client.claim == Claim::Exclusive && client.sequence < self.highest_token;
            if old && model.judges(Broken::TokenBack) {
                return Some(Broken::TokenBack);
            }
            // `fits` looks at the later claim only, so an earlier exclusive claim is checked here.
            let beside = fits(holders.iter().copied(), client.claim, self.largest_limit);
            if (!beside || holders.contains(&Claim::Exclusive)) && model.judges(Broken::TwoHolders) {
                return Some(Broken::TwoHolders);
            }
            holders.push(client.claim);
        }
        None
    }

    /// What is wrong with the leader's nodes.
    fn nodes(&self, model: &Chain) -> Option<Broken> {
        let nodes = &self.leader().nodes;
        for (place, node) in nodes.iter().enumerate() {
            let alone = nodes[..place].iter().all(|other| other.by != node.by);
            if !alone && model.judges(Broken::TwoNodes) {
                return Some(Broken::TwoNodes);
            }
            let client = &self.clients[usize::from(node.by.client)];
            let closed = node.by.number < client.number || client.phase == Phase::Idle;
            if client.alive && client.valid && closed && model.judges(Broken::Ghost) {
                return Some(Broken::Ghost);
            }
        }
        None
    }
}

impl Protocol for Chain {
    fn verdict(&self, state: &State) -> Option<Broken> {
        let judged = |broken: &Broken| self.judges(*broken);
        let recovers = self.only.is_none_or(|only| matches!(only, Broken::Stuck | Broken::Uninformed));
        let crowd = || state.views.iter().any(|view| view.woken > view.most_woken).then_some(Broken::Crowd);
        (state.broken.filter(judged))
            .or_else(|| state.holders(self))
            .or_else(|| state.nodes(self))
            .or_else(|| crowd().filter(judged))
            .or_else(|| recovers.then(|| recovery::verdict(self, state)).flatten().filter(judged))
    }
}
