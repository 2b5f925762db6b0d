//! Names on the server.
//!
//! | key | value |
//! |---|---|
//! | `<ns>/<kind>/<key>/<lease hex>-<node id>` | an exclusive node ([`NodeData`]) |
//! | `…-r`, `…-w<weight>` | a reader; permits of that weight |
//! | `<name>/<lease hex>-<node id>` | a node of a mutex at an exact address, next to the `<name>/<lease hex>` of `etcdctl lock`; or of an election, whose data are the whole value, as with `etcdctl elect` |
//! | `<ns>/data/<kind>/<key>/<node>` | the data of that node, on its lease, if it is a writer's or a semaphore's ([`DataPlace::Beside`]) |
//! | `<ns>/client/<lease hex>/left/<node id>` | a tombstone for ten minutes: this attempt was abandoned (CHAIN-TOMBSTONE-FOR-UNKNOWN-JOIN) |
//! | `<ns>/client/<lease hex>/next/<node id>` | the inbox of that node, on its lease: a [`ReleaseNotice`](crate::queue::fast_path) of its predecessor |
//! | `<ns>/limit/<kind>/<key>` | the stored limit of a semaphore, decimal, without a lease |
//! | `<ns>/<kind>/<key>` | a cell (a value, a counter, …): its bytes, on the lease of its last writer if it is ephemeral, on a separate lease if it is idle |
//!
//! The name of a node shows its claim. The version of its key shows whether it was rewritten: a rewritten
//! writer is a reader, and rewritten permits are marked as admitted. So admission reads no values, which may
//! be very long.
//!
//! *Exact addresses.* Mutexes and elections have etcd's own layout, so a mutex and an election with one exact
//! name are one queue. All other kinds have the normal layout in a namespace that all clients share and that
//! no configuration can name: `latchwork:exact`.

mod cell;
mod node_data;

use std::sync::Arc;

use latchwork_core::backend::NodeId;
use latchwork_core::{Address, Claim, Error, Kind, Result, encode};

pub(crate) use cell::cell_key;
pub(crate) use node_data::{DataPlace, NodeData};

use crate::driver::StoredKey;

/// An encoded namespace has no colon, so no configuration names this one.
const EXACT: &str = "latchwork:exact";

#[derive(Clone, Debug)]
pub(crate) struct Layout {
    namespace: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    /// Ends with a slash.
    pub(crate) prefix: String,
    /// Other programs share the queue, so every key with the prefix counts (NODE-FOREIGN).
    pub(crate) exact: bool,
    pub(crate) kind: Kind,
    pub(crate) limit: String,
    inboxes: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inbox {
    /// Shared by all nodes on one lease.
    pub(crate) prefix: String,
    pub(crate) key: String,
    pub(crate) lease: i64,
}

impl Layout {
    pub(crate) fn new(namespace: &str) -> Self {
        Self { namespace: encode(namespace) }
    }

    pub(crate) fn root(&self) -> String {
        format!("{}/", self.namespace)
    }

    pub(crate) fn queue(&self, address: &Address) -> Result<Queue> {
        let (kind, coded) = (address.kind().as_str(), address.coded());
        let of_ours = |namespace: &str, coded: &str| Queue {
            prefix: format!("{namespace}/{kind}/{coded}/"),
            exact: false,
            kind: address.kind(),
            limit: limits_of(namespace, address.kind()) + coded,
            inboxes: None,
        };
        let Some(namespace) = address.namespace() else {
            if !matches!(address.kind(), Kind::Mutex | Kind::Election) {
                return Ok(of_ours(EXACT, &encode(coded)));
            }
            let queue = Queue { prefix: format!("{coded}/"), exact: true, ..of_ours(EXACT, "") };
            self.check_exact(&queue.prefix)?;
            return Ok(queue);
        };
        let inboxes = (address.kind() == Kind::Mutex).then(|| namespace.into());
        Ok(Queue { inboxes, ..of_ours(namespace, coded) })
    }

