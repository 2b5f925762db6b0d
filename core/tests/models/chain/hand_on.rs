//! Release notices on etcd (CHAIN-HAND-ON). A node that joined after many others notifies its successor when
//! it leaves. The transaction that deletes the node also sends the notice: "next" if the node was admitted,
//! "look" if it was waiting. It compares that both nodes exist, or, without a successor, that no node has
//! joined since the client looked.
//!
//! In this model a node that joins after two others relies on a notice from the node right before it, and a
//! node that joins after at least one other gives notices. With `relies` the node has no other watch, so a
//! waiter that only another watch would wake counts as asleep.

use super::{Attempt, Behind, Chain, Client, Fault, Phase, Server, State, Step};

impl State {
    /// Reads from the join's answer how many nodes are in the queue.
    pub(super) fn take_place(&mut self, model: &Chain, index: usize) {
        let others = self.leader().nodes.len() - 1;
        let client = &mut self.clients[index];
        (client.speaks, client.relies) = (model.hands && others >= 1, model.hands && others >= 2);
    }

    /// The client reads its successor.
    pub(super) fn look_behind(&mut self, model: &Chain, index: usize) {
        let own = self.clients[index].sequence;
        let mut behind = self.leader().nodes.iter().filter(|node| node.sequence > own);
        let next = if model.has(Fault::SaidOverOthers) { behind.next_back() } else { behind.next() };
        let next = next.map_or(Behind::Nobody(self.last), |next| Behind::Node(next.sequence));
        self.clients[index].behind = next;
    }

    /// The leave that the client would send, with the successor that it knows and the notice for it.
    pub(super) fn word(&self, model: &Chain, index: usize) -> Word {
        let client = &self.clients[index];
        let next = client.entered || model.has(Fault::GivingUpSaysNext);
        Word { by: self.attempt(index), own: client.sequence, behind: client.behind, next }
    }

    /// Runs the transaction. `false` when a comparison fails.
    pub(super) fn say(&mut self, model: &Chain, word: Word) -> bool {
        let Word { own, behind, next, .. } = word;
        let there = |sequence: u8| self.leader().find(sequence).is_some();
        let to = match behind {
            Behind::Unknown => return false,
            Behind::Node(to) if there(to) || model.has(Fault::SaidToTheGone) => Some(to),
            Behind::Nobody(last) if last == self.last || model.has(Fault::NobodyUncompared) => None,
            Behind::Node(_) | Behind::Nobody(_) => return false,
        };
        // A newer node may have its name (CHAIN-FRESH-NAME).
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

    /// The notice that this version of the queue brings to a client: `true` for "next". `None` if there is no
    /// notice.
    pub(super) fn hears(&self, index: usize, view: usize) -> Option<bool> {
        let (to, next) = self.views[view].said?;
        (to == self.clients[index].sequence).then_some(next)
    }

    /// Processes a "next" notice, and then checks its own deadline (CHAIN-OWN-NODE-AND-DEADLINE).
    pub(super) fn told(&mut self, model: &Chain, index: usize) {
        let client = &mut self.clients[index];
        if client.valid || model.has(Fault::ToldIgnoresDeadline) {
            client.phantom = !client.valid;
            self.hold(model, index);
        } else {
            client.phase = Phase::Out;
        }
    }

    /// The next step of the client towards its leave.
    pub(super) fn way_out(&self, model: &Chain, index: usize) -> Step {
        let client = &self.clients[index];
        match client.behind {
            _ if !model.speaks(client) => Step::Leave(index),
            Behind::Unknown => Step::LookBehind(index),
            Behind::Node(_) | Behind::Nobody(_) => Step::Say(index),
        }
    }

    /// Whether the client watches only its inbox, and the inbox is empty.
    pub(super) fn sleeps_on_its_inbox(&self, model: &Chain, index: usize) -> bool {
        let client = &self.clients[index];
        model.relies && client.relies && !self.spoken_to.contains(&client.sequence)
    }
}

impl Chain {
    /// Whether the client's leave notifies its successor. A leave with a tombstone does not.
    pub(super) fn speaks(&self, client: &Client) -> bool {
        self.hands && client.speaks && !client.unknown
    }

    /// Whether the client's next leave may announce the release: its node was admitted, and it
    /// writes no tombstone.
    pub(super) fn may_tell(&self, client: &Client) -> bool {
        self.trusts_told() && (client.entered || self.has(Fault::AbandonedIsTold)) && !client.unknown
    }

    /// Whether a client that lost its hold or its node still cleans up. Its node may still exist, or on etcd
    /// may still be created by a late request (LEASE-CLEAN-UP-AFTER-LOSS, CHAIN-TOMBSTONE-FOR-UNKNOWN-JOIN).
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
