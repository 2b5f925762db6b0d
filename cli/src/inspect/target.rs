use std::str::FromStr;

use latchwork::Kind;

/// All queues except the registry of clients.
fn kinds() -> impl Iterator<Item = Kind> {
    Kind::QUEUES.into_iter().filter(|kind| *kind != Kind::Clients)
}

fn kind_of(name: &str) -> Option<Kind> {
    kinds().find(|known| known.as_str() == name)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueName {
    pub(crate) kind: Kind,
    pub(crate) key: String,
}

impl FromStr for QueueName {
    type Err = String;

    /// The key begins after the first slash.
    fn from_str(text: &str) -> Result<Self, String> {
        let names = || kinds().map(Kind::as_str).collect::<Vec<_>>().join(", ");
        let (kind, key) =
            text.split_once('/').ok_or_else(|| format!("is not KIND/KEY; the kinds are {}", names()))?;
        let kind =
            kind_of(kind).ok_or_else(|| format!("unknown kind {kind:?}; the kinds are {}", names()))?;
        if key.is_empty() {
            return Err(format!("has no key after {}/", kind.as_str()));
        }
        Ok(Self { kind, key: key.to_owned() })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Queue(QueueName),
    Prefix { kinds: Vec<Kind>, prefix: String },
}

impl Target {
    /// `KIND/KEY`, `KIND/`, a prefix of keys of any kind, or no text.
    pub(crate) fn of(text: Option<&str>) -> Self {
        let text = text.unwrap_or_default();
        if let Ok(queue) = text.parse() {
            return Target::Queue(queue);
        }
        let whole = text.strip_suffix('/').and_then(kind_of);
        match whole {
            Some(kind) => Target::Prefix { kinds: vec![kind], prefix: String::new() },
            None => Target::all(text),
        }
    }

    pub(crate) fn all(prefix: &str) -> Self {
        Target::Prefix { kinds: kinds().collect(), prefix: prefix.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_and_a_key_or_a_prefix() {
        let queue = |kind, key: &str| Target::Queue(QueueName { kind, key: key.to_owned() });
        assert_eq!(Target::of(Some("mutex/a/b")), queue(Kind::Mutex, "a/b"));
        assert_eq!(Target::of(Some("double-barrier/x")), queue(Kind::DoubleBarrier, "x"));
        assert_eq!(
            Target::of(Some("semaphore/")),
            Target::Prefix { kinds: vec![Kind::Semaphore], prefix: String::new() }
        );
        assert_eq!(Target::of(Some("invoices/")), Target::all("invoices/"));
        assert_eq!(Target::of(None), Target::all(""));
        for bad in ["x", "lock/x", "mutex/"] {
            assert!(bad.parse::<QueueName>().is_err(), "{bad}");
        }
    }
}
