//! Where things lie in etcd's key space, and what stands in them.
//!
//! | key | value |
//! |---|---|
//! | `<ns>/<kind>/<key>/<lease hex>-<node id>` | a node: claim, label, join time, mark ([`NodeValue`]) |
//! | `<name>/<lease hex>-<node id>` | the same at an exact address, beside `etcdctl lock`'s `<name>/<lease hex>` |
//! | `<ns>/client/<lease hex>/left/<node id>` | a tombstone: this attempt was abandoned (RULES B9), for ten minutes |
//! | `<ns>/client/released/mutex/<key>/count` | its version counts the releases of a queue that is long ([`Count`](crate::count::Count)), on the lease of who wrote it last |
//! | `<ns>/client/released/mutex/<key>/<0 to 255>` | tells of the count, to who waits for one with this remainder |
//! | `<ns>/limit/<kind>/<key>` | a semaphore's stored limit, decimal, without a lease |

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use latchwork_core::contracts::NodeId;
use latchwork_core::decide::Claim;
use latchwork_core::{Address, Error, Kind, Result, encode};
use serde::{Deserialize, Serialize};

/// How many keys tell of releases, in turns: a queue is rarely longer, so that each wakes one.
const TICKETS: u64 = 256;

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
    /// The namespace in which its releases are counted, if they are.
    counted: Option<Arc<str>>,
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
        match address.namespace() {
            Some(namespace) => Ok(Queue {
                prefix: format!("{namespace}/{kind}/{coded}/"),
                exact: false,
                kind: address.kind(),
                limit: format!("{namespace}/limit/{kind}/{coded}"),
                counted: (address.kind() == Kind::Mutex).then(|| namespace.into()),
            }),
            None => {
                let prefix = format!("{coded}/");
                let root = self.root();
                // Our own tombstones and limits would stand in such a queue as holders that never leave.
                let own = [format!("{root}client/"), format!("{root}limit/")];
                if own.iter().any(|own| own.starts_with(&prefix) || prefix.starts_with(own.as_str())) {
                    return Err(Error::invalid(
                        "key",
                        "this exact address holds keys that this library keeps for itself",
                    ));
                }
                Ok(Queue {
                    prefix,
                    exact: true,
                    kind: address.kind(),
                    limit: format!("{root}limit/exact/{kind}/{}", encode(coded)),
                    counted: None,
                })
            }
        }
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
    /// Every node in it is exclusive, so that each is admitted only when all before it have left.
    pub(crate) fn is_one_by_one(&self) -> bool {
        self.kind == Kind::Mutex
    }

    /// The key of an attempt on a lease. Go's key is the part before the dash: one key for all tasks of a client,
    /// so that the second waiter would hold at once (RULES B10).
    pub(crate) fn node(&self, lease: i64, id: NodeId) -> String {
        format!("{}{lease:x}-{id}", self.prefix)
    }

    pub(crate) fn is_counted(&self) -> bool {
        self.counted.is_some()
    }

    /// What is stored of its releases begins with it, if they are counted.
    pub(crate) fn released(&self) -> Option<String> {
        let namespace = self.counted.as_ref()?;
        let kind_and_key = self.prefix.strip_prefix(&**namespace)?;
        Some(format!("{namespace}/client/released{kind_and_key}"))
    }

    /// The key whose version counts its releases.
    pub(crate) fn counter(&self) -> Option<String> {
        self.released().map(|released| released + "count")
    }

    /// Where it is told that so many releases were counted.
    pub(crate) fn ticket(&self, releases: u64) -> Option<String> {
        self.released().map(|released| format!("{released}{}", releases % TICKETS))
    }

    /// Whether an entry takes part in the queue. In our own layout what is not named like a node is
    /// nobody's; at an exact address everything counts, as it does for `etcdctl lock`.
    pub(crate) fn counts(&self, key: &[u8]) -> bool {
        self.exact || self.is_node(key)
    }

    fn is_node(&self, key: &[u8]) -> bool {
        std::str::from_utf8(key)
            .ok()
            .and_then(|key| key.strip_prefix(self.prefix.as_str()))
            .and_then(|name| name.split_once('-'))
            .is_some_and(|(lease, id)| {
                u64::from_str_radix(lease, 16).is_ok() && id.len() == 32 && NodeId::parse(id).is_some()
            })
    }
}

/// What stands in a node's value.
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

    /// Reads an entry's value. What is no node of ours (`etcdctl lock`'s is empty) claims the queue for itself alone.
    pub(crate) fn read(key: &[u8], value: &[u8]) -> Self {
        serde_json::from_slice(value).unwrap_or_else(|_| Self {
            claim: Claim::Exclusive,
            label: String::from_utf8_lossy(key).into(),
            joined: 0,
            marked: false,
        })
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
    use super::*;

    fn queue(name: impl Into<latchwork_core::Name>) -> Result<Queue> {
        Layout::new("latch/work").queue(&Address::new("latch/work", Kind::Mutex, name).unwrap())
    }

    #[test]
    fn keys_have_no_leading_slash_and_no_raw_name() {
        let id = NodeId::from_bytes([7; 16]);
        let queue = queue("a/b").unwrap();
        assert_eq!(queue.prefix, "latch%2Fwork/mutex/a%2Fb/");
        assert_eq!(queue.node(0x1f, id), format!("latch%2Fwork/mutex/a%2Fb/1f-{id}"));
        assert_eq!(Layout::new("n").tombstone(0x1f, id), format!("n/client/1f/left/{id}"));
    }

    #[test]
    fn an_exact_address_is_the_name_that_etcdctl_takes() {
        assert_eq!(queue(Address::exact("/jobs/x")).unwrap().prefix, "/jobs/x/");
        for own in ["latch%2Fwork", "latch%2Fwork/client", "latch%2Fwork/limit/mutex/a"] {
            assert_eq!(queue(Address::exact(own)).unwrap_err().argument(), Some("key"), "{own}");
        }
    }

    #[test]
    fn a_foreign_entry_counts_at_an_exact_address_only() {
        let (ours, exact) = (queue("a").unwrap(), queue(Address::exact("a")).unwrap());
        let node = ours.node(5, NodeId::random());
        assert!(ours.counts(node.as_bytes()));
        for foreign in ["notes", "5", "5-", "x-00000000000000000000000000000000"] {
            assert!(!ours.counts(format!("{}{foreign}", ours.prefix).as_bytes()), "{foreign}");
            assert!(exact.counts(format!("{}{foreign}", exact.prefix).as_bytes()), "{foreign}");
        }
    }

    #[test]
    fn a_value_reads_back_and_a_foreign_one_is_exclusive() {
        let value = NodeValue::new(Claim::Permits(3), "me".into());
        assert_eq!(NodeValue::read(b"k", &value.encode()), value);
        let foreign = NodeValue::read(b"a/1f", b"");
        assert_eq!((foreign.claim, &*foreign.label, foreign.age()), (Claim::Exclusive, "a/1f", None));
    }
}
