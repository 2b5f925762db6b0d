use std::fmt::{self, Write};
use std::str::FromStr;

use super::{Count, Operation, Record, WRITERS};
use crate::error::{Error, ErrorKind};

/// The value, the number of writes, `of` and the initial value if any, then the records.
impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.value, self.writes)?;
        if let Some(initial) = self.initial {
            write!(f, " of {initial}")?;
        }
        self.last.iter().try_for_each(|Record { operation: Operation { writer, number }, result }| {
            f.write_char(' ')?;
            write!(f, "{writer:016x}:{number}:{result}")
        })
    }
}

/// The error for a text that is not a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotACount;

/// The error for a cell that is not the expected count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotThisCount {
    /// The cell holds no count.
    Foreign,
    /// A count with another initial number, or without one.
    Began {
        /// The stored initial number.
        with: Option<u32>,
        /// The expected initial number.
        asked: Option<u32>,
    },
}

impl fmt::Display for NotThisCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => {
                f.write_str("the stored value is not a count: use another key, or delete the value")
            }
            Self::Began { with: Some(with), asked: Some(asked) } => {
                write!(
                    f,
                    "the stored count began with {with}, not with {asked}: use the same number in every client"
                )
            }
            Self::Began { .. } => f.write_str(
                "the stored value is a count of another kind: use another key, or delete the value",
            ),
        }
    }
}

impl From<NotThisCount> for Error {
    fn from(why: NotThisCount) -> Self {
        Self::new(ErrorKind::Conflict, why.to_string())
    }
}

impl Count {
    /// Returns the count in the value of a cell, or the initial count without a cell.
    pub fn in_cell(value: Option<&[u8]>, initial: Option<u32>) -> Result<Self, NotThisCount> {
        let Some(value) = value else {
            return Ok(initial.map_or_else(Self::default, Self::beginning_with));
        };
        let text = std::str::from_utf8(value).map_err(|_| NotThisCount::Foreign)?;
        match text.parse::<Self>() {
            Ok(count) if count.initial == initial => Ok(count),
            Ok(count) => Err(NotThisCount::Began { with: count.initial, asked: initial }),
            Err(NotACount) => Err(NotThisCount::Foreign),
        }
    }
}

impl FromStr for Count {
    type Err = NotACount;

    fn from_str(text: &str) -> Result<Self, NotACount> {
        let mut words = text.split(' ').peekable();
        let mut word = || words.next().ok_or(NotACount);
        let (value, writes) = (parsed(word()?)?, parsed(word()?)?);
        let initial = match words.next_if_eq(&"of") {
            Some(_) => Some(parsed(words.next().ok_or(NotACount)?)?),
            None => None,
        };
        let last: Vec<_> = words.map(str::parse).collect::<Result<_, _>>()?;
        let count = Self { value, writes, initial, last };
        // Each count has one form, so another program that reads and writes it does not change it.
        if count.last.len() > WRITERS || count.to_string() != text {
            return Err(NotACount);
        }
        Ok(count)
    }
}

impl FromStr for Record {
    type Err = NotACount;

    fn from_str(text: &str) -> Result<Self, NotACount> {
        let (writer, rest) = text.split_once(':').ok_or(NotACount)?;
        let (number, result) = rest.split_once(':').ok_or(NotACount)?;
        let writer = u64::from_str_radix(writer, 16).map_err(|_| NotACount)?;
        Ok(Self { operation: Operation { writer, number: parsed(number)? }, result: parsed(result)? })
    }
}

fn parsed<T: FromStr>(text: &str) -> Result<T, NotACount> {
    text.parse().map_err(|_| NotACount)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contracts::MAX_CELL_BYTES;

    #[test]
    fn the_longest_count_fits_into_a_cell() {
        let most = |number| Record {
            operation: Operation { writer: u64::MAX - number, number: u64::MAX },
            result: i64::MIN,
        };
        let last = (0..WRITERS as u64).map(most).collect();
        let count = Count { value: i64::MIN, writes: u64::MAX, initial: Some(u32::MAX), last };
        assert!(count.to_string().len() <= MAX_CELL_BYTES, "{} bytes", count.to_string().len());
        assert_eq!(count.to_string().parse(), Ok(count));
    }

    #[test]
    fn malformed_text_is_not_a_count() {
        for text in [
            "",
            "5",
            "5 x",
            "5 1 ",
            "5 1 of",
            "5 1 of x",
            "5 1 1:2",
            "5 1 1:2:3:4",
            "x 1",
            "5  1",
            "+5 1",
            "05 1",
            "-0 1",
        ] {
            assert_eq!(text.parse::<Count>(), Err(NotACount), "{text:?}");
        }
    }

    #[test]
    fn a_count_that_began_otherwise_is_another() {
        let read = |text: &str, initial| Count::in_cell(Some(text.as_bytes()), initial);
        assert_eq!(read("2 1 of 3", Some(3)).map(|count| count.value()), Ok(2));
        for (text, with, asked) in
            [("2 1 of 3", Some(3), Some(2)), ("2 1 of 3", Some(3), None), ("2 1", None, Some(3))]
        {
            assert_eq!(read(text, asked), Err(NotThisCount::Began { with, asked }), "{text}");
        }
        assert_eq!(Count::in_cell(Some(b"\xff"), None), Err(NotThisCount::Foreign));
        assert_eq!(Count::in_cell(None, Some(3)).map(|count| count.value()), Ok(3));
    }
}
