//! What must never be true in a state of the Redis queue model.

use latchwork_core::Claim;
use latchwork_core::backend::decide::fits;

use super::client::Phase;
use super::{Attempt, Message, Redis, State, recovery};
use crate::explore::{Broken, Protocol};

impl State {
    /// What is wrong with the clients that believe they hold.
    fn holders(&self, model: &Redis) -> Option<Broken> {
        let believers = (0..self.clients.len()).filter(|&index| self.believes(index));
        let mut holders = Vec::new();
        for index in believers.clone() {
            let claim = model.claims[index];
            // `fits` looks at the later claim only, so an earlier exclusive claim is checked here.
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

    /// What is wrong with the server's nodes.
    fn nodes(&self, model: &Redis) -> Option<Broken> {
        let nodes = self.server.nodes();
        let now = self.server_time();
        for (place, (sequence, owner)) in self.made.iter().enumerate() {
            let alone = self.made[..place].iter().all(|(_, other)| other != owner);
            if !alone && model.judges(Broken::TwoNodes) {
                return Some(Broken::TwoNodes);
            }
            let index = usize::from(owner.client);
            let client = &self.clients[index];
            let node = nodes.iter().find(|node| node.sequence == *sequence).expect("it was just made");
            if !client.alive || node.expires <= now {
                continue;
            }
            let closed = owner.number < client.number || client.phase == Phase::Idle;
            if closed && !self.request_of(*owner) && model.judges(Broken::Ghost) {
                return Some(Broken::Ghost);
            }
            let asleep = !closed && client.phase == Phase::Waiting && client.sequence == *sequence;
            let in_time = self.local_moment(index) < client.deadline;
            let silence = self.losses == 0 && !self.net.iter().any(|message| concerns(message, *owner));
            if node.admitted && asleep && in_time && silence && model.judges(Broken::Uninformed) {
                return Some(Broken::Uninformed);
            }
        }
        None
    }
}

fn concerns(message: &Message, attempt: Attempt) -> bool {
    match message {
        Message::Join { by, .. }
        | Message::Renew { by, .. }
        | Message::Leave { by, .. }
        | Message::Abandon { by } => *by == attempt,
        Message::Answer { to, .. } | Message::Left { to } | Message::HandOff { to, .. } => *to == attempt,
    }
}

impl Protocol for Redis {
    fn verdict(&self, state: &State) -> Option<Broken> {
        let judged = |broken: &Broken| self.judges(*broken);
        let recovers = self.only.is_none_or(|only| matches!(only, Broken::Stuck | Broken::Slow));
        (state.broken.filter(judged))
            .or_else(|| state.holders(self).filter(judged))
            .or_else(|| state.nodes(self))
            .or_else(|| recovers.then(|| recovery::verdict(self, state)).flatten().filter(judged))
    }
}
