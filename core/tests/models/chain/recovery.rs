//! From every state, a fault-free run: all late requests arrive, every view catches up, and every
//! client does what is due. While no holder releases, no admitted client may sleep. Then all
//! holders release, again and again: every waiter must be served, and nothing may be left. No timer
//! looks again here, so a client that only a timer would save counts as asleep.

use super::{Chain, Client, Phase, State, Step};
use crate::explore::Broken;

/// More steps than any fault-free run of so few clients takes.
const FOREVER: usize = 400;

pub(super) fn verdict(model: &Chain, state: &State) -> Option<Broken> {
    let mut state = state.clone();
    let mut steps = 0;
    loop {
        while let Some(step) = state.due(model) {
            state.step(model, step);
            state.forget_old_views();
            steps += 1;
            if steps > FOREVER {
                return Some(Broken::Stuck);
            }
            if let Some(broken) = state.broken {
                return Some(broken);
            }
        }
        let asleep = |client: &&Client| matches!(client.phase, Phase::Sleeping(_));
        let leader = state.leader();
        if state.clients.iter().filter(asleep).any(|client| leader.admits(client.sequence) == Some(true)) {
            return Some(Broken::Uninformed);
        }
        let Some(holder) = state.clients.iter().position(|client| client.phase == Phase::Holding) else {
            break;
        };
        let told = model.may_tell(&state.clients[holder]);
        state.step(model, if told { Step::Tell(holder) } else { state.way_out(model, holder) });
        state.forget_old_views();
        steps += 1;
        if steps > FOREVER {
            return Some(Broken::Stuck);
        }
    }
    let asleep = state.clients.iter().any(|client| matches!(client.phase, Phase::Sleeping(_)));
    (asleep || !state.leader().nodes.is_empty()).then_some(Broken::Stuck)
}

impl State {
    /// The next step when nothing fails and no holder releases.
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
