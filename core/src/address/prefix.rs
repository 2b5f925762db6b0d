//! Which queues, or cells, to list.

use std::sync::Arc;

use percent_encoding::percent_decode_str;

use super::{Address, Kind, Namespace, check_length, encode};
use crate::error::{Error, Result};

/// The queues, or the cells, of one kind in a namespace, whose keys begin alike (NODE-QUEUES, CELL-LIST).
#[derive(Clone, Debug)]
pub struct QueuePrefix {
    namespace: Namespace,
    kind: Kind,
    prefix: String,
    coded: Arc<str>,
}

impl QueuePrefix {
    /// The addresses of `kind` in `namespace` whose keys begin with `prefix` (empty: all of them).
    ///
    /// # Errors
    /// `InvalidArgument` naming `namespace` or `prefix` when it is over 255 bytes, or naming
    /// `namespace` when it is empty.
    pub fn new(namespace: &str, kind: Kind, prefix: &str) -> Result<Self> {
        check_length("namespace", namespace)?;
        if !prefix.is_empty() {
            check_length("prefix", prefix)?;
        }
        // A key of dots only is encoded otherwise than one that begins with dots.
        let coded = if prefix.bytes().all(|byte| byte == b'.') { String::new() } else { encode(prefix) };
        let namespace = Namespace::new(namespace);
        Ok(Self { namespace, kind, prefix: prefix.to_owned(), coded: coded.into() })
    }

    /// The same in another namespace.
    pub(crate) fn moved_to(&self, namespace: &Namespace) -> Self {
        Self { namespace: namespace.clone(), ..self.clone() }
    }

    /// The encoded namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace.coded
    }

    /// The kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What the encoded keys begin with. Others may begin with it too: [`queue`](Self::queue)
    /// decides.
    pub fn coded(&self) -> &str {
        &self.coded
    }

    /// The address of an encoded key, if it is one of these. `None` for text that encodes no key.
    pub fn queue(&self, coded: &str) -> Option<Address> {
        let key = percent_decode_str(coded).decode_utf8().ok()?;
        if !key.starts_with(&self.prefix) || encode(&key) != coded {
            return None;
        }
        Address::within(&self.namespace, self.kind, key.into_owned().into()).ok()
    }

    /// Refuses a kind whose addresses are no cells.
    ///
    /// # Errors
    /// `InvalidArgument` naming `kind`.
    pub fn check_cells(&self) -> Result<()> {
        match Kind::CELLS.contains(&self.kind) {
            true => Ok(()),
            false => Err(Error::invalid("kind", format!("{} is kept in no cell", self.kind.as_str()))),
        }
    }

    /// Whether this address is one of these.
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
    fn what_is_no_key_of_these_is_no_queue() {
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
