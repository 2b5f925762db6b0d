use std::fmt;

use crate::error::{Error, ErrorKind, Result};

/// The shown part of a foreign text, in characters.
const SHOWN: usize = 64;

/// The limit that a semaphore expects and a join of permits requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// This limit. The join stores it if no limit is stored; another stored limit refuses the join.
    Exactly(u32),
    /// The stored limit, or this one if no limit is stored. The join stores it in the step that finds none.
    UnlessStored(u32),
    /// The stored limit. A join is refused if no limit is stored.
    Stored,
}

impl Limit {
    /// Returns the limit that applies, given the stored one; `None` refuses the join.
    pub fn beside(self, stored: Option<u32>) -> Option<u32> {
        match (self, stored) {
            (Self::Exactly(asked), Some(stored)) => (asked == stored).then_some(stored),
            (Self::UnlessStored(_) | Self::Stored, Some(stored)) => Some(stored),
            (Self::Exactly(asked) | Self::UnlessStored(asked), None) => Some(asked),
            (Self::Stored, None) => None,
        }
    }

    /// Returns the limit that the join stores if no limit is stored.
    pub fn to_store(self) -> Option<u32> {
        self.beside(None)
    }

    /// Returns the only limit that does not refuse the join, if there is one.
    pub fn exactly(self) -> Option<u32> {
        match self {
            Self::Exactly(limit) => Some(limit),
            Self::UnlessStored(_) | Self::Stored => None,
        }
    }
}

impl From<u32> for Limit {
    fn from(limit: u32) -> Self {
        Self::Exactly(limit)
    }
}

/// The stored limit that a new limit may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExpectedLimit {
    /// Anything, or nothing.
    Any,
    /// Nothing.
    Absent,
    /// This limit.
    Exactly(u32),
}

impl ExpectedLimit {
    /// Returns whether the stored limit is the expected one.
    pub fn is_met_by(self, stored: &StoredLimit) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => *stored == StoredLimit::Absent,
            Self::Exactly(limit) => *stored == StoredLimit::Permits(limit),
        }
    }
}

impl From<Option<u32>> for ExpectedLimit {
    fn from(stored: Option<u32>) -> Self {
        stored.map_or(Self::Absent, Self::Exactly)
    }
}

/// The stored limit of a queue of permits, which an operator or another program may have written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredLimit {
    /// Nothing is stored.
    Absent,
    /// This limit is stored.
    Permits(u32),
    /// Other text is stored: its first 64 characters, escaped.
    Foreign(Box<str>),
}

impl StoredLimit {
    /// Reads a stored text. A limit is written in decimal digits only, from 1 to `u32::MAX`.
    ///
    /// ```
    /// use latchwork_core::backend::StoredLimit;
    /// assert_eq!(StoredLimit::read(Some(b"10")), StoredLimit::Permits(10));
    /// for text in ["", "0", "-5", "+5", " 5", "5\n", "1e3", "inf", "nan", "4294967296"] {
    ///     assert!(matches!(StoredLimit::read(Some(text.as_bytes())), StoredLimit::Foreign(_)), "{text}");
    /// }
    /// ```
    pub fn read(stored: Option<&[u8]>) -> Self {
        match stored {
            None => Self::Absent,
            Some(stored) => permits(stored).map_or_else(|| Self::foreign(stored), Self::Permits),
        }
    }

    /// Returns a stored text that is known not to be a limit.
    pub fn foreign(stored: &[u8]) -> Self {
        // A character takes at most four bytes, an invalid one too.
        let start = &stored[..stored.len().min(4 * (SHOWN + 1))];
        let text = String::from_utf8_lossy(start);
        let (mut shown, mut characters) = (String::new(), text.chars());
        shown.extend(characters.by_ref().take(SHOWN).flat_map(char::escape_debug));
        if characters.next().is_some() {
            shown.push('…');
        }
        Self::Foreign(shown.into())
    }

    /// Returns the stored limit, if it is one.
    pub fn permits(&self) -> Option<u32> {
        match self {
            Self::Permits(limit) => Some(*limit),
            Self::Absent | Self::Foreign(_) => None,
        }
    }

