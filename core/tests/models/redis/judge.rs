use latchwork_core::Claim;
use latchwork_core::backend::decide::fits;

use super::client::Phase;
use super::{Redis, State};
use crate::explore::Broken::{Ghost, TwoNodes, Uninformed};
use crate::explore::{Broken, damage};

impl State {
    pub(super) fn holders(&self, model: &Redis) -> Option<Broken> {
        let believers = (0..self.clients.len()).filter(|&index| self.believes(index));
        let mut holders = Vec::new();
        for index in believers.clone() {
            let claim = model.claims[index];
            // `fits` does not see an earlier exclusive claim.
            if !fits(holders.iter().copied(), claim, model.limit) || holders.contains(&Claim::Exclusive) {
                return Some(Broken::TwoHolders);
            }
            holders.push(claim);
        }
        let old = |index: usize| {
            model.claims[index] == Claim::Exclusive && self.clients[index].sequence < self.highest_token
        };
        believers.into_iter().any(old).then_some(Broken::TokenBack)
    }

    pub(super) fn nodes(&self, model: &Redis) -> Option<Broken> {
        let nodes = self.server.nodes();
        let now = self.server_time();
        self.made.iter().enumerate().find_map(|(place, (sequence, owner))| {
            let alone = self.made[..place].iter().all(|(_, other)| other != owner);
            let index = usize::from(owner.client);
            let client = &self.clients[index];
            let node = nodes.iter().find(|node| node.sequence == *sequence).expect("it was just made");
            let counts = client.alive && node.slot.expires > now;
            let closed = owner.number < client.number || client.phase == Phase::Idle;
            let ghost = counts && closed && !self.request_of(*owner);
            let asleep = !closed && client.phase == Phase::Waiting && client.sequence == *sequence;
            let in_time = self.local_moment(index) < client.deadline;
            let silence = self.losses == 0 && self.net.iter().all(|message| message.attempt() != *owner);
            let uninformed = counts && node.admitted && asleep && in_time && silence;
            damage(model.only, [(!alone, TwoNodes), (ghost, Ghost), (uninformed, Uninformed)])
        })
    }
}
