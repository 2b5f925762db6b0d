use std::fmt;

use crate::config::Host;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(super) at: u64,
    pub(super) host: Option<Host>,
}

impl Cursor {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (at, host) = match text.split_once('@') {
            Some((at, host)) => (at, Some(Host::parse(host).ok()?)),
            None => (text, None),
        };
        let cursor = Self { at: at.parse().ok()?, host };
        (cursor.to_string() == text && cursor != Self::default()).then_some(cursor)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Some(host) => write!(f, "{}@{host}", self.at),
            None => write!(f, "{}", self.at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_is_written_and_nothing_else_is_one() {
        for text in ["7", "7@h:1", "0@[::1]:2"] {
            assert_eq!(Cursor::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "0", "07", "-1", "7@", "7@h", "7@h:0x", "x@h:1"] {
            assert_eq!(Cursor::parse(text), None, "{text}");
        }
    }
}
