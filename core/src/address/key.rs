use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::{Error, Result};

const CODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'.').remove(b'-');

/// The longest key and namespace, in bytes.
pub const MAX_KEY_BYTES: usize = 255;

/// The key of a recipe.
///
/// A `&str` or a `String` becomes a key in the namespace of the coordinator. [`Key::exact`] is a name that
/// another program uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub(super) text: String,
    pub(super) is_exact: bool,
}

impl Key {
    /// Creates a key from a name that another program uses, without namespace and encoding.
    ///
    /// The name is the path of the lock's directory on ZooKeeper, the name for `etcdctl lock` on etcd, and
    /// the text inside the braces of the keys on Redis. The backend refuses names that its server cannot
    /// store.
    ///
    /// Clients of all namespaces share an exact key, and the stored limit of its semaphore; kinds do not. But
    /// on etcd, a mutex and an election of one exact key are one queue, as for etcd's own programs.
    ///
    /// ```
    /// use latchwork_core::Key;
    /// let shared_with_curator = Key::exact("/app/locks/invoices");
    /// ```
    pub fn exact(name: impl Into<String>) -> Self {
        Self { text: name.into(), is_exact: true }
    }

    /// Refuses exact keys for a `recipe`: the groups and barriers of Curator and kazoo have nodes without an
    /// order.
    pub(crate) fn in_namespace(self, recipe: &str) -> Result<String> {
        if self.is_exact {
            let why = format!(
                "a {recipe} cannot have an exact key, because no program shares it with Latchwork: give a key as text"
            );
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

/// Encodes a key: every byte outside `[A-Za-z0-9_.-]`, and every dot of a text of only dots (a path), becomes
/// `%XX`.
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