    /// Refuses a name under which this library stores its own keys: an `etcdctl lock` of that name would wait
    /// for them.
    fn check_exact(&self, prefix: &str) -> Result<()> {
        let root = self.root();
        let mut own: Vec<_> = ["client", "data", "limit"].map(|part| format!("{root}{part}/")).into();
        own.push(format!("{EXACT}/"));
        own.extend(Kind::CELLS.map(|kind| format!("{root}{}/", kind.as_str())));
        if own.iter().any(|own| own.starts_with(prefix) || prefix.starts_with(own.as_str())) {
            return Err(Error::invalid(
                "key",
                "this exact address is reserved: the library stores its own keys there",
            ));
        }
        Ok(())
    }

    pub(crate) fn tombstone(&self, lease: i64, id: NodeId) -> String {
        format!("{}/client/{lease:x}/left/{id}", self.namespace)
    }

    pub(crate) fn scratch(&self) -> String {
        format!("{}/client/self-test/{}", self.namespace, NodeId::random())
    }
}

pub(crate) fn limits_of(namespace: &str, kind: Kind) -> String {
    format!("{namespace}/limit/{}/", kind.as_str())
}

impl Queue {
    /// Go's client has one key for all tasks of a client (the part before the dash), so a second waiter would
    /// hold at once (CHAIN-FRESH-NAME).
    pub(crate) fn node(&self, lease: i64, id: NodeId, claim: Claim) -> String {
        let node = format!("{}{lease:x}-{id}", self.prefix);
        match claim {
            Claim::Exclusive => node,
            Claim::Shared => node + "-r",
            Claim::Permits(weight) => format!("{node}-w{weight}"),
        }
    }

    pub(crate) fn data_place(&self, claim: Claim) -> DataPlace {
        match (self.kind, claim) {
            (Kind::Election, _) if self.exact => DataPlace::Alone,
            (Kind::RwLock, Claim::Exclusive) | (Kind::Semaphore, _) => DataPlace::Beside,
            _ => DataPlace::InValue,
        }
    }

    pub(crate) fn data_place_of(&self, key: &[u8]) -> DataPlace {
        self.data_place(self.claim_in_key(key).unwrap_or(Claim::Exclusive))
    }

    pub(crate) fn has_inboxes(&self) -> bool {
        self.inboxes.is_some()
    }

    pub(crate) fn inbox(&self, key: &[u8]) -> Option<Inbox> {
        let namespace = self.inboxes.as_ref()?;
        let name = std::str::from_utf8(key.strip_prefix(self.prefix.as_bytes())?).ok()?;
        claim_in(name).filter(|claim| *claim == Claim::Exclusive)?;
        let (lease, id) = name.split_once('-')?;
        let prefix = format!("{namespace}/client/{lease}/next/");
        Some(Inbox {
            key: format!("{prefix}{id}"),
            prefix,
            lease: u64::from_str_radix(lease, 16).ok()?.cast_signed(),
        })
    }

    pub(crate) fn is_ours(&self, key: &[u8]) -> bool {
        self.claim_in_key(key).is_some()
    }

    fn claim_in_key(&self, key: &[u8]) -> Option<Claim> {
        claim_in(std::str::from_utf8(key.strip_prefix(self.prefix.as_bytes())?).ok()?)
    }

