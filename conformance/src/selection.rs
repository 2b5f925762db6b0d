//! The cases of a run.

use std::str::FromStr;

use crate::case::Case;
use crate::cases;

/// Holds the patterns of a run, separated by spaces.
pub const VARIABLE: &str = "LATCHWORK_CASES";

const IN_ROTATION: [&str; 3] = ["redis", "zookeeper", "etcd"];

/// Topologies: several servers, TLS, or a login.
pub const TOPOLOGIES: [&str; 10] = [
    "zookeeper-3",
    "etcd-3",
    "redis-sentinel",
    "redis-cluster",
    "redis-tls",
    "zookeeper-tls",
    "zookeeper-3-tls",
    "etcd-tls",
    "redis-acl",
    "etcd-auth",
];

/// Returns whether the backend is a topology.
pub fn is_topology(backend: &str) -> bool {
    TOPOLOGIES.contains(&backend)
}

/// The part that a run plays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tier {
    /// Each case except tier 2's. [Client code](Case::is_client_code) plays on one of three servers. Other backends play
    /// everything.
    #[default]
    One,
    /// [Chaos](Case::faults) on servers, and [the differences](cases::ON_EVERY_TOPOLOGY) on topologies.
    Two,
    /// All cases.
    Three,
}

impl FromStr for Tier {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "1" => Ok(Self::One),
            "2" => Ok(Self::Two),
            "3" => Ok(Self::Three),
            _ => Err("a tier is 1, 2 or 3"),
        }
    }
}

/// Returns whether a run of this tier plays this case. A topology plays the same in tiers 1 and 2. With `LATCHWORK_LONG`, all play.
pub fn is_played_on(case: &Case, backend: &str, tier: Tier) -> bool {
    if tier == Tier::Three || cases::is_long() {
        return true;
    }
    if is_topology(backend) {
        return case.is_on_every_topology();
    }
    if !IN_ROTATION.contains(&backend) {
        return tier == Tier::One;
    }
    case.faults == (tier == Tier::Two) && (!case.is_client_code() || turn_of(case) == backend)
}

fn turn_of(case: &Case) -> &'static str {
    let sum: usize = case.title().bytes().map(usize::from).sum();
    IN_ROTATION[sum % IN_ROTATION.len()]
}

/// A part of a title or clause; with `*` or `?`, the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// Returns whether it matches, in any case of letters.
    pub fn fits(&self, case: &Case) -> bool {
        [case.title(), case.clause.to_lowercase()].iter().any(|text| match self.0.contains(['*', '?']) {
            true => fits_whole(self.0.as_bytes(), text.as_bytes()),
            false => text.contains(&self.0),
        })
    }
}

impl FromStr for Pattern {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(
                "the pattern is empty: give a part of a case's name or clause, or a pattern with * or ?",
            );
        }
        Ok(Self(text.to_lowercase()))
    }
}

fn fits_whole(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|from| fits_whole(rest, &text[from..])),
        Some((first, rest)) => text
            .split_first()
            .is_some_and(|(byte, text)| [b'?', *byte].contains(first) && fits_whole(rest, text)),
    }
}

/// The chosen cases.
#[derive(Clone, Debug, Default)]
pub struct Selection(Vec<Pattern>);

impl Selection {
    /// Chooses matching cases; all without a pattern.
    ///
    /// # Errors
    /// If a pattern matches none.
    pub fn new(patterns: Vec<Pattern>) -> Result<Self, String> {
        let cases = cases::all();
        match patterns.iter().find(|pattern| !cases.iter().any(|case| pattern.fits(case))) {
            Some(pattern) => Err(format!(
                "no case matches {:?}: expected a part of a case's name or clause, or a pattern with * or ?; see \
                 `latchwork-conformance list`{}",
                pattern.0,
                if cases::is_long() { "" } else { " (the long tier's with LATCHWORK_LONG=1)" }
            )),
            None => Ok(Self(patterns)),
        }
    }

