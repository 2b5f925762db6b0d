//! Which cases a run plays: all of them, or those that its patterns name.

use std::fmt;
use std::str::FromStr;

use crate::case::Case;
use crate::cases;

/// The environment variable with the patterns of a run, separated by spaces.
pub const VARIABLE: &str = "LATCHWORK_CASES";

/// The environment variable that names a topology of servers other than a single one: its suites
/// are played whole in every tier then.
pub const TOPOLOGY: &str = "LATCHWORK_TOPOLOGY";

/// Whether suites on this topology are played whole: in the long tier, or when [`TOPOLOGY`] names it.
pub fn is_whole_on(topology: &str) -> bool {
    cases::is_long()
        || std::env::var(TOPOLOGY).is_ok_and(|named| named.split_whitespace().any(|name| name == topology))
}

/// A part of a case's title or clause. With a `*` (any characters) or a `?` (one character) it is
/// compared with the whole of the title or the clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// Whether the case's title or clause fits, in whatever case of letters.
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
            return Err("a pattern is a part of a case's name or clause, or has a * or a ?");
        }
        Ok(Self(text.to_lowercase()))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
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

/// The cases that a run plays.
#[derive(Clone, Debug, Default)]
pub struct Selection(Vec<Pattern>);

impl Selection {
    /// Those that one of the patterns fits; all of them when there is none.
    ///
    /// # Errors
    /// When a pattern fits no case of this tier.
    pub fn new(patterns: Vec<Pattern>) -> Result<Self, String> {
        let cases = cases::all();
        match patterns.iter().find(|pattern| !cases.iter().any(|case| pattern.fits(case))) {
            Some(pattern) => Err(format!(
                "no case fits {:?}: expected a part of a case's name or clause, or a pattern with * or ?, as \
                 `latchwork-conformance list` shows them{}",
                pattern.0,
                if cases::is_long() { "" } else { " (the long tier's with LATCHWORK_LONG=1)" }
            )),
            None => Ok(Self(patterns)),
        }
    }

    /// What [`VARIABLE`] names; all cases when it is not set.
    ///
    /// # Errors
    /// As [`new`](Selection::new).
    pub fn from_environment() -> Result<Self, String> {
        let text = std::env::var(VARIABLE).unwrap_or_default();
        let patterns = text.split_whitespace().map(|pattern| Pattern(pattern.to_lowercase())).collect();
        Self::new(patterns).map_err(|error| format!("{VARIABLE}: {error}"))
    }

    /// Whether it holds this case.
    pub fn contains(&self, case: &Case) -> bool {
        self.0.is_empty() || self.0.iter().any(|pattern| pattern.fits(case))
    }

    /// Its cases, in the order of the suite.
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
    fn a_pattern_without_a_case_is_named() {
        let error = chosen(&["mutex", "nothing_of_this_name"]).unwrap_err();
        assert!(error.contains("\"nothing_of_this_name\"") && error.contains("list"), "{error}");
        assert!(chosen(&["key-exac?_"]).is_err(), "the whole is compared");
        assert!("".parse::<Pattern>().is_err());
    }
}