    /// The claim, and whether the node is marked as admitted. `None`: the key does not count in the queue.
    ///
    /// At an exact address every key directly below the name counts if it has a lease, like etcd's own locks.
    /// A key without a lease would block the queue for ever.
    pub(crate) fn claim(&self, stored: &StoredKey) -> Option<(Claim, bool)> {
        let name = stored.key.strip_prefix(self.prefix.as_bytes())?;
        if self.exact {
            return (stored.lease != 0 && !name.contains(&b'/')).then_some((Claim::Exclusive, false));
        }
        let rewritten = stored.version > 1;
        match (self.kind, claim_in(std::str::from_utf8(name).ok()?)?) {
            (Kind::RwLock, Claim::Exclusive) if rewritten => Some((Claim::Shared, false)),
            (kind, Claim::Shared) if kind.takes_shared() => Some((Claim::Shared, false)),
            (Kind::RwLock, Claim::Exclusive) => Some((Claim::Exclusive, false)),
            (Kind::Semaphore, claim @ Claim::Permits(_)) => Some((claim, rewritten)),
            (Kind::Mutex | Kind::Election, Claim::Exclusive) => Some((Claim::Exclusive, false)),
            _ => None,
        }
    }
}

/// Data that was written before the node was created belongs to an earlier node of this name.
pub(crate) fn beside(node: &[u8]) -> Vec<u8> {
    let namespace = node.iter().position(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    [&node[..namespace], b"data/", &node[namespace..]].concat()
}

fn claim_in(name: &str) -> Option<Claim> {
    let (lease, rest) = name.split_once('-')?;
    let (id, claim) = rest.split_at_checked(32)?;
    u64::from_str_radix(lease, 16).ok()?;
    NodeId::parse(id)?;
    match claim {
        "" => Some(Claim::Exclusive),
        "-r" => Some(Claim::Shared),
        weight => {
            let weight = weight
                .strip_prefix("-w")
                .filter(|weight| weight.bytes().all(|byte| byte.is_ascii_digit()))?;
            weight.parse().ok().filter(|weight| *weight > 0).map(Claim::Permits)
        }
    }
}

#[cfg(test)]
mod tests {
    use latchwork_core::Key;
    use proptest::prelude::*;

    use super::*;

    fn queue(name: impl Into<Key>) -> Result<Queue> {
        of_kind(Kind::Mutex, name)
    }

    fn of_kind(kind: Kind, name: impl Into<Key>) -> Result<Queue> {
        Layout::new("latch/work").queue(&Address::new("latch/work", kind, name).unwrap())
    }

    fn stored(key: String, lease: i64, version: u64) -> StoredKey {
        StoredKey { key: key.into(), value: Vec::new(), created: 1, modified: version, version, lease }
    }

    #[test]
    fn keys_have_no_leading_slash_and_no_raw_name() {
        let id = NodeId::from_bytes([7; 16]);
        let queue = queue("a/b").unwrap();
        assert_eq!(queue.prefix, "latch%2Fwork/mutex/a%2Fb/");
        assert_eq!(queue.node(0x1f, id, Claim::Exclusive), format!("latch%2Fwork/mutex/a%2Fb/1f-{id}"));
        assert_eq!(Layout::new("n").tombstone(0x1f, id), format!("n/client/1f/left/{id}"));
    }

    #[test]
    fn an_exact_address_is_the_name_that_etcdctl_takes_and_kinds_never_meet() {
        assert_eq!(queue(Key::exact("/jobs/x")).unwrap().prefix, "/jobs/x/");
        let owns = ["latch%2Fwork", "latch%2Fwork/client", "latch%2Fwork/limit/mutex/a", "latchwork:exact"];
        for own in owns.into_iter().chain(["latchwork:exact/semaphore/a"]) {
            assert_eq!(queue(Key::exact(own)).unwrap_err().argument(), Some("key"), "{own}");
        }
        let exact = |kind| of_kind(kind, Key::exact("/jobs/x")).unwrap();
        assert_eq!(exact(Kind::RwLock).prefix, "latchwork:exact/rwlock/%2Fjobs%2Fx/");
        let semaphore = exact(Kind::Semaphore);
        assert_eq!(semaphore.prefix, "latchwork:exact/semaphore/%2Fjobs%2Fx/");
        assert_eq!(semaphore.limit, "latchwork:exact/limit/semaphore/%2Fjobs%2Fx");
    }

    #[test]
    fn a_foreign_key_counts_at_an_exact_address_only_and_only_on_a_lease() {
        let (ours, exact) = (queue("a").unwrap(), queue(Key::exact("a")).unwrap());
        let node = |queue: &Queue| queue.node(5, NodeId::random(), Claim::Exclusive);
        assert_eq!(ours.claim(&stored(node(&ours), 5, 1)), Some((Claim::Exclusive, false)));
        for foreign in ["notes", "5", "5-", "x-00000000000000000000000000000000"] {
            let at =
                |queue: &Queue, lease| queue.claim(&stored(format!("{}{foreign}", queue.prefix), lease, 1));
            assert_eq!(at(&ours, 5), None, "{foreign}");
            assert_eq!(at(&exact, 5), Some((Claim::Exclusive, false)), "{foreign}");
            assert_eq!(at(&exact, 0), None, "{foreign}");
        }
        for other in ["limit/semaphore/a", "mutex/b/5-00000000000000000000000000000000"] {
            assert_eq!(exact.claim(&stored(format!("a/{other}"), 5, 1)), None, "{other}");
        }
    }

    #[test]
    fn a_name_shows_the_claim_and_a_version_a_downgrade_or_a_mark() {
        let (rwlock, semaphore) =
            (of_kind(Kind::RwLock, "a").unwrap(), of_kind(Kind::Semaphore, "a").unwrap());
        let read = |queue: &Queue, claim, version| {
            queue.claim(&stored(queue.node(5, NodeId::random(), claim), 5, version))
        };
        for (queue, claim, version, read_as) in [
            (&rwlock, Claim::Exclusive, 1, Some((Claim::Exclusive, false))),
            (&rwlock, Claim::Exclusive, 2, Some((Claim::Shared, false))),
            (&rwlock, Claim::Shared, 1, Some((Claim::Shared, false))),
            (&rwlock, Claim::Permits(1), 1, None),
            (&semaphore, Claim::Permits(7), 1, Some((Claim::Permits(7), false))),
            (&semaphore, Claim::Permits(7), 3, Some((Claim::Permits(7), true))),
            (&semaphore, Claim::Permits(0), 1, None),
            (&semaphore, Claim::Exclusive, 1, None),
            (&queue("a").unwrap(), Claim::Shared, 1, None),
        ] {
            assert_eq!(read(queue, claim, version), read_as, "{claim:?} of {:?}, {version}", queue.kind);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_node_or_nothing(name in any::<Vec<u8>>(), odd in "[0-9a-f]{0,3}-[0-9a-f]{30,34}(-[rwx][0-9+]{0,12})?") {
            for queue in [Kind::Mutex, Kind::RwLock, Kind::Semaphore].map(|kind| of_kind(kind, "a").unwrap()) {
                for name in [name.as_slice(), odd.as_bytes()] {
                    let key = [queue.prefix.as_bytes(), name].concat();
                    let stored = StoredKey { key: key.clone(), ..stored(String::new(), 5, 1) };
                    if let Some((claim, _)) = queue.claim(&stored) {
                        let (_, id) = std::str::from_utf8(name).unwrap().split_once('-').unwrap();
                        prop_assert!(NodeId::parse(&id[..32]).is_some());
                        prop_assert!(claim.weight() > 0);
                    }
                }
            }
        }
    }

    #[test]
    fn an_inbox_is_below_its_clients_lease_and_a_foreign_key_has_none() {
        let (ours, exact) = (queue("a").unwrap(), queue(Key::exact("a")).unwrap());
        let id = NodeId::from_bytes([7; 16]);
        let inbox = ours.inbox(ours.node(0x1f, id, Claim::Exclusive).as_bytes()).unwrap();
        let prefix = "latch%2Fwork/client/1f/next/".to_owned();
        assert_eq!(inbox, Inbox { key: format!("{prefix}{id}"), prefix, lease: 0x1f });
        assert_eq!(ours.inbox(format!("{}notes", ours.prefix).as_bytes()), None);
        assert_eq!(exact.inbox(exact.node(0x1f, id, Claim::Exclusive).as_bytes()), None);
    }
}
