//! A queue whose nodes expire one by one, as a value: the protocol that the Redis scripts run and that the
//! memory backend stores, without a server (RULES A).
//!
//! Every operation works in one order (A1): drop what has expired, wherever it stands; act; admit by the
//! rule over the whole queue. The admitted are always a prefix of the queue: a node is admitted when its
//! sequence number is at or below the frontier. That is safe because the frontier moves only over
//! nodes that fit beside all that are admitted and still there, and never back: a lowered limit revokes nobody.
//!
//! Times are microseconds of the server's clock, as on Redis.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Claim, fits};
use crate::contracts::{AskedLimit, NodeId, Patience};

/// How many expired nodes one operation drops at most, oldest expiry first: no operation takes long.
pub const PRUNE_AT_MOST: usize = 256;

/// How long an abandoned attempt's tombstone is kept: longer than a request can live.
pub const TOMBSTONE: Duration = Duration::from_secs(600);

/// Server time in microseconds.
pub type Micros = u64;

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The attempt's name.
    pub id: NodeId,
    /// What it claims.
    pub claim: Claim,
    /// The TTL that each renewal gives it.
    pub ttl: Micros,
    /// When it expires.
    pub expires: Micros,
}

/// What a join asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// The attempt's name.
    pub id: NodeId,
    /// What it claims.
    pub claim: Claim,
    /// What it asks of the limit (permits).
    pub limit: AskedLimit,
    /// The TTL of its node.
    pub ttl: Micros,
    /// Whether it may wait.
    pub patience: Patience,
}

/// Where a node stands: the answer to a join and to a renewal, which is the waiter's re-check (A12).
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
        /// When the node it waits for expires: for exclusive claims the predecessor, for shared ones
        /// the nearest earlier exclusive one, for permits whichever of the queue expires first.
        ahead_expires: Micros,
    },
    /// A try that was not admitted; nothing was made.
    Refused,
    /// This node is not there (expired, removed), or its attempt was abandoned.
    Gone,
    /// Another limit is stored, or none while none was given, or the weight does not fit it (any more).
    Conflict {
        /// The stored limit.
        stored: Option<u32>,
    },
}

/// The nodes that an operation admitted, to be told by a message, the caller's own apart (A14).
pub type Told = Vec<(NodeId, u64)>;

/// The queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Queue {
    last: u64,
    nodes: BTreeMap<u64, Slot>,
    tombstones: BTreeMap<NodeId, Micros>,
    limit: Option<u32>,
    frontier: u64,
}

impl Queue {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Joins, or finds the node of an earlier request of the same attempt and renews it (A9). An
    /// abandoned attempt's late request makes nothing (A11).
    pub fn join(&mut self, now: Micros, ask: &Ask) -> (Answer, Told) {
        let mut told = self.prune(now);
        let answer = self.join_pruned(now, ask, &mut told);
        told.retain(|(id, _)| *id != ask.id);
        (answer, told)
    }

