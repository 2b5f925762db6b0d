//! A run without faults from a state: every message arrives in its tick, and holders release at once. Every
//! waiter must be served within one TTL, and no node may remain.

use super::client::Phase;
use super::{Redis, State};
use crate::explore::{Broken, damage};

const FOREVER: u8 = 5;

pub(super) fn verdict(model: &Redis, state: &State) -> Option<Broken> {
    let mut state = state.clone();
    let waits = |phase| matches!(phase, Phase::Joining { wait: true } | Phase::Waiting);
    let wants = state.clients.iter().map(|client| client.alive && waits(client.phase));
    let mut wants: Vec<bool> = wants.collect();
    for ticks in 0..=model.ttl * FOREVER {
        while state.act(model, &mut wants) {}
        if state.broken.is_some() {
            return state.broken;
        }
        let idle = state.clients.iter().all(|client| client.phase == Phase::Idle);
        if idle && !wants.contains(&true) {
            // The next renewal of any client notices the step back. From then on the wait takes one more TTL
            // (QUEUE-CLAMP-EXPIRY).
            let noticed = if model.back > 0 { model.ttl.div_ceil(3) } else { 0 };
            let slow = ticks > model.ttl + noticed;
            let nobody = latchwork_core::backend::NodeId::from_bytes([u8::MAX; 16]);
            let _ = state.server.renew(state.server_time(), nobody, 0);
            state.now += model.ttl;
            let now = state.server_time();
            let left = state.server.nodes().iter().any(|node| node.slot.expires > now);
            return damage(None, [(slow, Broken::Slow), (left, Broken::Stuck)]);
        }
        state.now += 1;
    }
    Some(Broken::Stuck)
}

impl State {
    fn act(&mut self, model: &Redis, wants: &mut [bool]) -> bool {
        let mut acted = false;
        while let Some(&message) = self.net.first() {
            self.deliver(model, message);
            acted = true;
        }
        for (index, wants) in wants.iter_mut().enumerate() {
            let client = &self.clients[index];
            if !client.alive {
                continue;
            }
            let now = self.local_moment(index);
            match client.phase {
                Phase::Idle if *wants => self.join(index, true),
                Phase::Idle => continue,
                Phase::Joining { .. } => self.join_again(index),
                Phase::Leaving { .. } => self.leave_again(index),
                Phase::Holding => {
                    *wants &= !self.believes(index);
                    self.leave(index);
                }
                Phase::Waiting if now >= client.deadline => self.leave(index),
                Phase::Waiting if now >= client.look_at => self.renew(model, index),
                Phase::Waiting => continue,
            }
            acted = true;
        }
        acted
    }
}
