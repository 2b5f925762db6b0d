use latchwork_core::Claim;
use latchwork_core::backend::decide::fits;

use super::{Chain, Phase, State};
use crate::explore::{Broken, damage};

impl State {
    pub(super) fn holders(&self, model: &Chain) -> Option<Broken> {
        let mut holders = Vec::new();
        for client in self.clients.iter().filter(|client| client.believes()) {
            let gone = self.leader().find(client.sequence).is_none();
            let old = client.claim == Claim::Exclusive && client.sequence < self.highest_token;
            // `fits` does not see an earlier exclusive claim.
            let beside = fits(holders.iter().copied(), client.claim, self.largest_limit)
                && !holders.contains(&Claim::Exclusive);
            let wrong = [(gone, Broken::Believes), (old, Broken::TokenBack), (!beside, Broken::TwoHolders)];
            if let Some(broken) = damage(model.only, wrong) {
                return Some(broken);
            }
            holders.push(client.claim);
        }
        None
    }

    pub(super) fn nodes(&self, model: &Chain) -> Option<Broken> {
        let nodes = &self.leader().nodes;
        nodes.iter().enumerate().find_map(|(place, node)| {
            let alone = nodes[..place].iter().all(|other| other.by != node.by);
            let client = &self.clients[usize::from(node.by.client)];
            let closed = node.by.number < client.number || client.phase == Phase::Idle;
            let ghost = client.alive && client.valid && closed;
            damage(model.only, [(!alone, Broken::TwoNodes), (ghost, Broken::Ghost)])
        })
    }
}
