//! Records of holds on a clock that all processes share. The check only compares numbers.

use latchwork_core::{Claim, Token};
use serde::{Deserialize, Serialize};

/// A time in which a lock was certainly held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldRecord {
    /// The number of the key.
    #[serde(default)]
    pub key: usize,
    /// The claim.
    pub claim: Claim,
    /// The token, if any.
    #[serde(default)]
    pub token: Option<Token>,
    /// The start, on the clock [`monotonic`].
    pub from: u64,
    /// The end.
    pub to: u64,
}

/// Returns Linux' `CLOCK_MONOTONIC` in nanoseconds, which is Java's `System.nanoTime`.
pub fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec * 1_000_000_000 + now.tv_nsec).expect("it counts up from the machine's start")
}

/// Checks that writers were alone, and that readers and permits kept the `limit`.
///
/// # Errors
/// The holders at the same time.
pub fn none_overlap(records: &[HoldRecord], limit: u32) -> Result<(), String> {
    match overlaps(records, limit).first() {
        Some(inside) => Err(format!("held at once, with a limit of {limit}: {inside:#?}")),
        None => Ok(()),
    }
}

/// Returns the holders at each start that broke [`none_overlap`], the new one last.
pub fn overlaps(records: &[HoldRecord], limit: u32) -> Vec<Vec<HoldRecord>> {
    let mut entries: Vec<_> = records.iter().collect();
    // On a paused clock a hold may have no length.
    entries.sort_unstable_by_key(|record| (record.from, record.to));
    let (mut inside, mut found): (Vec<&HoldRecord>, _) = (Vec::new(), Vec::new());
    for entry in entries {
        inside.retain(|other| other.to > entry.from);
        inside.push(entry);
        let alone = inside.iter().any(|record| record.claim == Claim::Exclusive);
        let weight: u64 = inside.iter().map(|record| weight(record.claim)).sum();
        if (alone && inside.len() > 1) || weight > u64::from(limit) {
            found.push(inside.iter().map(|record| **record).collect());
        }
    }
    found
}

fn weight(claim: Claim) -> u64 {
    match claim {
        Claim::Permits(weight) => u64::from(weight),
        Claim::Exclusive | Claim::Shared => 0,
    }
}

/// Checks that no hold starts before a writer with a lower token has ended, no writer before any hold with a lower token, and that
/// no two writers have one token.
///
/// # Errors
/// The two holds.
pub fn in_order_of_tokens(records: &[HoldRecord]) -> Result<(), String> {
    let mut records: Vec<_> = records.iter().collect();
    records.sort_by_key(|record| (record.token, record.from));
    let (mut last_writer, mut last): (Option<&HoldRecord>, Option<&HoldRecord>) = (None, None);
    for record in records {
        let writes = record.claim == Claim::Exclusive;
        let before = if writes { last } else { last_writer };
        if let Some(before) = before.filter(|before| before.to > record.from) {
            return Err(format!("out of order: {before:#?} and {record:#?}"));
        }
        if writes && last_writer.is_some_and(|before| before.token == record.token) {
            return Err(format!("given twice: {:?}", record.token));
        }
        let later = |one: Option<&HoldRecord>| one.is_none_or(|one| one.to < record.to);
        if writes && later(last_writer) {
            last_writer = Some(record);
        }
        if later(last) {
            last = Some(record);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use latchwork_core::Claim::{Exclusive, Permits, Shared};

    use super::*;

    fn record(claim: Claim, token: u64, from: u64, to: u64) -> HoldRecord {
        HoldRecord { key: 0, claim, token: Some(Token::new(0, token).unwrap()), from, to }
    }

    #[test]
    fn overlap_is_found_in_any_order_of_the_log() {
        let apart = [
            record(Exclusive, 1, 0, 10),
            record(Shared, 2, 10, 20),
            record(Shared, 3, 12, 30),
            record(Exclusive, 4, 30, 31),
        ];
        for (claims, overlap) in [
            ((Shared, 5, 25, 29), false),
            ((Shared, 5, 9, 11), true),
            ((Shared, 5, 29, 31), true),
            ((Exclusive, 5, 29, 30), true),
            ((Exclusive, 5, 13, 14), true),
            ((Exclusive, 5, 31, 32), false),
        ] {
            let (claim, token, from, to) = claims;
            let mut log = apart.to_vec();
            log.push(record(claim, token, from, to));
            for _ in 0..log.len() {
                log.rotate_left(1);
                assert_eq!(none_overlap(&log, 1).is_err(), overlap, "{claims:?}");
                assert_eq!(overlaps(&log, 1).len(), usize::from(overlap), "{claims:?}");
            }
        }
    }

    /// The end of a killed process's hold is unknown.
    #[test]
    fn a_hold_of_no_time_is_inside_another() {
        let long = record(Exclusive, 2, 10, 20);
        for (from, token, is_inside) in
            [(9, 1, false), (10, 1, false), (15, 1, true), (15, 3, true), (20, 3, false)]
        {
            for claim in [Exclusive, Shared] {
                for log in
                    [[long, record(claim, token, from, from)], [record(claim, token, from, from), long]]
                {
                    assert_eq!(none_overlap(&log, 1).is_err(), is_inside, "{log:?}");
                    assert_eq!(in_order_of_tokens(&log).is_err(), is_inside, "{log:?}");
                }
            }
        }
        assert!(none_overlap(&[record(Permits(1), 1, 10, 20), record(Permits(1), 2, 15, 15)], 1).is_err());
    }

    #[test]
    fn permits_are_added_up() {
        let full = [record(Permits(2), 1, 0, 10), record(Permits(3), 2, 5, 15)];
        assert_eq!(none_overlap(&full, 5), Ok(()));
        assert!(none_overlap(&full, 4).is_err());
        let after_one_left = [full[0], full[1], record(Permits(2), 3, 10, 12)];
        assert_eq!(none_overlap(&after_one_left, 5), Ok(()));
        assert!(none_overlap(&[full[0], full[1], record(Permits(1), 3, 9, 12)], 5).is_err());
    }

    #[test]
    fn tokens_that_are_not_the_order_of_holding_are_found() {
        let good = [
            record(Exclusive, 1, 0, 10),
            record(Shared, 3, 11, 30),
            record(Shared, 2, 15, 20),
            record(Exclusive, 4, 30, 31),
        ];
        assert_eq!(in_order_of_tokens(&good), Ok(()));
        // A downgraded writer keeps its token, may hold with a later reader, and may die at its start.
        let downgraded = [good[0], record(Shared, 1, 12, 20), good[1], record(Exclusive, 4, 30, 31)];
        assert_eq!(in_order_of_tokens(&downgraded), Ok(()));
        assert_eq!(in_order_of_tokens(&[good[0], record(Shared, 1, 10, 10), good[1]]), Ok(()));
        assert!(
            in_order_of_tokens(&[good[0], record(Shared, 1, 12, 20), record(Exclusive, 4, 19, 31)]).is_err()
        );
        for bad in [
            [good[0], record(Exclusive, 2, 11, 12), record(Shared, 1, 13, 14)],
            [good[0], record(Exclusive, 2, 20, 30), record(Shared, 3, 11, 12)],
            [good[0], record(Exclusive, 3, 11, 12), record(Exclusive, 2, 13, 14)],
            [good[0], record(Exclusive, 2, 11, 12), record(Exclusive, 2, 13, 14)],
        ] {
            assert!(in_order_of_tokens(&bad).is_err(), "{bad:?}");
        }
    }
}
