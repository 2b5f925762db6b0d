//! A queue whose nodes expire one by one, as a value: the Redis scripts run this protocol, and the memory
//! backend stores this queue (`docs/protocol/redis-queue.md`).
//!
//! Every operation drops expired nodes, acts, and then admits (QUEUE-DROP-ACT-ADMIT). A node is admitted if
//! its sequence number is at or below the *frontier*. The frontier moves over nodes that fit together with
//! all admitted nodes, and never back, so a lowered limit revokes nothing.
//!
//! Times are microseconds of the server's clock.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Claim, fits};
use crate::contracts::{Limit, NodeId, Patience};

/// The most expired nodes that one operation drops, the earliest expiry first.
pub const PRUNE_AT_MOST: usize = 256;

/// The lifetime of a tombstone: longer than a request can live.
pub const TOMBSTONE: Duration = Duration::from_secs(600);

/// Server time in microseconds.
pub type Micros = u64;

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The attempt's id.
    pub id: NodeId,
    /// The claim of the node.
    pub claim: Claim,
    /// The TTL of each renewal.
    pub ttl: Micros,
    /// The time at which it expires.
    pub expires: Micros,
}

/// A request to join.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QueueJoin {
    /// The attempt's id.
    pub id: NodeId,
    /// The claim of the node.
    pub claim: Claim,
    /// The requested limit (permits).
    pub limit: Limit,
    /// The TTL of its node.
    pub ttl: Micros,
    /// Whether it may wait.
    pub patience: Patience,
}

/// The answer to a join, and to a renewal, with which a waiter re-checks (QUEUE-RENEWAL-IS-RECHECK).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// It is admitted.
    Admitted {
        /// The sequence number.
        sequence: u64,
    },
    /// It is in the queue.
    Waiting {
        /// The sequence number.
        sequence: u64,
        /// The expiry of the node ahead: the predecessor of an exclusive claim, the nearest earlier exclusive
        /// claim of a shared one, for permits the first node to expire.
        ahead_expires: Micros,
    },
    /// A try was not admitted, and made no node.
    Refused,
    /// The node has expired or was removed, or its attempt was abandoned.
    Gone,
    /// Another limit is stored, or no limit is stored or requested, or the weight exceeds the limit.
    Conflict {
        /// The stored limit.
        stored: Option<u32>,
    },
}

/// The admitted nodes to notify, without the caller's (QUEUE-NOTIFY-ALL-ADMITTED).
pub type Admissions = Vec<(NodeId, u64)>;

/// A queue of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Queue {
    last: u64,
    nodes: BTreeMap<u64, Slot>,
    tombstones: BTreeMap<NodeId, Micros>,
    limit: Option<u32>,
    frontier: u64,
}

impl Queue {
    /// Creates an empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Joins, or renews the node of an earlier request of the attempt (QUEUE-ID-PER-ATTEMPT). An abandoned
    /// attempt makes nothing (QUEUE-TOMBSTONE-FOR-UNKNOWN-JOIN).
    pub fn join(&mut self, now: Micros, ask: &QueueJoin) -> (Answer, Admissions) {
        let mut admissions = self.prune(now);
        let answer = self.join_pruned(now, ask, &mut admissions);
        admissions.retain(|(id, _)| *id != ask.id);
        (answer, admissions)
    }

    fn join_pruned(&mut self, now: Micros, ask: &QueueJoin, admissions: &mut Admissions) -> Answer {
        if self.tombstones.contains_key(&ask.id) {
            return Answer::Gone;
        }
        if let Some(sequence) = self.find(ask.id) {
            match self.renew_pruned(now, ask.id, sequence) {
                // QUEUE-EXPIRED-IS-GONE.
                Answer::Gone => drop(self.nodes.remove(&sequence)),
                answer => return answer,
            }
        }
        if let Claim::Permits(weight) = ask.claim {
            let Some(limit) = ask.limit.beside(self.limit) else {
                return Answer::Conflict { stored: self.limit };
            };
            if weight > limit {
                return Answer::Conflict { stored: Some(limit) };
            }
            self.limit = Some(limit);
        }
        let all_admitted = self.nodes.range(self.frontier + 1..).next().is_none();
        let free = all_admitted && fits(self.claims(), ask.claim, self.limit.unwrap_or(0));
        if ask.patience == Patience::Try && !free {
            return Answer::Refused;
        }
        let sequence = now.max(self.last + 1);
        self.last = sequence;
        let slot = Slot { id: ask.id, claim: ask.claim, ttl: ask.ttl, expires: now + ask.ttl };
        self.nodes.insert(sequence, slot);
        admissions.extend(self.admit());
        self.answer(sequence)
    }

