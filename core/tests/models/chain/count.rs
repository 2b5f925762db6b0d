//! Counted releases of model B (etcd; RULES B2, B3): who leaves an admitted node writes a key beside the queue in the
//! transaction that deletes the node, and compares that it is still there, so that the key's version counts such releases. The
//! key may vanish at any time, and counts anew from the next one on.
//!
//! Whoever joins learns at one revision how many are ahead and what has been counted: together its turn. If a later one shows
//! its node and so much counted, all that were ahead have left: each release since has taken one of them away, for nobody is
//! admitted behind who may not be, and a key that was made since counts what came since. What leaves otherwise makes it list.

use super::{Attempt, Chain, Client, Fault, Phase, Server, State};

impl State {
    /// With the join's answer. A node that is found again counts those ahead of it at that later revision.
    pub(super) fn take_turn(&mut self, model: &Chain, index: usize) {
        if !model.counts {
            return;
        }
        let own = self.clients[index].sequence;
        // Only with the fault there is no own node yet.
        let ahead = self.leader().nodes.iter().filter(|node| own == 0 || node.sequence < own).count();
        let counted = if model.has(Fault::CountOfEarlierTurn) { 0 } else { self.counted };
        self.clients[index].turn = counted + u8::try_from(ahead).expect("few");
    }

    /// A release is carried out: of a node that was there, or not.
    pub(super) fn count(&mut self, model: &Chain, by: Attempt, there: bool) {
        let expired = self.clients[usize::from(by.client)].expired;
        // What is put hangs on the lease, without which nothing is carried out.
        let counted = there || model.has(Fault::CountUnguarded) && !expired;
        self.counted += u8::from(model.counts && counted);
    }

    /// Whether a read of the own node and of the count, at one revision, shows that it is its turn.
    pub(super) fn proves(&self, model: &Chain, index: usize) -> bool {
        let client = &self.clients[index];
        let there = self.leader().nodes.iter().any(|node| node.sequence == client.sequence);
        model.counts
            && client.valid
            && (there || model.has(Fault::CountWithoutOwnNode))
            && (self.counted >= client.turn || model.has(Fault::CountReadApart))
    }

    /// That read, which may be sent at any time. Its answer is processed later; where it is no proof, nothing is.
    pub(super) fn prove(&mut self, index: usize) {
        let last = self.views.len() - 1;
        (self.clients[index].view, self.clients[index].phase) = (last, Phase::Proved);
    }

    /// The answer: the own deadline is looked at behind it (B1).
    pub(super) fn proved(&mut self, model: &Chain, index: usize) {
        let client = &mut self.clients[index];
        if model.has(Fault::CountReadApart) && self.counted < client.turn {
            client.phase = Phase::Listing;
        } else if client.valid || model.has(Fault::CountIgnoresDeadline) {
            client.phantom = !client.valid;
            self.hold(model, index);
        } else {
            client.phase = Phase::Out;
        }
    }
}

impl Chain {
    /// Its next leave may be told, or counted: its node was admitted, and has no tombstone to leave.
    pub(super) fn may_tell(&self, client: &Client) -> bool {
        let waits = self.has(Fault::AbandonedIsTold) || self.has(Fault::AbandonIsCounted);
        (self.trusts_told() || self.counts) && (client.entered || waits) && !client.unknown
    }

    /// Who has lost its hold or its node still gives back what may be there, or on etcd come late (C6, B9).
    pub(super) fn gives_back(&self, client: &Client) -> bool {
        let counted = self.counts && client.entered;
        self.server == Server::Etcd && client.alive && (counted || client.unknown) && !client.expired
    }
}
