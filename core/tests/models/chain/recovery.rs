//! A run without faults from a state: all late requests arrive, all views catch up, and every client takes
//! its steps. No admitted client may be asleep. Then the holders release one by one: every waiter must be
//! served, and no node may remain. The run has no timers, so a client that only a timer would wake counts as
//! asleep.

use super::{Chain, Client, Phase, State, Step};
use crate::explore::Broken;

/// More steps than any such run of a few clients takes.
const FOREVER: usize = 400;

pub(super) fn verdict(model: &Chain, state: &State) -> Option<Broken> {
    let mut state = state.clone();
    for _ in 0..FOREVER {
        let due = state.due(model);
        let asleep = |client: &&Client| matches!(client.phase, Phase::Sleeping(_));
        let (mut sleepers, leader) = (state.clients.iter().filter(asleep), state.leader());
        if due.is_none() && sleepers.clone().any(|client| leader.admits(client.sequence) == Some(true)) {
            return Some(Broken::Uninformed);
        }
        let Some(step) = due.or_else(|| state.release(model)) else {
            return (sleepers.next().is_some() || !leader.nodes.is_empty()).then_some(Broken::Stuck);
        };
        state.step(model, step);
        state.forget_old_views();
        if due.is_some() && state.broken.is_some() {
            return state.broken;
        }
    }
    Some(Broken::Stuck)
}

impl State {
    fn release(&self, model: &Chain) -> Option<Step> {
        let holder = self.clients.iter().position(|client| client.phase == Phase::Holding)?;
        let told = model.may_tell(&self.clients[holder]);
        Some(if told { Step::Tell(holder) } else { self.way_out(model, holder) })
    }

    fn due(&self, model: &Chain) -> Option<Step> {
        if let Some(&late) = self.late.first() {
            return Some(Step::Land(late));
        }
        let next = |(index, client): (usize, &Client)| {
            if !client.valid && !client.expired {
                return Some(Step::Expire(index));
            }
            match client.phase {
                _ if !client.alive => None,
                Phase::Unknown => Some(Step::Resolve(index)),
                Phase::Leaving => Some(Step::Leave(index)),
                Phase::Holding if client.owes_mark => Some(Step::Mark(index)),
                Phase::Out if model.gives_back(client) => Some(Step::Leave(index)),
                Phase::Idle | Phase::Out => None,
                _ if client.view + 1 < self.views.len() => Some(Step::Advance(index)),
                Phase::Listing => Some(Step::List(index)),
                Phase::Told => Some(Step::Told(index)),
                Phase::Arming { .. } => Some(Step::Arm(index)),
                Phase::Holding | Phase::Sleeping(_) => None,
            }
        };
        self.clients.iter().enumerate().find_map(next)
    }
}
