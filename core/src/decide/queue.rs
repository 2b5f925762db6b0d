//! A queue whose nodes expire one by one, as a value: the protocol that the Redis scripts run and that the
//! memory backend stores. `docs/protocol/redis-queue.md` explains it.
//!
//! Every operation works in one order (QUEUE-DROP-ACT-ADMIT): drop all expired nodes, anywhere in the queue;
//! act; admit by the rule over the whole queue. A node is admitted when its sequence number is at or below
//! the *frontier*. The frontier moves only over nodes that fit together with all admitted nodes that are
//! still there, and never back: a lowered limit revokes nothing.
//!
//! Times are microseconds of the server's clock, as on Redis.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Claim, fits};
use crate::contracts::{Limit, NodeId, Patience};

/// The maximum number of expired nodes that one operation drops, oldest expiry first: no operation takes
/// long.
pub const PRUNE_AT_MOST: usize = 256;

/// The lifetime of the tombstone of an abandoned attempt: longer than a request can live.
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
    /// The TTL that each renewal gives it.
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

/// The state of a node: the answer to a join, and to a renewal, with which a waiter re-checks
/// (QUEUE-RENEWAL-IS-RECHECK).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Admitted, with its sequence number.
    Admitted {
        /// The sequence number.
        sequence: u64,
    },
    /// In the queue.
    Waiting {
        /// The sequence number.
        sequence: u64,
        /// When the node it waits for expires. For exclusive claims this is the predecessor, for shared ones
        /// the nearest earlier exclusive one, for permits the node of the queue that expires first.
        ahead_expires: Micros,
    },
    /// A try that was not admitted; no node was made.
    Refused,
    /// The node is gone (expired or removed), or its attempt was abandoned.
    Gone,
    /// Another limit is stored, or no limit is stored and the join gave none, or the weight exceeds the
    /// limit.
    Conflict {
        /// The stored limit.
        stored: Option<u32>,
    },
}

/// The nodes that an operation admitted and must notify, without the caller's node
/// (QUEUE-NOTIFY-ALL-ADMITTED).
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

    /// Joins, or finds the node of an earlier request of the same attempt and renews it
    /// (QUEUE-ID-PER-ATTEMPT). A late request of an abandoned attempt makes nothing
    /// (QUEUE-TOMBSTONE-FOR-UNKNOWN-JOIN).
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
                // Expired but not dropped yet: the same as gone.
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

    /// Renews a node named by id and sequence (QUEUE-LATE-REPLY-REVIVES-NOTHING), and returns its state
    /// (QUEUE-RENEWAL-IS-RECHECK). An expired node is gone (QUEUE-EXPIRED-IS-GONE).
    pub fn renew(&mut self, now: Micros, id: NodeId, sequence: u64) -> (Answer, Admissions) {
        let mut admissions = self.prune(now);
        let answer = self.renew_pruned(now, id, sequence);
        admissions.retain(|(other, _)| *other != id);
        (answer, admissions)
    }

    fn renew_pruned(&mut self, now: Micros, id: NodeId, sequence: u64) -> Answer {
        match self.nodes.get_mut(&sequence) {
            // When many have expired, some are dropped later; no answer may show that.
            Some(slot) if slot.id == id && slot.expires > now => slot.expires = now + slot.ttl,
            _ => return Answer::Gone,
        }
        self.answer(sequence)
    }

    /// Removes the node of this id and sequence, and nothing newer (QUEUE-LEAVE-NAMES-NODE). Returns whether
    /// it was there.
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

    /// Ends an attempt whose joins have an unknown outcome: removes its node by id, and leaves a
    /// tombstone (QUEUE-TOMBSTONE-FOR-UNKNOWN-JOIN).
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

    /// Turns the exclusive node of this id and sequence into a shared one, in its place
    /// (CHAIN-DOWNGRADE-IN-PLACE). Only if it is admitted: a waiter would overtake. Returns whether it is
    /// shared now.
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

    /// Stores the limit, and returns the nodes that it admits. Nodes that were admitted before stay.
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

    /// Returns the first waiter, if its weight is above the limit. It must be notified too, so that it gives
    /// up and does not block the waiters after it.
    pub fn unfit_head(&self) -> Option<(NodeId, u64)> {
        let (&sequence, slot) = self.nodes.range(self.frontier + 1..).next()?;
        self.is_unfit(slot.claim).then_some((slot.id, sequence))
    }

    fn is_unfit(&self, claim: Claim) -> bool {
        matches!((claim, self.limit), (Claim::Permits(weight), Some(limit)) if weight > limit)
    }

    /// Removes and returns the node at `sequence`, as an operator or an eviction does.
    pub fn remove(&mut self, now: Micros, sequence: u64) -> (Option<Slot>, Admissions) {
        let mut admissions = self.prune(now);
        let slot = self.nodes.remove(&sequence);
        admissions.extend(self.admit());
        (slot, admissions)
    }

    /// Drops expired nodes, and admits, as every operation does first. Also for a waiter's timer.
    pub fn prune(&mut self, now: Micros) -> Admissions {
        // A server clock that was stepped back delays nothing beyond the TTL (QUEUE-CLAMP-EXPIRY).
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

    /// Returns the state of the node at `sequence`. Prune first.
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
        // A waiter with no node ahead is impossible: it would have been admitted.
        Answer::Waiting { sequence, ahead_expires: blocker.unwrap_or(slot.expires) }
    }

    /// Returns the sequence number of the node that an attempt made.
    pub fn find(&self, id: NodeId) -> Option<u64> {
        self.nodes.iter().find(|(_, slot)| slot.id == id).map(|(&sequence, _)| sequence)
    }

    /// Returns the nodes in order, each with whether it is admitted.
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

    /// Returns whether the queue can be forgotten without loss: no node, tombstone or limit, and no sequence
    /// number that the clock has not passed.
    pub fn is_forgettable(&self, now: Micros) -> bool {
        self.nodes.is_empty() && self.tombstones.is_empty() && self.limit.is_none() && self.last < now
    }

    /// Returns the last sequence number that was given out.
    pub fn last_sequence(&self) -> u64 {
        self.last
    }

    /// Moves the frontier over all nodes that fit now.
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
