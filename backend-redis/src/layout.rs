use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::KeysWith;
use latchwork_core::{Address, Claim, Error, Kind, QueuePrefix, Result};

const CELL: &str = "cell";
const LIMIT: &str = "limit";

/// Decides which keys the queue has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Shape {
    /// Without contention, a queue of this or the next shape is one key.
    Exclusive,
    ReadWrite,
    Permits,
}

impl Shape {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Semaphore => Shape::Permits,
            kind if kind.takes_shared() => Shape::ReadWrite,
            _ => Shape::Exclusive,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QueueKeys {
    pub(crate) shape: Shape,
    observed: bool,
    prefix: Arc<str>,
}

impl QueueKeys {
    /// # Errors
    /// `InvalidArgument` naming `key`, if an exact name contains a brace, which would end the hash
    /// tag.
    pub(crate) fn of(address: &Address) -> Result<Self> {
        let kind = address.kind();
        Ok(Self { shape: Shape::of(kind), observed: kind.is_observed(), prefix: prefix(address)?.into() })
    }

    /// A `+` asks the scripts to publish changes.
    pub(crate) fn word(&self) -> &'static str {
        match (self.shape, self.observed) {
            (Shape::Exclusive, false) => "x",
            (Shape::Exclusive, true) => "x+",
            (Shape::ReadWrite, false) => "rw",
            (Shape::ReadWrite, true) => "rw+",
            (Shape::Permits, _) => "p",
        }
    }

    /// # Errors
    /// `InvalidArgument` naming `claim`, if this kind of queue does not accept the claim.
    pub(crate) fn check(&self, claim: Claim) -> Result<()> {
        let fits = match claim {
            Claim::Exclusive => self.shape != Shape::Permits,
            Claim::Shared => self.shape == Shape::ReadWrite,
            Claim::Permits(_) => self.shape == Shape::Permits,
        };
        if fits {
            Ok(())
        } else {
            Err(Error::invalid(
                "claim",
                format!("the queue {} does not accept a {claim:?} claim", self.prefix),
            ))
        }
    }

    /// In the order of the scripts' headers.
    pub(crate) fn keys(&self) -> impl Iterator<Item = RedisKey<'_>> {
        let extra: &[&str] = match self.shape {
            Shape::Exclusive => &["one"],
            Shape::ReadWrite => &["one", "writers"],
            Shape::Permits => &[LIMIT],
        };
        ["seq", "exp", "node", "meta"].iter().chain(extra).map(|part| self.key(part))
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = RedisKey<'_>> {
        ["seq", "exp", "one"].iter().map(|part| self.key(part))
    }

    pub(crate) fn news(&self) -> Arc<str> {
        self.key("news").to_string().into()
    }

    /// The text has the hash tag of the keys.
    pub(crate) fn tag(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn left(&self) -> RedisKey<'_> {
        self.key("left")
    }

    fn key(&self, part: &'static str) -> RedisKey<'_> {
        RedisKey { prefix: &self.prefix, part }
    }
}

#[derive(Debug)]
pub(crate) struct ListedKeys<'a> {
    of: &'a QueuePrefix,
    start: String,
    parts: &'static [&'static str],
    part: &'static str,
}

impl<'a> ListedKeys<'a> {
    pub(crate) fn of(of: &'a QueuePrefix, with: KeysWith) -> Self {
        let (parts, part): (&'static [&'static str], _) = match with {
            // These exist while a queue has nodes.
            KeysWith::Nodes => (&["seq", "one"], "*"),
            KeysWith::Limit => (&[LIMIT], LIMIT),
            KeysWith::Cell => (&[CELL], CELL),
        };
        Self { of, start: format!("{}:{}:{{", of.namespace(), of.kind().as_str()), parts, part }
    }

    /// Core's encoding has no special characters of patterns.
    pub(crate) fn pattern(&self) -> String {
        format!("{}{}*}}:{}", self.start, self.of.coded(), self.part)
    }

    pub(crate) fn address(&self, key: &[u8]) -> Option<Address> {
        let (coded, part) = std::str::from_utf8(key).ok()?.strip_prefix(&self.start)?.rsplit_once("}:")?;
        self.parts.contains(&part).then(|| self.of.queue(coded)).flatten()
    }
}

fn prefix(address: &Address) -> Result<String> {
    let (kind, key) = (address.kind().as_str(), address.coded());
    match address.namespace() {
        Some(namespace) => Ok(format!("{namespace}:{kind}:{{{key}}}:")),
        None if key.contains(['{', '}']) => {
            Err(Error::invalid("key", "an exact key on Redis must not contain a brace: `{` or `}`"))
        }
        None => Ok(format!("{kind}:{{{key}}}:")),
    }
}

/// Also the name of the channel for the cell's changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CellKey(Arc<str>);

impl CellKey {
    /// # Errors
    /// As [`QueueKeys::of`].
    pub(crate) fn of(address: &Address) -> Result<Self> {
        Ok(Self((prefix(address)? + CELL).into()))
    }

    pub(crate) fn channel(&self) -> &Arc<str> {
        &self.0
    }
}

impl fmt::Display for CellKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The milliseconds for which the key with a queue's last token lives after a write: `remember`, the time
/// until the next write, and two TTLs, because a held node may be in the key.
pub(crate) fn life(remember: Duration, ttl: Duration) -> u128 {
    (remember + remember / 12 + 2 * ttl).as_millis()
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RedisKey<'a> {
    prefix: &'a str,
    part: &'static str,
}

impl fmt::Display for RedisKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.prefix)?;
        f.write_str(self.part)
    }
}

#[cfg(test)]
mod tests {
    use latchwork_core::Key;

    use super::*;

    #[test]
    fn keys_share_a_hash_tag_and_kinds_never_meet() {
        let queue = QueueKeys::of(&Address::new("n/s", Kind::RwLock, "a}b").unwrap()).unwrap();
        let keys: Vec<_> = queue.keys().map(|key| key.to_string()).collect();
        assert_eq!(keys[0], "n%2Fs:rwlock:{a%7Db}:seq");
        assert_eq!((keys.len(), keys[5].as_str()), (6, "n%2Fs:rwlock:{a%7Db}:writers"));
        let exact = |kind| {
            let queue = QueueKeys::of(&Address::new("n", kind, Key::exact("app/lock")).unwrap()).unwrap();
            queue.left().to_string()
        };
        assert_eq!(exact(Kind::Mutex), "mutex:{app/lock}:left");
        assert_ne!(exact(Kind::Mutex), exact(Kind::Semaphore));
    }

    #[test]
    fn a_brace_in_an_exact_name_and_a_foreign_claim_are_refused_by_name() {
        let address = Address::new("n", Kind::Mutex, Key::exact("a{b")).unwrap();
        assert_eq!(QueueKeys::of(&address).unwrap_err().argument(), Some("key"));
        let mutex = QueueKeys::of(&Address::new("n", Kind::Mutex, "a").unwrap()).unwrap();
        assert_eq!(mutex.check(Claim::Permits(1)).unwrap_err().argument(), Some("claim"));
        assert!(mutex.check(Claim::Exclusive).is_ok());
    }
}
