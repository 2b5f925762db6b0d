//! Where things lie in etcd's key space, and what stands in them.
//!
//! | key | value |
//! |---|---|
//! | `<ns>/<kind>/<key>/<lease hex>-<node id>` | an exclusive node ([`NodeValue`]) |
//! | `…-r`, `…-w<weight>` | a reader, and permits of that weight |
//! | `<name>/<lease hex>-<node id>` | a mutex' node at an exact address, beside `etcdctl lock`'s `<name>/<lease hex>` |
//! | `<ns>/client/<lease hex>/left/<node id>` | a tombstone: this attempt was abandoned (RULES B9), for ten minutes |
//! | `<ns>/client/<lease hex>/next/<node id>` | what the predecessor of that node said when it left ([`Message`](crate::hand_on::Message)), on the node's lease |
//! | `<ns>/limit/<kind>/<key>` | a semaphore's stored limit, decimal, without a lease |
//!
//! What a node claims stands in its name, and that it was written again in its version: a writer that is written again is a reader
//! from then on, and permits that are written again are marked as admitted. So nobody who is to be admitted reads values, which
//! others may have made as long as they like.
//!
//! *Exact addresses.* Kinds never meet. A mutex takes the layout of etcd's own, and shares it. No other program has a read/write lock or
//! a semaphore in this library's form, so theirs lie in the layout of every other queue, in a namespace that all clients share and
//! nobody can choose: `latchwork:exact`.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use latchwork_core::contracts::{self, NodeId};
use latchwork_core::decide::Claim;
use latchwork_core::{Address, Error, Kind, Result, encode};
use serde::{Deserialize, Serialize};

use crate::terms::Entry;

/// The namespace of what has an exact name, and no layout of another program's. A coded one has no colon.
const EXACT: &str = "latchwork:exact";

/// The layout under one configured namespace.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    namespace: String,
}

/// One queue's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    /// All nodes begin with it; it ends with a slash.
    pub(crate) prefix: String,
    /// Shared with other programs, so that every entry under it counts (NODE-FOREIGN).
    pub(crate) exact: bool,
    pub(crate) kind: Kind,
    /// Where its limit is stored, if it is a queue of permits.
    pub(crate) limit: String,
    /// The namespace in which its nodes are spoken to, if they are.
    handed_in: Option<Arc<str>>,
}

/// Where a node is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inbox {
    /// All of its client's lease begin with it.
    pub(crate) prefix: String,
    pub(crate) key: String,
    /// The lease of the node, on which what is said hangs too.
    pub(crate) lease: i64,
}

impl Layout {
    pub(crate) fn new(namespace: &str) -> Self {
        Self { namespace: encode(namespace) }
    }

    /// All that this client may touch but exact addresses.
    pub(crate) fn root(&self) -> String {
        format!("{}/", self.namespace)
    }

    pub(crate) fn queue(&self, address: &Address) -> Result<Queue> {
        let (kind, coded) = (address.kind().as_str(), address.coded());
        let of_ours = |namespace: &str, coded: &str| Queue {
            prefix: format!("{namespace}/{kind}/{coded}/"),
            exact: false,
            kind: address.kind(),
            limit: format!("{namespace}/limit/{kind}/{coded}"),
            handed_in: None,
        };
        let Some(namespace) = address.namespace() else {
            if address.kind() != Kind::Mutex {
                return Ok(of_ours(EXACT, &encode(coded)));
            }
            let queue = Queue { prefix: format!("{coded}/"), exact: true, ..of_ours(EXACT, "") };
            self.check_exact(&queue.prefix)?;
            return Ok(queue);
        };
        let handed_in = (address.kind() == Kind::Mutex).then(|| namespace.into());
        Ok(Queue { handed_in, ..of_ours(namespace, coded) })
    }

    /// Whoever takes a lock of this name by `etcdctl lock` would wait for what this library keeps.
    fn check_exact(&self, prefix: &str) -> Result<()> {
        let root = self.root();
        let own = [format!("{root}client/"), format!("{root}limit/"), format!("{EXACT}/")];
        if own.iter().any(|own| own.starts_with(prefix) || prefix.starts_with(own.as_str())) {
            return Err(Error::invalid(
                "key",
                "this exact address holds keys that this library keeps for itself",
            ));
        }
        Ok(())
    }

    /// What a late join of an abandoned attempt meets. It hangs on the lease, as the join did.
    pub(crate) fn tombstone(&self, lease: i64, id: NodeId) -> String {
        format!("{}/client/{lease:x}/left/{id}", self.namespace)
    }

    /// A key that nobody else uses, for the self-test.
    pub(crate) fn scratch(&self) -> String {
        format!("{}/client/self-test/{}", self.namespace, NodeId::random())
    }
}