    /// Renews the node of this id and sequence number (QUEUE-LATE-REPLY-REVIVES-NOTHING), and returns its
    /// state.
    pub fn renew(&mut self, now: Micros, id: NodeId, sequence: u64) -> (Answer, Admissions) {
        let mut admissions = self.prune(now);
        let answer = self.renew_pruned(now, id, sequence);
        admissions.retain(|(other, _)| *other != id);
        (answer, admissions)
    }

    fn renew_pruned(&mut self, now: Micros, id: NodeId, sequence: u64) -> Answer {
        match self.nodes.get_mut(&sequence) {
            // QUEUE-EXPIRED-IS-GONE: an expired node may not be dropped yet.
            Some(slot) if slot.id == id && slot.expires > now => slot.expires = now + slot.ttl,
            _ => return Answer::Gone,
        }
        self.answer(sequence)
    }

    /// Removes the node of this id and sequence number (QUEUE-LEAVE-NAMES-NODE). Returns whether it existed.
    pub fn leave(&mut self, now: Micros, id: NodeId, sequence: u64) -> (bool, Admissions) {
        let mut admissions = self.prune(now);
        let there = self.nodes.get(&sequence).is_some_and(|slot| slot.id == id);
        if there {
            self.nodes.remove(&sequence);
            admissions.extend(self.admit());
        }
        admissions.retain(|(other, _)| *other != id);
        (there, admissions)
    }

    /// Ends an attempt with an unknown outcome: removes its node by id, and leaves a tombstone
    /// (QUEUE-TOMBSTONE-FOR-UNKNOWN-JOIN).
    pub fn abandon(&mut self, now: Micros, id: NodeId) -> (bool, Admissions) {
        let mut admissions = self.prune(now);
        self.tombstones.insert(id, now + u64::try_from(TOMBSTONE.as_micros()).expect("ten minutes fit"));
        let found = self.find(id);
        if let Some(sequence) = found {
            self.nodes.remove(&sequence);
            admissions.extend(self.admit());
        }
        admissions.retain(|(other, _)| *other != id);
        (found.is_some(), admissions)
    }

    /// Makes an admitted exclusive node shared, in its place (CHAIN-DOWNGRADE-IN-PLACE). A waiting one would
    /// overtake. Returns whether it is shared now.
    pub fn downgrade(&mut self, now: Micros, id: NodeId, sequence: u64) -> (bool, Admissions) {
        let mut admissions = self.prune(now);
        let admitted = sequence <= self.frontier;
        let there = match self.nodes.get_mut(&sequence) {
            Some(slot) if slot.id == id && slot.expires > now && admitted => {
                slot.claim = Claim::Shared;
                true
            }
            _ => false,
        };
        admissions.extend(self.admit());
        (there, admissions)
    }

    /// Stores the limit. Admitted nodes stay.
    pub fn set_limit(&mut self, now: Micros, limit: u32) -> Admissions {
        let mut admissions = self.prune(now);
        self.limit = Some(limit);
        admissions.extend(self.admit());
        admissions
    }

    /// Returns the stored limit.
    pub fn limit(&self) -> Option<u32> {
        self.limit
    }

    /// Returns the first waiter if its weight is above the limit: it must give up, so that it blocks
    /// no other.
    pub fn unfit_head(&self) -> Option<(NodeId, u64)> {
        let (&sequence, slot) = self.nodes.range(self.frontier + 1..).next()?;
        self.is_unfit(slot.claim).then_some((slot.id, sequence))
    }