    /// Chooses by [`VARIABLE`]; all if it is not set.
    ///
    /// # Errors
    /// As [`new`](Selection::new).
    pub fn from_environment() -> Result<Self, String> {
        let text = std::env::var(VARIABLE).unwrap_or_default();
        let patterns = text.split_whitespace().map(|pattern| Pattern(pattern.to_lowercase())).collect();
        Self::new(patterns).map_err(|error| format!("{VARIABLE}: {error}"))
    }

    /// Returns whether this case is chosen.
    pub fn contains(&self, case: &Case) -> bool {
        self.0.is_empty() || self.0.iter().any(|pattern| pattern.fits(case))
    }

    /// Returns the chosen cases that [are played](is_played_on) on this backend.
    pub fn cases_on(&self, backend: &str, tier: Tier) -> Vec<Case> {
        let mut cases = self.cases();
        cases.retain(|case| is_played_on(case, backend, tier));
        cases
    }

    /// Returns the chosen cases.
    pub fn cases(&self) -> Vec<Case> {
        let mut cases = cases::all();
        cases.retain(|case| self.contains(case));
        cases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(patterns: &[&str]) -> Result<Vec<String>, String> {
        let patterns = patterns.iter().map(|pattern| pattern.parse().unwrap()).collect();
        Ok(Selection::new(patterns)?.cases().iter().map(Case::title).collect())
    }

    #[test]
    fn a_pattern_is_a_part_or_fits_the_whole() {
        let all = chosen(&[]).unwrap();
        assert_eq!(all.len(), cases::all().len());
        assert_eq!(chosen(&["mutex_is_fair@rwlock"]), Ok(vec!["mutex_is_fair@rwlock-writer".to_owned()]));
        assert_eq!(chosen(&["MUTEX_IS_FAI?"]), Ok(vec!["mutex_is_fair".to_owned()]));
        let part = chosen(&["under_chaos"]).unwrap();
        assert_eq!(part, chosen(&["*_under_chaos"]).unwrap());
        assert_eq!(part.len(), 3);
        let clause = chosen(&["key-exact"]).unwrap();
        assert!(clause.len() > 1 && clause == chosen(&["KEY-EX*T"]).unwrap());
        assert_eq!(chosen(&["key-exact", "*_under_chaos"]).unwrap().len(), clause.len() + 3);
    }

    #[test]
    fn rotation_loses_no_case_and_shares_adapters_evenly() {
        let mut turns = std::collections::BTreeMap::new();
        for case in cases::all() {
            let on = |tier| IN_ROTATION.into_iter().filter(move |backend| is_played_on(&case, backend, tier));
            let (on, beyond): (Vec<_>, Vec<_>) = (on(Tier::One).collect(), on(Tier::Two).collect());
            let (played, empty) = if case.faults { (beyond, on) } else { (on, beyond) };
            assert_eq!(played.len(), if case.is_client_code() { 1 } else { 3 }, "{case:?}: {played:?}");
            assert!(empty.is_empty(), "{case:?}: {empty:?}");
            if case.adapter.is_client_code() {
                *turns.entry((played[0], case.adapter)).or_insert(0) += 1;
            }
            assert!(is_played_on(&case, "memory", Tier::One) && !is_played_on(&case, "memory", Tier::Two));
            assert!(
                is_played_on(&case, "redis", Tier::Three)
                    && is_played_on(&case, "redis-cluster", Tier::Three)
            );
        }
        assert_eq!(turns.len(), 9, "each of three adapters plays on each of three servers: {turns:?}");
        assert!(turns.values().all(|turns| *turns >= 10), "{turns:?}");
    }

    #[test]
    fn a_pattern_without_a_case_is_named() {
        let error = chosen(&["mutex", "nothing_of_this_name"]).unwrap_err();
        assert!(error.contains("\"nothing_of_this_name\"") && error.contains("list"), "{error}");
        assert!(chosen(&["key-exac?_"]).is_err(), "the whole is compared");
        assert!("".parse::<Pattern>().is_err());
    }
}
