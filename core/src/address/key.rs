//! The keys of users: their encoding and their length.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::{Error, Result};

/// Every byte outside `[A-Za-z0-9_.-]` is coded as `%XX`.
const CODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'.').remove(b'-');

/// The longest key and namespace, in bytes.
pub const MAX_KEY_BYTES: usize = 255;

/// The key of a recipe. A `&str` or a `String` is a key in the namespace of the coordinator, encoded by
/// this library (KEY-OPAQUE). [`Key::exact`] makes the name that another program uses (KEY-EXACT).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub(super) text: String,
    pub(super) is_exact: bool,
}

impl Key {
    /// A name that another program uses: no namespace and no encoding. The backend checks it for
    /// what its server refuses. On ZooKeeper it is the path of the lock's directory, on etcd the
    /// lock's name as `etcdctl lock` takes it, on Redis the text inside the braces of the keys.
    ///
    /// Clients of all namespaces meet at an exact key, and share a semaphore's stored limit.
    /// Kinds stay apart: a mutex, a read/write lock and a semaphore of one exact key are three
    /// things (KEY-KINDS). (On etcd a mutex and an election of one exact key are one queue, as they
    /// are for etcd's own programs.)
    ///
    /// ```
    /// use latchwork_core::Key;
    /// let shared_with_curator = Key::exact("/app/locks/invoices");
    /// ```
    pub fn exact(name: impl Into<String>) -> Self {
        Self { text: name.into(), is_exact: true }
    }

    /// The text of a key in a namespace. `recipe` has no exact keys: the groups and barriers of Curator
    /// and kazoo have nodes without an order, and a barrier needs a cell too.
    ///
    /// # Errors
    /// `InvalidArgument` naming `key` for an exact key.
    pub(crate) fn in_namespace(self, recipe: &str) -> Result<String> {
        if self.is_exact {
            let why = format!("no other program has the layout of a {recipe}: no exact address is taken");
            return Err(Error::invalid("key", why).on(self.text));
        }
        Ok(self.text)
    }
}

impl From<&str> for Key {
    fn from(key: &str) -> Self {
        key.to_owned().into()
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Self { text, is_exact: false }
    }
}

impl From<&String> for Key {
    fn from(key: &String) -> Self {
        key.clone().into()
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
