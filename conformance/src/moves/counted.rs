use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::rule::{Broken, Rule};

pub(super) const COUNTER: &str = "adds";

/// The failure without adds.
pub const NOTHING_ADDED: &str = "no process has added";

/// On the clock of grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Added {
    pub(super) asked: u64,
    pub(super) at: u64,
    pub(super) number: i64,
}

#[derive(Debug, Default)]
pub(super) struct Adds {
    pub(super) confirmed: Vec<Added>,
    pub(super) in_doubt: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    confirmed: usize,
    in_doubt: usize,
    total: i64,
    longest: Duration,
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { confirmed, in_doubt, total, longest } = self;
        write!(
            f,
            "the counter is {total}: {confirmed} adds were confirmed, {in_doubt} in doubt, the longest took {longest:.1?}"
        )
    }
}

impl Adds {
    /// Each once, in an order that fits the times.
    pub(super) fn judge(&self, total: i64) -> Result<Counted, Broken> {
        let mut by_number = BTreeMap::new();
        for added in &self.confirmed {
            if let Some(other) = by_number.insert(added.number, *added) {
                return Err(
                    Rule::Once.broken(format!("two adds have the same result: {added:?} and {other:?}"))
                );
            }
        }
        // The latest call of an add with a lower result.
        let mut latest: Option<Added> = None;
        for added in by_number.values() {
            if let Some(before) = latest.filter(|before| added.at < before.asked) {
                let why = format!("the counter went back: {before:?} was asked for after {added:?}");
                return Err(Rule::Forward.broken(why));
            }
            if latest.is_none_or(|before| before.asked < added.asked) {
                latest = Some(*added);
            }
        }
        let (confirmed, in_doubt) = (self.confirmed.len(), self.in_doubt);
        let at_least = i64::try_from(confirmed).expect("few");
        let at_most = at_least + i64::try_from(in_doubt).expect("few");
        if !(at_least..=at_most).contains(&total) {
            let why = format!("the counter is at {total} after {confirmed} adds and {in_doubt} in doubt");
            return Err(Rule::Total.broken(why));
        }
        if confirmed == 0 {
            return Err(Rule::Added.broken(NOTHING_ADDED));
        }
        let longest = self.confirmed.iter().map(|added| added.at - added.asked).max().unwrap_or_default();
        Ok(Counted { confirmed, in_doubt, total, longest: Duration::from_nanos(longest) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_add_is_reported_and_one_in_doubt_may_count_or_not() {
        let added = |(asked, at, number)| Added { asked, at, number };
        let confirmed = [(0, 9, 2), (1, 8, 1), (10, 11, 4)].map(added).to_vec();
        let adds = Adds { confirmed, in_doubt: 1 };
        assert_eq!(adds.judge(4).expect("sound").longest, Duration::from_nanos(9));
        assert!(adds.judge(3).is_ok());
    }
}
