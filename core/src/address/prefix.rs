use std::sync::Arc;

use percent_encoding::percent_decode_str;

use super::{Address, Kind, Namespace, check_length, encode};
use crate::error::{Error, Result};

/// Selects the queues or cells of one kind in a namespace whose keys have a prefix (NODE-QUEUES, CELL-LIST).
#[derive(Clone, Debug)]
pub struct QueuePrefix {
    namespace: Namespace,
    kind: Kind,
    prefix: String,
    coded: Arc<str>,
}

impl QueuePrefix {
    /// Selects the addresses of `kind` in `namespace` whose keys begin with `prefix` (empty: all keys).
    ///
    /// # Errors
    /// `InvalidArgument` (`namespace`, `prefix`): it is longer than 255 bytes, or the namespace is empty.
    pub fn new(namespace: &str, kind: Kind, prefix: &str) -> Result<Self> {
        check_length("namespace", namespace)?;
        if !prefix.is_empty() {
            check_length("prefix", prefix)?;
        }
        // A key of only dots is encoded differently from a key that begins with dots.
        let coded = if prefix.bytes().all(|byte| byte == b'.') { String::new() } else { encode(prefix) };
        let namespace = Namespace::new(namespace);
        Ok(Self { namespace, kind, prefix: prefix.to_owned(), coded: coded.into() })
    }

    pub(crate) fn moved_to(&self, namespace: &Namespace) -> Self {
        Self { namespace: namespace.clone(), ..self.clone() }
    }

    /// Returns the encoded namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace.coded
    }

    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns a prefix of all selected encoded keys, and perhaps of others, which [`queue`](Self::queue)
    /// excludes.
    pub fn coded(&self) -> &str {
        &self.coded
    }

    /// Returns the address of an encoded key, if the key is selected.
    pub fn queue(&self, coded: &str) -> Option<Address> {
        let key = percent_decode_str(coded).decode_utf8().ok()?;
        if !key.starts_with(&self.prefix) || encode(&key) != coded {
            return None;
        }
        Address::within(&self.namespace, self.kind, key.into_owned().into()).ok()
    }

    /// Checks that the kind has cells.
    ///
    /// # Errors
    /// `InvalidArgument` naming `kind` if it has queues.
    pub fn check_cells(&self) -> Result<()> {
        match Kind::CELLS.contains(&self.kind) {
            true => Ok(()),
            false => Err(Error::invalid("kind", format!("the kind {} has no cells", self.kind.as_str()))),
        }
    }

    /// Returns whether this address is selected.
    pub fn contains(&self, address: &Address) -> bool {
        address.namespace() == Some(self.namespace())
            && address.kind() == self.kind
            && address.name().starts_with(&self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn key_outside_the_prefix_or_malformed_gives_no_queue() {
        let of = |prefix| QueuePrefix::new("n/s", Kind::Mutex, prefix).expect("a good prefix");
        for (prefix, coded, is_one) in [
            ("", "a", true),
            ("a/", "a%2Fb", true),
            ("a/", "ab", false),
            (".", ".a", true),
            (".", "%2E", true),
            ("..", "%2E", false),
            ("", "%2e", false),
            ("", "a%", false),
            ("", "%FF", false),
            ("", "a/b", false),
            ("", "", false),
        ] {
            assert_eq!(of(prefix).queue(coded).is_some(), is_one, "{coded:?} of {prefix:?}");
        }
        assert_eq!(
            QueuePrefix::new("n", Kind::Mutex, &"k".repeat(256)).unwrap_err().argument(),
            Some("prefix")
        );
        assert_eq!(QueuePrefix::new("", Kind::Mutex, "").unwrap_err().argument(), Some("namespace"));
    }

    proptest! {
        #[test]
        fn each_key_is_found_by_each_of_its_beginnings(key in "[a./ü%]{1,8}", cut in 0usize..9) {
            let cut = key.char_indices().map(|(at, _)| at).nth(cut).unwrap_or(key.len());
            let of = QueuePrefix::new("n", Kind::Group, &key[..cut]).expect("a good prefix");
            let queue = Address::new("n", Kind::Group, key.as_str()).expect("a good key");
            prop_assert!(of.contains(&queue) && queue.coded().starts_with(of.coded()));
            prop_assert_eq!(of.queue(queue.coded()), Some(queue));
        }
    }
}
