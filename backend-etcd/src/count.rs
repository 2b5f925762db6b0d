//! Counted releases: how a node far from the head of a mutex' queue knows that its turn has come without looking at the queue.
//!
//! *Protocol.* The release of a node that was admitted behind many others is ONE transaction: IF the node is the one that was
//! made THEN write the queue's counter, tell, and delete the node. The counter is a key whose version the server counts; it hangs on the
//! lease of who wrote it last, so that its series may end at any time, and the next write begins another. A join reads, in its own transaction,
//! the counter and how many nodes are in the queue. What is told is the series, by the revision that made its counter,
//! and the count with this release, at the key for that count's remainder, on which the waiter whose turn it is has a watch: whoever was admitted by a count
//! knows it, since nobody but the holder counts on.
//!
//! *Why it is safe.* Only who was admitted counts, in the transaction that deletes its node: it had nobody before it. So each release
//! that is counted while a node stands in the queue takes away one of those that were ahead of it, and after as many as were ahead there
//! is none, whoever else came, left or counts not (RULES B3). Those that left uncounted only make it fall short: then the queue is listed.

use crate::terms::Found;

/// How many releases were counted in one series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    /// The revision that made the counter.
    pub(crate) series: u64,
    pub(crate) releases: u64,
}

impl Count {
    /// What was read of the counter's key; `None` where it is not there.
    pub(crate) fn read(found: &Found) -> Option<Self> {
        found.entries.first().map(|entry| Self { series: entry.created, releases: entry.version })
    }

    pub(crate) fn next(self) -> Self {
        Self { releases: self.releases + 1, ..self }
    }

    pub(crate) fn encode(self) -> String {
        format!("{} {}", self.series, self.releases)
    }

    pub(crate) fn parse(told: &[u8]) -> Option<Self> {
        let (series, releases) = std::str::from_utf8(told).ok()?.split_once(' ')?;
        Some(Self { series: series.parse().ok()?, releases: releases.parse().ok()? })
    }
}

/// What a join read, by which a count later says whether all that were ahead have left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    joined: u64,
    ahead: u64,
    counted: Option<Count>,
}

impl Turn {
    /// Of the node that was made at this revision, by the transaction that read the queue, itself in it, and the counter.
    pub(crate) fn new(joined: u64, queue: &Found, counter: &Found) -> Option<Self> {
        Some(Self { joined, ahead: queue.count.checked_sub(1)?, counted: Count::read(counter) })
    }

    /// How many releases of the series in which it joined will have been counted.
    pub(crate) fn number(self) -> u64 {
        self.ahead + self.counted.map_or(0, |then| then.releases)
    }

    pub(crate) fn ahead(self) -> u64 {
        self.ahead
    }

    pub(crate) fn has_come(self, now: Count) -> bool {
        let since_the_join = match self.counted {
            Some(then) if then.series == now.series => now.releases.saturating_sub(then.releases),
            // All of it was counted after the join.
            _ if now.series > self.joined => now.releases,
            // Another client's belief of a series that ended before.
            _ => return false,
        };
        since_the_join >= self.ahead
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::terms::Entry;

    pub(crate) fn queue(count: u64) -> Found {
        Found { count, ..Found::default() }
    }

    pub(crate) fn counter(created: u64, version: u64) -> Found {
        let entry = Entry { key: b"c".to_vec(), value: Vec::new(), created, modified: created, version };
        Found { entries: vec![entry], more: false, count: 1 }
    }

    fn count(series: u64, releases: u64) -> Count {
        Count { series, releases }
    }

    #[test]
    fn a_turn_has_come_when_as_many_were_released_as_were_ahead() {
        let turn = Turn::new(50, &queue(4), &counter(9, 100)).unwrap();
        for (now, has_come) in [(99, false), (100, false), (102, false), (103, true), (104, true)] {
            assert_eq!(turn.has_come(count(9, now)), has_come, "{now}");
        }
    }

    #[test]
    fn a_series_that_began_since_counts_from_its_start_and_an_earlier_one_says_nothing() {
        for known in [counter(9, 100), Found::default()] {
            let turn = Turn::new(50, &queue(4), &known).unwrap();
            assert!(turn.has_come(count(51, 3)));
            assert!(!turn.has_come(count(51, 2)));
            assert!(!turn.has_come(count(8, 1000)), "ended before the join");
        }
    }

    #[test]
    fn a_join_that_did_not_see_itself_knows_nothing() {
        assert_eq!(Turn::new(50, &queue(0), &counter(9, 1)), None);
    }

    #[test]
    fn a_count_reads_back_and_what_is_none_says_nothing() {
        let count = count(7, 12);
        assert_eq!(Count::parse(count.next().encode().as_bytes()), Some(Count { releases: 13, ..count }));
        for told in [&b""[..], b"7", b"7 x", b" ", b"\xff 1"] {
            assert_eq!(Count::parse(told), None);
        }
    }
}