impl Queue {
    /// The key of an attempt on a lease. Go's key is the part before the dash: one key for all tasks of a client,
    /// so that the second waiter would hold at once (RULES B10).
    pub(crate) fn node(&self, lease: i64, id: NodeId, claim: Claim) -> String {
        let node = format!("{}{lease:x}-{id}", self.prefix);
        match claim {
            Claim::Exclusive => node,
            Claim::Shared => node + "-r",
            Claim::Permits(weight) => format!("{node}-w{weight}"),
        }
    }

    /// Whether a node that leaves a long queue says so to the next one.
    pub(crate) fn hands_on(&self) -> bool {
        self.handed_in.is_some()
    }

    /// Where the node with this key is spoken to, if it is.
    pub(crate) fn place_of(&self, key: &[u8]) -> Option<Inbox> {
        let namespace = self.handed_in.as_ref()?;
        let name = std::str::from_utf8(key.strip_prefix(self.prefix.as_bytes())?).ok()?;
        made_as(name).filter(|claim| *claim == Claim::Exclusive)?;
        let (lease, id) = name.split_once('-')?;
        let prefix = format!("{namespace}/client/{lease}/next/");
        Some(Inbox {
            key: format!("{prefix}{id}"),
            prefix,
            lease: u64::from_str_radix(lease, 16).ok()?.cast_signed(),
        })
    }

    /// Whether a key is named like a node of this library.
    pub(crate) fn is_ours(&self, key: &[u8]) -> bool {
        let name = key.strip_prefix(self.prefix.as_bytes()).and_then(|name| std::str::from_utf8(name).ok());
        name.and_then(made_as).is_some()
    }

    /// What an entry claims now, and whether it is marked as admitted; `None` for one that takes no part in the queue. In our
    /// own layout that is what is not named like a node of this kind. At an exact address all that lies right below the name and hangs
    /// on a lease takes part, whoever made it: so does each lock of etcd's own. What hangs on none, as a stored limit, would never go.
    pub(crate) fn claim(&self, entry: &Entry) -> Option<(Claim, bool)> {
        let name = entry.key.strip_prefix(self.prefix.as_bytes())?;
        if self.exact {
            return (entry.lease != 0 && !name.contains(&b'/')).then_some((Claim::Exclusive, false));
        }
        let rewritten = entry.version > 1;
        match (self.kind, made_as(std::str::from_utf8(name).ok()?)?) {
            (Kind::RwLock, Claim::Exclusive) if rewritten => Some((Claim::Shared, false)),
            (Kind::RwLock, claim @ (Claim::Exclusive | Claim::Shared)) => Some((claim, false)),
            (Kind::Semaphore, claim @ Claim::Permits(_)) => Some((claim, rewritten)),
            (Kind::Mutex | Kind::Election, Claim::Exclusive) => Some((Claim::Exclusive, false)),
            _ => None,
        }
    }
}

/// What the name of a node says that it was made as.
fn made_as(name: &str) -> Option<Claim> {
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

/// What stands in a node's value: for whoever looks at it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeValue {
    pub(crate) claim: Claim,
    pub(crate) label: Arc<str>,
    /// Milliseconds since 1970 on the client's wall clock: for display only.
    pub(crate) joined: u64,
    /// Its owner was admitted and somebody follows (permits, RULES B6).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) marked: bool,
}

impl NodeValue {
    pub(crate) fn new(claim: Claim, label: Arc<str>) -> Self {
        Self { claim, label, joined: wall_clock(), marked: false }
    }

    pub(crate) fn is_of_permits(&self) -> bool {
        matches!(self.claim, Claim::Permits(_))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and strings are always JSON")
    }

    /// Reads an entry's value. The label of what is no node of ours (the value of `etcdctl lock`'s is empty) is its key.
    pub(crate) fn read(key: &[u8], value: &[u8]) -> Self {
        let written = serde_json::from_slice(value).unwrap_or_else(|_| Self {
            claim: Claim::Exclusive,
            label: String::from_utf8_lossy(key).into(),
            joined: 0,
            marked: false,
        });
        Self { label: contracts::Entry::label_of(written.label.as_bytes()).into(), ..written }
    }

    pub(crate) fn age(&self) -> Option<Duration> {
        (self.joined > 0).then(|| Duration::from_millis(wall_clock().saturating_sub(self.joined)))
    }
}

