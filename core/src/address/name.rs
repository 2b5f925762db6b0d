//! The keys of users: their encoding and their length.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::{Error, Result};

/// Every byte outside `[A-Za-z0-9_.-]` is coded as `%XX`.
const CODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'.').remove(b'-');

/// The longest key and namespace, in bytes.
pub const MAX_KEY_BYTES: usize = 255;

/// The name that a user gives to a recipe: a key of the coordinator's namespace (any `&str` or
/// `String`), or another program's name ([`Address::exact`](super::Address::exact)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// An opaque key, encoded by this library (KEY-OPAQUE).
    Key(String),
    /// Another program's name, used as it is (KEY-EXACT).
    Exact(String),
}

impl From<&str> for Name {
    fn from(key: &str) -> Self {
        Name::Key(key.to_owned())
    }
}

impl From<String> for Name {
    fn from(key: String) -> Self {
        Name::Key(key)
    }
}

impl From<&String> for Name {
    fn from(key: &String) -> Self {
        Name::Key(key.clone())
    }
}

/// The key encoding: every byte outside `[A-Za-z0-9_.-]` as `%XX`. A text of dots only is encoded
/// too, since ZooKeeper refuses `.` and `..` and they mean something in paths.
pub fn encode(text: &str) -> String {
    if text.bytes().all(|byte| byte == b'.') {
        return "%2E".repeat(text.len());
    }
    utf8_percent_encode(text, CODED).to_string()
}

pub(crate) fn check_length(argument: &'static str, text: &str) -> Result<()> {
    match text.len() {
        0 => Err(Error::invalid(argument, "must not be empty")),
        1..=MAX_KEY_BYTES => Ok(()),
        long => {
            Err(Error::invalid(argument, format!("has {long} bytes, at most {MAX_KEY_BYTES} are allowed")))
        }
    }
}
