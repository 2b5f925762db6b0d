//! Release notices on etcd (CHAIN-HAND-ON).
//!
//! Here a node that joins after two others relies on a notice from its predecessor, and a node that joins
//! after one other gives notices. With `relies` the node has no other watch, so a waiter that only another
//! watch would wake counts as asleep.

use super::{Attempt, Behind, Chain, Client, Fault, Phase, Server, State, Step};

impl State {
    pub(super) fn take_place(&mut self, model: &Chain, index: usize) {
        let others = self.leader().nodes.len() - 1;
        let client = &mut self.clients[index];
        (client.speaks, client.relies) = (model.hands && others >= 1, model.hands && others >= 2);
    }

    pub(super) fn look_behind(&mut self, model: &Chain, index: usize) {
        let own = self.clients[index].sequence;
        let mut behind = self.leader().nodes.iter().filter(|node| node.sequence > own);
        let next = if model.has(Fault::SaidOverOthers) { behind.next_back() } else { behind.next() };
        let next = next.map_or(Behind::Nobody(self.last), |next| Behind::Node(next.sequence));
        self.clients[index].behind = next;
    }

    pub(super) fn word(&self, model: &Chain, index: usize) -> Word {
        let client = &self.clients[index];
        let next = client.entered || model.has(Fault::GivingUpSaysNext);
        Word { by: self.attempt(index), own: client.sequence, behind: client.behind, next }
    }

    /// Returns `false` if a comparison of the transaction fails.
    pub(super) fn say(&mut self, model: &Chain, word: Word) -> bool {
        let Word { own, behind, next, .. } = word;
        let there = |sequence: u8| self.leader().find(sequence).is_some();
        let to = match behind {
            Behind::Unknown => return false,
            Behind::Node(to) if there(to) || model.has(Fault::SaidToTheGone) => Some(to),
            Behind::Nobody(last) if last == self.last || model.has(Fault::NobodyUncompared) => None,
            Behind::Node(_) | Behind::Nobody(_) => return false,
        };
        if !there(own) {
            return false;
        }
        if let Some(to) = to {
            self.spoken_to.insert(to);
        }
        self.change(model, |view| {
            view.remove(|node| node.sequence == own);
            view.said = to.map(|to| (to, next));
        });
        true
    }

    /// Returns `true` for the notice "next".
    pub(super) fn hears(&self, index: usize, view: usize) -> Option<bool> {
        let (to, next) = self.views[view].said?;
        (to == self.clients[index].sequence).then_some(next)
    }

    /// CHAIN-OWN-NODE-AND-DEADLINE.
    pub(super) fn told(&mut self, model: &Chain, index: usize) {
        let client = &mut self.clients[index];
        if client.valid || model.has(Fault::ToldIgnoresDeadline) {
            client.phantom = !client.valid;
            self.hold(model, index);
        } else {
            client.phase = Phase::Out;
        }
    }

    pub(super) fn way_out(&self, model: &Chain, index: usize) -> Step {
        let client = &self.clients[index];
        match client.behind {
            _ if !model.speaks(client) => Step::Leave(index),
            Behind::Unknown => Step::LookBehind(index),
            Behind::Node(_) | Behind::Nobody(_) => Step::Say(index),
        }
    }

    pub(super) fn sleeps_on_its_inbox(&self, model: &Chain, index: usize) -> bool {
        let client = &self.clients[index];
        model.relies && client.relies && !self.spoken_to.contains(&client.sequence)
    }
}

impl Chain {
    /// A leave with a tombstone notifies no successor.
    pub(super) fn speaks(&self, client: &Client) -> bool {
        self.hands && client.speaks && !client.unknown
    }

    pub(super) fn may_tell(&self, client: &Client) -> bool {
        self.trusts_told() && (client.entered || self.has(Fault::AbandonedIsTold)) && !client.unknown
    }

    /// The node may still exist, or a late request may create it (LEASE-CLEAN-UP-AFTER-LOSS,
    /// CHAIN-TOMBSTONE-FOR-UNKNOWN-JOIN).
    pub(super) fn gives_back(&self, client: &Client) -> bool {
        let admitted = self.hands && client.entered;
        self.server == Server::Etcd && client.alive && (admitted || client.unknown) && !client.expired
    }
}

/// A leave with a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Word {
    pub(super) by: Attempt,
    own: u8,
    behind: Behind,
    next: bool,
}