    /// Returns the answer of [`limit`](super::SequentialNodes::limit).
    ///
    /// # Errors
    /// `Conflict` if the stored text is not a limit.
    pub fn known(self) -> Result<Option<u32>> {
        match self {
            Self::Foreign(_) => Err(Error::new(ErrorKind::Conflict, self.to_string())),
            Self::Absent | Self::Permits(_) => Ok(self.permits()),
        }
    }
}

impl From<Option<u32>> for StoredLimit {
    fn from(limit: Option<u32>) -> Self {
        limit.map_or(Self::Absent, Self::Permits)
    }
}

impl fmt::Display for StoredLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("no limit is stored"),
            Self::Permits(limit) => write!(f, "the stored limit is {limit}"),
            Self::Foreign(text) => write!(
                f,
                "the stored limit \"{text}\" is not a whole number from 1 to {}: store one with set_limit, or delete it",
                u32::MAX
            ),
        }
    }
}

fn permits(stored: &[u8]) -> Option<u32> {
    // `parse` alone would accept a sign.
    let digits = !stored.is_empty() && stored.iter().all(u8::is_ascii_digit);
    let limit = digits.then(|| std::str::from_utf8(stored).ok()?.parse().ok()).flatten()?;
    (limit > 0).then_some(limit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Limit::*;
    use super::*;

    #[test]
    fn table_of_limits_that_count() {
        for (asked, stored, counts) in [
            (Exactly(3), None, Some(3)),
            (Exactly(3), Some(3), Some(3)),
            (Exactly(3), Some(5), None),
            (UnlessStored(3), None, Some(3)),
            (UnlessStored(3), Some(5), Some(5)),
            (Stored, Some(5), Some(5)),
            (Stored, None, None),
        ] {
            assert_eq!(asked.beside(stored), counts, "{asked:?} beside {stored:?}");
        }
        assert_eq!(
            (Exactly(3).to_store(), UnlessStored(3).to_store(), Stored.to_store()),
            (Some(3), Some(3), None)
        );
    }

    #[test]
    fn foreign_limit_text_is_shown_short_and_escaped() {
        let shown = |stored: &[u8]| match StoredLimit::read(Some(stored)) {
            StoredLimit::Foreign(text) => text.into_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(shown(b"a\x1b[2J\"\n\xff"), "a\\u{1b}[2J\\\"\\n\u{fffd}");
        assert_eq!(shown("\u{202e}".as_bytes()), "\\u{202e}");
        assert_eq!(shown(&[b'x'; 64]), "x".repeat(64));
        for long in [&[b'x'; 65][..], &[b'x'; 1_000_000]] {
            assert_eq!(shown(long), "x".repeat(64) + "…");
        }
    }

    proptest! {
        /// Compares with a separate parser of the grammar, with its own arithmetic.
        #[test]
        fn any_bytes_are_a_limit_or_shown_escaped(stored in prop_oneof![
            any::<Vec<u8>>(),
            "[0-9]{1,12}".prop_map(String::into_bytes),
            "[-+ ]?[0-9]{1,11}[.e ]?[0-9]{0,2}".prop_map(String::into_bytes),
        ]) {
            let digits = !stored.is_empty() && stored.iter().all(|byte| b"0123456789".contains(byte));
            let value = stored.iter().fold(0_u128, |value, byte| {
                value.saturating_mul(10).saturating_add(u128::from(byte.wrapping_sub(b'0')))
            });
            let is_limit = digits && (1..=u128::from(u32::MAX)).contains(&value);
            match StoredLimit::read(Some(&stored)) {
                StoredLimit::Permits(limit) => prop_assert!(is_limit && u128::from(limit) == value),
                StoredLimit::Foreign(text) => {
                    prop_assert!(!is_limit);
                    prop_assert!(text.chars().all(|shown| !shown.is_control()));
                    prop_assert!(text.chars().count() <= 10 * SHOWN + 1);
                }
                StoredLimit::Absent => prop_assert!(false, "something is stored"),
            }
        }
    }
}