    fn is_unfit(&self, claim: Claim) -> bool {
        matches!((claim, self.limit), (Claim::Permits(weight), Some(limit)) if weight > limit)
    }

    /// Removes a node, as an operator or an eviction does.
    pub fn remove(&mut self, now: Micros, sequence: u64) -> (Option<Slot>, Admissions) {
        let mut admissions = self.prune(now);
        let slot = self.nodes.remove(&sequence);
        admissions.extend(self.admit());
        (slot, admissions)
    }

    /// Drops expired nodes, and admits.
    pub fn prune(&mut self, now: Micros) -> Admissions {
        // QUEUE-CLAMP-EXPIRY.
        for slot in self.nodes.values_mut() {
            slot.expires = slot.expires.min(now + slot.ttl);
        }
        self.tombstones.retain(|_, until| *until > now);
        let mut expired: Vec<_> = self
            .nodes
            .iter()
            .filter(|(_, slot)| slot.expires <= now)
            .map(|(&seq, slot)| (slot.expires, seq))
            .collect();
        expired.sort_unstable();
        for (_, sequence) in expired.into_iter().take(PRUNE_AT_MOST) {
            self.nodes.remove(&sequence);
        }
        self.admit()
    }

    /// Returns the state of a node. Prune first.
    pub fn answer(&self, sequence: u64) -> Answer {
        let Some(slot) = self.nodes.get(&sequence) else { return Answer::Gone };
        if sequence <= self.frontier {
            return Answer::Admitted { sequence };
        }
        if self.is_unfit(slot.claim) {
            return Answer::Conflict { stored: self.limit };
        }
        let mut ahead = self.nodes.range(..sequence).rev().map(|(_, slot)| slot);
        let blocker = match slot.claim {
            Claim::Exclusive => ahead.next().map(|slot| slot.expires),
            Claim::Shared => ahead.find(|slot| slot.claim == Claim::Exclusive).map(|slot| slot.expires),
            Claim::Permits(_) => self.nodes.values().map(|slot| slot.expires).min(),
        };
        // A waiter without a node ahead is impossible: it would be admitted.
        Answer::Waiting { sequence, ahead_expires: blocker.unwrap_or(slot.expires) }
    }

    /// Returns the sequence number of an attempt's node.
    pub fn find(&self, id: NodeId) -> Option<u64> {
        self.nodes.iter().find(|(_, slot)| slot.id == id).map(|(&sequence, _)| sequence)
    }

    /// Returns the nodes in order, and whether each is admitted.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Slot, bool)> {
        self.nodes.iter().map(|(&sequence, slot)| (sequence, slot, sequence <= self.frontier))
    }

    /// Returns whether the node at `sequence` has this id.
    pub fn holds(&self, id: NodeId, sequence: u64) -> bool {
        self.nodes.get(&sequence).is_some_and(|slot| slot.id == id)
    }

    /// Returns how many nodes are ahead of this sequence number.
    pub fn ahead(&self, sequence: u64) -> usize {
        self.nodes.range(..sequence).count()
    }

    /// Returns whether the queue has no node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns whether the queue can be forgotten: it has no node, tombstone or limit, and the clock has
    /// passed its last sequence number.
    pub fn is_forgettable(&self, now: Micros) -> bool {
        self.nodes.is_empty() && self.tombstones.is_empty() && self.limit.is_none() && self.last < now
    }

    /// Returns the last sequence number.
    pub fn last_sequence(&self) -> u64 {
        self.last
    }

    fn admit(&mut self) -> Admissions {
        let limit = self.limit.unwrap_or(0);
        let mut admissions = Vec::new();
        while let Some((&sequence, next)) = self.nodes.range(self.frontier + 1..).next() {
            let admitted = self.nodes.range(..=self.frontier).map(|(_, slot)| slot.claim);
            if !fits(admitted, next.claim, limit) {
                break;
            }
            admissions.push((next.id, sequence));
            self.frontier = sequence;
        }
        admissions
    }

    fn claims(&self) -> impl Iterator<Item = Claim> {
        self.nodes.values().map(|slot| slot.claim)
    }
}

#[cfg(test)]
mod tests;
