//! Hand-overs of model B (etcd; RULES B2, B3): whoever leaves and was behind many says so to the node right behind it, in the transaction that
//! deletes its own, and compares that both are still there: that it is the next, if it was admitted, else that it is to look. Where
//! nobody is behind it, it compares that nobody has joined since it looked.
//!
//! Whoever joins behind two here relies on being spoken to, and whoever joins behind one speaks: the one right before it. Whoever
//! relies leaves in silence, if nothing was said to it. With `relies` it watches nothing else until something is, so that what only that
//! watch would save counts as asleep.

use super::{Attempt, Behind, Chain, Client, Fault, Phase, Server, State, Step};

impl State {
    /// With the join's answer, which tells how many are in the queue.
    pub(super) fn take_place(&mut self, model: &Chain, index: usize) {
        let others = self.leader().nodes.len() - 1;
        let client = &mut self.clients[index];
        (client.speaks, client.relies) = (model.hands && others >= 1, model.hands && others >= 2);
    }

    /// It reads who is right behind it.
    pub(super) fn look_behind(&mut self, model: &Chain, index: usize) {
        let own = self.clients[index].sequence;
        let mut behind = self.leader().nodes.iter().filter(|node| node.sequence > own);
        let next = if model.has(Fault::SaidOverOthers) { behind.next_back() } else { behind.next() };
        let nobody = Behind::Nobody { last: self.last };
        self.clients[index].behind = next.map_or(nobody, |next| Behind::Node(next.sequence));
    }

    /// What its leave would be: guarded by whom it knows behind it, and with the word that it has a right to.
    pub(super) fn word(&self, model: &Chain, index: usize) -> Word {
        let client = &self.clients[index];
        let next = client.entered || model.has(Fault::GivingUpSaysNext);
        Word { by: self.attempt(index), own: client.sequence, behind: client.behind, next }
    }

    /// The transaction; `false` where a comparison fails.
    pub(super) fn say(&mut self, model: &Chain, word: Word) -> bool {
        let Word { own, behind, next, .. } = word;
        let there = |sequence: u8| self.leader().nodes.iter().any(|node| node.sequence == sequence);
        let to = match behind {
            Behind::Unknown => return false,
            Behind::Node(to) if there(to) || model.has(Fault::SaidToTheGone) => Some(to),
            Behind::Nobody { last } if last == self.last || model.has(Fault::NobodyUncompared) => None,
            Behind::Node(_) | Behind::Nobody { .. } => return false,
        };
        // Its name may be a newer node's (B10).
        if !there(own) {
            return false;
        }
        if let Some(to) = to {
            self.spoken_to.insert(to);
        }
        self.change(model, |view| {
            view.nodes.retain(|node| node.sequence != own);
            view.said = to.map(|to| (to, next));
        });
        true
    }

    /// Whether the step to this version of the queue has said to a client that it is the next; `None` where it has said nothing to it.
    pub(super) fn hears(&self, index: usize, view: usize) -> Option<bool> {
        let (to, next) = self.views[view].said?;
        (to == self.clients[index].sequence).then_some(next)
    }

    /// It processes what it was told: its own deadline is looked at behind it (B1).
    pub(super) fn told(&mut self, model: &Chain, index: usize) {
        let client = &mut self.clients[index];
        if client.valid || model.has(Fault::ToldIgnoresDeadline) {
            client.phantom = !client.valid;
            self.hold(model, index);
        } else {
            client.phase = Phase::Out;
        }
    }

    /// The step by which it leaves, or gets nearer to that.
    pub(super) fn way_out(&self, model: &Chain, index: usize) -> Step {
        let client = &self.clients[index];
        match client.behind {
            _ if !model.speaks(client) || self.leaves_in_silence(model, index) => Step::Leave(index),
            Behind::Unknown => Step::LookBehind(index),
            Behind::Node(_) | Behind::Nobody { .. } => Step::Say(index),
        }
    }

    /// Whether it watches nothing but its inbox, in which nothing is yet.
    pub(super) fn sleeps_on_its_inbox(&self, model: &Chain, index: usize) -> bool {
        let client = &self.clients[index];
        model.relies && client.relies && !self.spoken_to.contains(&client.sequence)
    }

    /// Whoever relies on being spoken to, and was not.
    pub(super) fn leaves_in_silence(&self, model: &Chain, index: usize) -> bool {
        let client = &self.clients[index];
        let waits = !client.entered && (client.relies || model.has(Fault::LastWatcherIsSilent));
        waits && (!self.spoken_to.contains(&client.sequence) || model.has(Fault::SilentThoughSpokenTo))
    }
}

impl Chain {
    /// Whether its leave says something, as long as the node has no tombstone to leave.
    pub(super) fn speaks(&self, client: &Client) -> bool {
        self.hands && client.speaks && !client.unknown
    }

    /// Its next leave may be told as a release: its node was admitted, and has no tombstone to leave.
    pub(super) fn may_tell(&self, client: &Client) -> bool {
        self.trusts_told() && (client.entered || self.has(Fault::AbandonedIsTold)) && !client.unknown
    }

    /// Who has lost its hold or its node still gives back what may be there, or on etcd come late (C6, B9).
    pub(super) fn gives_back(&self, client: &Client) -> bool {
        let admitted = self.hands && client.entered;
        self.server == Server::Etcd && client.alive && (admitted || client.unknown) && !client.expired
    }
}

/// A leave that says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Word {
    pub(super) by: Attempt,
    own: u8,
    behind: Behind,
    next: bool,
}