fn wall_clock() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn queue(name: impl Into<latchwork_core::Name>) -> Result<Queue> {
        of_kind(Kind::Mutex, name)
    }

    fn of_kind(kind: Kind, name: impl Into<latchwork_core::Name>) -> Result<Queue> {
        Layout::new("latch/work").queue(&Address::new("latch/work", kind, name).unwrap())
    }

    fn entry(key: String, lease: i64, version: u64) -> Entry {
        Entry { key: key.into(), value: Vec::new(), created: 1, modified: version, version, lease }
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
        assert_eq!(queue(Address::exact("/jobs/x")).unwrap().prefix, "/jobs/x/");
        let owns = ["latch%2Fwork", "latch%2Fwork/client", "latch%2Fwork/limit/mutex/a", "latchwork:exact"];
        for own in owns.into_iter().chain(["latchwork:exact/semaphore/a"]) {
            assert_eq!(queue(Address::exact(own)).unwrap_err().argument(), Some("key"), "{own}");
        }
        let exact = |kind| of_kind(kind, Address::exact("/jobs/x")).unwrap();
        assert_eq!(exact(Kind::RwLock).prefix, "latchwork:exact/rwlock/%2Fjobs%2Fx/");
        let semaphore = exact(Kind::Semaphore);
        assert_eq!(semaphore.prefix, "latchwork:exact/semaphore/%2Fjobs%2Fx/");
        assert_eq!(semaphore.limit, "latchwork:exact/limit/semaphore/%2Fjobs%2Fx");
    }

    #[test]
    fn a_foreign_entry_counts_at_an_exact_address_only_and_only_on_a_lease() {
        let (ours, exact) = (queue("a").unwrap(), queue(Address::exact("a")).unwrap());
        let node = |queue: &Queue| queue.node(5, NodeId::random(), Claim::Exclusive);
        assert_eq!(ours.claim(&entry(node(&ours), 5, 1)), Some((Claim::Exclusive, false)));
        for foreign in ["notes", "5", "5-", "x-00000000000000000000000000000000"] {
            let at =
                |queue: &Queue, lease| queue.claim(&entry(format!("{}{foreign}", queue.prefix), lease, 1));
            assert_eq!(at(&ours, 5), None, "{foreign}");
            assert_eq!(at(&exact, 5), Some((Claim::Exclusive, false)), "{foreign}");
            assert_eq!(at(&exact, 0), None, "{foreign}");
        }
        // Below a name that is another client's namespace.
        for other in ["limit/semaphore/a", "mutex/b/5-00000000000000000000000000000000"] {
            assert_eq!(exact.claim(&entry(format!("a/{other}"), 5, 1)), None, "{other}");
        }
    }

    #[test]
    fn a_name_says_the_claim_and_a_version_what_became_of_it() {
        let (rwlock, semaphore) =
            (of_kind(Kind::RwLock, "a").unwrap(), of_kind(Kind::Semaphore, "a").unwrap());
        let read = |queue: &Queue, claim, version| {
            queue.claim(&entry(queue.node(5, NodeId::random(), claim), 5, version))
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
        /// Others may have made any key below a queue.
        #[test]
        fn any_bytes_are_a_node_or_nothing(name in any::<Vec<u8>>(), odd in "[0-9a-f]{0,3}-[0-9a-f]{30,34}(-[rwx][0-9+]{0,12})?") {
            for queue in [Kind::Mutex, Kind::RwLock, Kind::Semaphore].map(|kind| of_kind(kind, "a").unwrap()) {
                for name in [name.as_slice(), odd.as_bytes()] {
                    let key = [queue.prefix.as_bytes(), name].concat();
                    let entry = Entry { key: key.clone(), ..entry(String::new(), 5, 1) };
                    if let Some((claim, _)) = queue.claim(&entry) {
                        let (_, id) = std::str::from_utf8(name).unwrap().split_once('-').unwrap();
                        prop_assert!(NodeId::parse(&id[..32]).is_some());
                        prop_assert!(claim.weight() > 0);
                    }
                }
            }
        }
    }

    #[test]
    fn a_node_is_spoken_to_below_its_clients_lease_and_a_foreign_entry_is_not() {
        let (ours, exact) = (queue("a").unwrap(), queue(Address::exact("a")).unwrap());
        let id = NodeId::from_bytes([7; 16]);
        let inbox = ours.place_of(ours.node(0x1f, id, Claim::Exclusive).as_bytes()).unwrap();
        let prefix = "latch%2Fwork/client/1f/next/".to_owned();
        assert_eq!(inbox, Inbox { key: format!("{prefix}{id}"), prefix, lease: 0x1f });
        assert_eq!(ours.place_of(format!("{}notes", ours.prefix).as_bytes()), None);
        assert_eq!(exact.place_of(exact.node(0x1f, id, Claim::Exclusive).as_bytes()), None);
    }

    #[test]
    fn a_value_reads_back_and_a_foreign_one_is_exclusive() {
        let value = NodeValue::new(Claim::Permits(3), "me".into());
        assert_eq!(NodeValue::read(b"k", &value.encode()), value);
        let foreign = NodeValue::read(b"a/1f", b"");
        assert_eq!((foreign.claim, &*foreign.label, foreign.age()), (Claim::Exclusive, "a/1f", None));
    }
}
