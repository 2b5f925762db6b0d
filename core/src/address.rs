mod key;
mod kind;
mod prefix;

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::shown::shown;

pub(crate) use key::check_length;
pub use key::{Key, MAX_KEY_BYTES, encode};
pub use kind::Kind;
pub use prefix::QueuePrefix;

#[derive(Clone, Debug)]
pub(crate) struct Namespace {
    pub(crate) text: String,
    coded: Arc<str>,
}

impl Namespace {
    /// The address that uses it validates the text.
    pub(crate) fn new(namespace: &str) -> Self {
        Self { text: namespace.to_owned(), coded: encode(namespace).into() }
    }
}

/// The address of one queue or cell on a coordinator: namespace, kind and key.
///
/// * `KEY-OPAQUE`: a key is opaque UTF-8 of 1 to 255 bytes, case-sensitive, without hierarchy. It is encoded
///   here, so no `/`, `{` or `}` of a user reaches a server unencoded.
/// * `KEY-KINDS`: addresses of different kinds or namespaces never collide, and neither do the keys `a` and
///   `a/b`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    // Encoded; empty for an exact name. An `Arc`, because every node, hold and clean-up task has an address.
    namespace: Arc<str>,
    kind: Kind,
    // The text of the user, for errors and listings.
    name: Arc<str>,
    coded: Arc<str>,
}

impl Address {
    /// Returns the address of `key` for recipes of `kind` in `namespace`.
    ///
    /// # Errors
    /// `InvalidArgument` (`namespace`, `key`): it is empty or longer than 255 bytes, or an exact key is empty
    /// or contains a NUL byte. The backend checks the length of an exact key.
    pub fn new(namespace: &str, kind: Kind, key: impl Into<Key>) -> Result<Self> {
        Self::within(&Namespace::new(namespace), kind, key.into())
    }

    pub(crate) fn within(namespace: &Namespace, kind: Kind, key: Key) -> Result<Self> {
        let name = Arc::<str>::from(key.text);
        if key.is_exact {
            if name.is_empty() {
                return Err(Error::invalid("key", "an exact key must not be empty"));
            }
            if name.contains('\0') {
                return Err(Error::invalid("key", "an exact key must not contain a NUL byte"));
            }
            return Ok(Self { namespace: Arc::default(), kind, name: Arc::clone(&name), coded: name });
        }
        check_length("key", &name)?;
        check_length("namespace", &namespace.text)?;
        let coded = encode(&name);
        // Most keys need no encoding: then both share one allocation.
        let coded = if coded == *name { Arc::clone(&name) } else { coded.into() };
        Ok(Self { namespace: Arc::clone(&namespace.coded), kind, name, coded })
    }

    /// `None` if this address is an exact name.
    pub(crate) fn beside(&self, kind: Kind, key: &'static str) -> Option<Self> {
        let (namespace, name) = (Arc::clone(&self.namespace), Arc::<str>::from(key));
        (!self.is_exact()).then(|| Self { namespace, kind, coded: encode(key).into(), name })
    }

    /// An exact name does not change.
    pub(crate) fn moved_to(&self, namespace: &Namespace) -> Self {
        match self.is_exact() {
            true => self.clone(),
            false => Self { namespace: Arc::clone(&namespace.coded), ..self.clone() },
        }
    }

    /// Returns the kind of recipe.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the key as the user wrote it.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns the encoded namespace, or `None` for an exact address.
    pub fn namespace(&self) -> Option<&str> {
        (!self.is_exact()).then_some(&*self.namespace)
    }

    /// Returns the encoded key; for an exact address, the unchanged name.
    pub fn coded(&self) -> &str {
        &self.coded
    }

    /// Returns whether the key is [exact](Key::exact).
    pub fn is_exact(&self) -> bool {
        self.namespace.is_empty()
    }
}

/// Escapes characters that would control a terminal.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.name, usize::MAX))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_exact() {
            write!(f, "exact:{}", shown(&self.coded, usize::MAX))
        } else {
            write!(f, "{}/{}/{}", self.namespace, self.kind.as_str(), self.coded)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn separators_and_braces_never_reach_a_server_raw() {
        assert_eq!(encode("a/b"), "a%2Fb");
        assert_eq!(encode("}x{"), "%7Dx%7B");
        assert_eq!(encode("ü%"), "%C3%BC%25");
        assert_eq!(encode("."), "%2E");
        assert_eq!(encode(".."), "%2E%2E");
        assert_eq!(encode("v1.2"), "v1.2");
    }

    #[test]
    fn empty_and_long_names_are_refused_by_name() {
        let long = "k".repeat(256);
        for (namespace, key, argument) in
            [("latchwork", "", "key"), ("latchwork", long.as_str(), "key"), ("", "a", "namespace")]
        {
            let error = Address::new(namespace, Kind::Mutex, key).unwrap_err();
            assert_eq!(error.argument(), Some(argument), "{error}");
        }
        assert!(Address::new("latchwork", Kind::Mutex, "k".repeat(255)).is_ok());
    }

    #[test]
    fn a_key_is_shown_escaped_and_used_as_it_is() {
        let key = "gpj\u{202e}exe\u{1b}[2J";
        for name in [Key::from(key), Key::exact(key)] {
            let address = Address::new("latchwork", Kind::Mutex, name).expect("a key is opaque");
            let shown = format!(
                "{address} {address:?} {}",
                Error::lost(crate::LostReason::Expired).on(address.name())
            );
            assert_eq!((address.name(), crate::shown::hidden(&shown)), (key, None), "{shown:?}");
        }
    }

    #[test]
    fn a_nul_is_coded_in_a_key_and_refused_in_an_exact_name() {
        let address = Address::new("latchwork", Kind::Mutex, "a\0b").expect("a key is opaque");
        assert_eq!(address.coded(), "a%00b");
        for name in ["", "a\0b"] {
            let error = Address::new("latchwork", Kind::Mutex, Key::exact(name)).unwrap_err();
            assert_eq!(error.argument(), Some("key"), "{error}");
        }
        assert!(Address::new("latchwork", Kind::Mutex, Key::exact("k".repeat(256))).is_ok());
    }

    proptest! {
        #[test]
        fn the_coding_is_injective_and_clean(a in "\\PC{1,12}", b in "\\PC{1,12}") {
            let (x, y) = (encode(&a), encode(&b));
            prop_assert_eq!(a == b, x == y);
            prop_assert!(x.bytes().all(|c| c.is_ascii_alphanumeric() || b"_.-%".contains(&c)));
            prop_assert!(!x.bytes().all(|c| c == b'.'));
        }
    }
}