    fn join_pruned(&mut self, now: Micros, ask: &Ask, told: &mut Told) -> Answer {
        if self.tombstones.contains_key(&ask.id) {
            return Answer::Gone;
        }
        if let Some(sequence) = self.find(ask.id) {
            match self.renew_pruned(now, ask.id, sequence) {
                // Expired, and only not dropped yet: as if it were.
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
        told.extend(self.admit());
        self.answer(sequence)
    }

    /// Renews a node named by id and sequence (A5), and answers where it stands (A12). An expired node is gone (A2).
    pub fn renew(&mut self, now: Micros, id: NodeId, sequence: u64) -> (Answer, Told) {
        let mut told = self.prune(now);
        let answer = self.renew_pruned(now, id, sequence);
        told.retain(|(other, _)| *other != id);
        (answer, told)
    }

    fn renew_pruned(&mut self, now: Micros, id: NodeId, sequence: u64) -> Answer {
        match self.nodes.get_mut(&sequence) {
            // One that has expired may wait to be dropped when many have: nobody may tell (A2).
            Some(slot) if slot.id == id && slot.expires > now => slot.expires = now + slot.ttl,
            _ => return Answer::Gone,
        }
        self.answer(sequence)
    }

    /// Removes the node of this id and sequence, and nothing newer (A10). Answers whether it was there.
    pub fn leave(&mut self, now: Micros, id: NodeId, sequence: u64) -> (bool, Told) {
        let mut told = self.prune(now);
        let there = self.nodes.get(&sequence).is_some_and(|slot| slot.id == id);
        if there {
            self.nodes.remove(&sequence);
            told.extend(self.admit());
        }
        told.retain(|(other, _)| *other != id);
        (there, told)
    }

    /// Ends an attempt whose joins have an unknown outcome: removes its node by id and leaves a tombstone (A11).
    pub fn abandon(&mut self, now: Micros, id: NodeId) -> (bool, Told) {
        let mut told = self.prune(now);
        self.tombstones.insert(id, now + u64::try_from(TOMBSTONE.as_micros()).expect("ten minutes fit"));
        let found = self.find(id);
        if let Some(sequence) = found {
            self.nodes.remove(&sequence);
            told.extend(self.admit());
        }
        told.retain(|(other, _)| *other != id);
        (found.is_some(), told)
    }

    /// Turns the exclusive node of this id and sequence into a shared one, in its place (B12). Only one that is admitted:
    /// a waiter would overtake. Answers whether it is shared now.
    pub fn downgrade(&mut self, now: Micros, id: NodeId, sequence: u64) -> (bool, Told) {
        let mut told = self.prune(now);
        let admitted = sequence <= self.frontier;
        let there = match self.nodes.get_mut(&sequence) {
            Some(slot) if slot.id == id && slot.expires > now && admitted => {
                slot.claim = Claim::Shared;
                true
            }
            _ => false,
        };
        told.extend(self.admit());
        (there, told)
    }

    /// Stores the limit. The admitted stay, whatever it is.
    pub fn set_limit(&mut self, now: Micros, limit: u32) -> Told {
        let mut told = self.prune(now);
        self.limit = Some(limit);
        told.extend(self.admit());
        told
    }

    /// The stored limit.
    pub fn limit(&self) -> Option<u32> {
        self.limit
    }

    /// The first waiter, when its weight is above the limit: to be told too, so that it gives up and those behind it get on.
    pub fn unfit_head(&self) -> Option<(NodeId, u64)> {
        let (&sequence, slot) = self.nodes.range(self.frontier + 1..).next()?;
        self.is_unfit(slot.claim).then_some((slot.id, sequence))
    }

    fn is_unfit(&self, claim: Claim) -> bool {
        matches!((claim, self.limit), (Claim::Permits(weight), Some(limit)) if weight > limit)
    }

    /// Removes whatever stands at `sequence`: an operator's hand, or an eviction. Answers what it was.
    pub fn remove(&mut self, now: Micros, sequence: u64) -> (Option<Slot>, Told) {
        let mut told = self.prune(now);
        let slot = self.nodes.remove(&sequence);
        told.extend(self.admit());
        (slot, told)
    }

    /// Drops what has expired, and admits: what every operation does first. Also for a waiter's own timer.
    pub fn prune(&mut self, now: Micros) -> Told {
        // A server clock that was stepped back delays nobody beyond the TTL (A17).
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

    /// Where the node at `sequence` stands. Prune first.
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
        // A waiter behind nobody cannot be: the admission would have taken it in.
        Answer::Waiting { sequence, ahead_expires: blocker.unwrap_or(slot.expires) }
    }

    /// The sequence number of the node that an attempt made.
    pub fn find(&self, id: NodeId) -> Option<u64> {
        self.nodes.iter().find(|(_, slot)| slot.id == id).map(|(&sequence, _)| sequence)
    }

    /// The nodes in order, each with whether it is admitted.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Slot, bool)> {
        self.nodes.iter().map(|(&sequence, slot)| (sequence, slot, sequence <= self.frontier))
    }

    /// Whether the node of this id stands at `sequence`.
    pub fn holds(&self, id: NodeId, sequence: u64) -> bool {
        self.nodes.get(&sequence).is_some_and(|slot| slot.id == id)
    }

    /// Whether it has no node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether nothing is lost by forgetting the queue: no node, tombstone or limit, and no sequence
    /// number that the clock has not passed.
    pub fn is_forgettable(&self, now: Micros) -> bool {
        self.nodes.is_empty() && self.tombstones.is_empty() && self.limit.is_none() && self.last < now
    }

    /// The last sequence number that was given out.
    pub fn last_sequence(&self) -> u64 {
        self.last
    }

    /// Moves the frontier over all that fit now.
    fn admit(&mut self) -> Told {
        let limit = self.limit.unwrap_or(0);
        let mut told = Vec::new();
        while let Some((&sequence, next)) = self.nodes.range(self.frontier + 1..).next() {
            let admitted = self.nodes.range(..=self.frontier).map(|(_, slot)| slot.claim);
            if !fits(admitted, next.claim, limit) {
                break;
            }
            told.push((next.id, sequence));
            self.frontier = sequence;
        }
        told
    }

    fn claims(&self) -> impl Iterator<Item = Claim> {
        self.nodes.values().map(|slot| slot.claim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Micros = 10_000_000;

    fn id(n: u8) -> NodeId {
        NodeId::from_bytes([n; 16])
    }

    fn ask(n: u8, claim: Claim) -> Ask {
        Ask { id: id(n), claim, limit: AskedLimit::Exactly(2), ttl: TTL, patience: Patience::Wait }
    }

    fn waiting(answer: Answer) -> bool {
        matches!(answer, Answer::Waiting { .. })
    }

    #[test]
    fn a_release_admits_the_next_and_tells_it() {
        let mut queue = Queue::new();
        assert_eq!(queue.join(100, &ask(1, Claim::Exclusive)).0, Answer::Admitted { sequence: 100 });
        assert_eq!(
            queue.join(100, &ask(2, Claim::Exclusive)).0,
            Answer::Waiting { sequence: 101, ahead_expires: 100 + TTL }
        );
        assert_eq!(queue.leave(200, id(1), 100), (true, vec![(id(2), 101)]));
        assert_eq!(queue.renew(300, id(2), 101).0, Answer::Admitted { sequence: 101 });
    }

    #[test]
    fn dead_nodes_are_dropped_wherever_they_stand() {
        let mut queue = Queue::new();
        for n in 1..=3 {
            queue.join(u64::from(n), &ask(n, Claim::Exclusive));
        }
        queue.renew(TTL - 1, id(3), 3);
        assert_eq!(queue.prune(TTL + 2), vec![(id(3), 3)]);
        assert_eq!(queue.renew(TTL + 3, id(1), 1).0, Answer::Gone);
    }

    #[test]
    fn nobody_overtakes_a_waiter() {
        let mut queue = Queue::new();
        queue.join(1, &ask(1, Claim::Shared));
        assert!(waiting(queue.join(2, &ask(2, Claim::Exclusive)).0));
        assert!(waiting(queue.join(3, &ask(3, Claim::Shared)).0));
        let attempt = Ask { patience: Patience::Try, ..ask(4, Claim::Shared) };
        assert_eq!(queue.join(4, &attempt).0, Answer::Refused);
        assert_eq!(queue.iter().count(), 3);
        // The writer in the middle leaves: the reader behind it gets in.
        assert_eq!(queue.leave(5, id(2), 2), (true, vec![(id(3), 3)]));
    }

    #[test]
    fn permits_are_all_or_none_and_whoever_leaves_admits_the_next() {
        for leaves in [1, 2] {
            let mut queue = Queue::new();
            for n in 1..=2 {
                queue.join(u64::from(n), &ask(n, Claim::Permits(1)));
            }
            assert!(waiting(queue.join(3, &ask(3, Claim::Permits(1))).0));
            assert_eq!(queue.leave(4, id(leaves), u64::from(leaves)).1, vec![(id(3), 3)]);
        }
        let mut queue = Queue::new();
        queue.join(1, &ask(1, Claim::Permits(1)));
        let other = Ask { limit: AskedLimit::Exactly(3), ..ask(2, Claim::Permits(1)) };
        assert_eq!(queue.join(2, &other).0, Answer::Conflict { stored: Some(2) });
        assert_eq!(queue.join(2, &ask(3, Claim::Permits(3))).0, Answer::Conflict { stored: Some(2) });
    }

    #[test]
    fn a_limit_is_stored_where_none_is_and_followed_where_another_is() {
        let unless_stored = |n, weight, limit| {
            let limit = AskedLimit::UnlessStored(limit);
            Ask { limit, patience: Patience::Try, ..ask(n, Claim::Permits(weight)) }
        };
        let mut queue = Queue::new();
        assert_eq!(queue.join(1, &unless_stored(1, 4, 3)).0, Answer::Conflict { stored: Some(3) });
        assert_eq!(queue.limit(), None, "the join was refused");
        assert_eq!(queue.join(1, &unless_stored(1, 2, 3)).0, Answer::Admitted { sequence: 1 });
        assert_eq!(queue.join(2, &unless_stored(2, 1, 9)).0, Answer::Admitted { sequence: 2 });
        assert_eq!((queue.limit(), queue.join(3, &unless_stored(3, 1, 9)).0), (Some(3), Answer::Refused));
    }

    #[test]
    fn waiters_follow_the_limit() {
        let mut queue = Queue::new();
        for (n, weight) in [(1, 2), (2, 1), (3, 2), (4, 1)] {
            let ask = Ask { limit: AskedLimit::Exactly(3), ..ask(n, Claim::Permits(weight)) };
            queue.join(u64::from(n), &ask);
        }
        // Lower than what is held: nobody is revoked, nobody is admitted until the sum fits.
        assert_eq!(queue.set_limit(5, 1), vec![]);
        assert_eq!(queue.iter().filter(|(.., admitted)| *admitted).count(), 2);
        assert_eq!(queue.leave(6, id(1), 1).1, vec![]);
        assert_eq!(queue.unfit_head(), Some((id(3), 3)));
        assert_eq!(queue.renew(6, id(3), 3).0, Answer::Conflict { stored: Some(1) });
        assert_eq!(queue.leave(7, id(3), 3).1, vec![]);
        assert_eq!((queue.unfit_head(), queue.set_limit(8, 2)), (None, vec![(id(4), 4)]));
    }

    #[test]
    fn a_writer_that_turns_reader_keeps_its_place_and_lets_the_next_readers_in() {
        let mut queue = Queue::new();
        for (n, claim) in
            [(1, Claim::Exclusive), (2, Claim::Shared), (3, Claim::Exclusive), (4, Claim::Shared)]
        {
            queue.join(u64::from(n), &ask(n, claim));
        }
        assert_eq!(queue.downgrade(5, id(3), 3), (false, vec![]), "a waiter");
        assert_eq!(queue.downgrade(5, id(1), 1), (true, vec![(id(2), 2)]));
        assert_eq!(queue.downgrade(6, id(1), 1), (true, vec![]));
        assert_eq!(queue.leave(7, id(1), 1).1, vec![]);
        assert_eq!(queue.leave(8, id(2), 2).1, vec![(id(3), 3)]);
    }

    #[test]
    fn a_late_join_of_an_abandoned_attempt_makes_no_ghost() {
        let mut queue = Queue::new();
        assert!(!queue.abandon(1, id(1)).0);
        assert_eq!(queue.join(2, &ask(1, Claim::Exclusive)).0, Answer::Gone);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_repeated_join_makes_one_node_and_a_stale_leave_removes_nothing_newer() {
        let mut queue = Queue::new();
        queue.join(1, &ask(1, Claim::Exclusive));
        assert_eq!(queue.join(2, &ask(1, Claim::Exclusive)).0, Answer::Admitted { sequence: 1 });
        assert_eq!(queue.iter().count(), 1);
        assert!(!queue.leave(3, id(1), 7).0);
        assert!(!queue.leave(3, id(2), 1).0);
        assert_eq!(queue.iter().count(), 1);
    }

    #[test]
    fn sequence_numbers_rise_when_the_clock_does_not() {
        let mut queue = Queue::new();
        queue.join(1_000, &ask(1, Claim::Exclusive));
        queue.leave(1_000, id(1), 1_000);
        assert_eq!(queue.join(10, &ask(2, Claim::Exclusive)).0, Answer::Admitted { sequence: 1_001 });
    }
}
