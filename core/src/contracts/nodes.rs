//! The SequentialNodes contract: an ordered queue of ephemeral entries.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Serialize, Serializer};
use uuid::Uuid;

use super::cells::ChangeWatch;
use super::limit::{Limit, StoredLimit};
use super::node::Node;
use crate::address::{Address, QueuePrefix};
use crate::decide::Claim;
use crate::decide::life::Residue;
use crate::error::{Error, ErrorKind, Result};
use crate::shown::shown;

/// The longest label (and node data), in bytes.
pub const MAX_LABEL_BYTES: usize = 4096;

/// The id of one attempt to join a queue, chosen by the client: new for every attempt, and the same
/// for all its retries (NODE-IDEMPOTENT, QUEUE-ID-PER-ATTEMPT, CHAIN-FRESH-NAME).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(Uuid);

impl NodeId {
    /// A new, random id.
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// The id of these bytes: for models, and for a backend that reads its own names back.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// Reads 32 hexadecimal digits, or a UUID with dashes.
    pub fn parse(text: &str) -> Option<Self> {
        Uuid::try_parse(text).ok().map(Self)
    }

    /// Half of it, as a number.
    pub(crate) fn as_u64(&self) -> u64 {
        self.0.as_u64_pair().1
    }

    /// As a UUID, lower case with dashes (Curator's names).
    pub fn hyphenated(&self) -> String {
        self.0.hyphenated().to_string()
    }
}

/// 32 lower-case hexadecimal digits.
impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.simple().fmt(f)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.simple().fmt(f)
    }
}

impl Serialize for NodeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Whether a join may wait its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Patience {
    /// Take a place in the queue.
    Wait,
    /// Be admitted at once, or leave nothing behind. A try never overtakes the queue.
    Try,
}

/// One request to join a queue.
#[derive(Clone, Debug)]
pub struct Join {
    /// The queue.
    pub queue: Address,
    /// The attempt's id.
    pub id: NodeId,
    /// The admission rule and weight.
    pub claim: Claim,
    /// What it asks of the limit of a queue of permits.
    pub limit: Limit,
    /// The owner's label, shown in listings.
    pub label: Arc<str>,
    /// The node's data, at most [`MAX_LABEL_BYTES`] (NODE-DATA). At an exact address on ZooKeeper
    /// and etcd an election's node holds the data alone, as other programs write it.
    pub data: Arc<[u8]>,
    /// Whether it may wait.
    pub patience: Patience,
    /// An earlier request of this attempt had an unknown outcome: its node may exist.
    pub repeated: bool,
}

impl Join {
    /// The limit that applies to this join of permits, given what is stored. If nothing is, the
    /// join stores it.
    ///
    /// # Errors
    /// `Conflict` when what is stored refuses the join.
    pub fn settle(&self, stored: &StoredLimit) -> Result<u32> {
        let counts = match stored {
            StoredLimit::Foreign(_) => None,
            _ => self.limit.beside(stored.permits()),
        };
        counts.filter(|limit| self.claim.weight() <= *limit).ok_or_else(|| self.conflict(stored))
    }

    /// The error of a join of permits that the stored limit refuses.
    pub fn conflict(&self, stored: &StoredLimit) -> Error {
        let weight = self.claim.weight();
        let why = match (stored.clone(), self.limit) {
            (StoredLimit::Absent, Limit::Stored) => {
                format!("{stored} yet: semaphore(key, limit) stores one, and so does set_limit")
            }
            (StoredLimit::Permits(limit), Limit::Exactly(asked)) if limit != asked => format!(
                "{stored}, not {asked}: Limit::UnlessStored({asked}) takes the stored limit, set_limit changes it"
            ),
            (StoredLimit::Absent, Limit::Exactly(limit) | Limit::UnlessStored(limit))
            | (StoredLimit::Permits(limit), _) => {
                format!("its weight of {weight} is above the limit of {limit}")
            }
            (StoredLimit::Foreign(_), _) => stored.to_string(),
        };
        Error::new(ErrorKind::Conflict, why).on(self.queue.name())
    }
}

/// The answer to a join.
#[derive(Debug)]
pub enum Joined {
    /// Admitted at once.
    Admitted(Arc<dyn Node>),
    /// In the queue: [`Node::admitted`] waits.
    Waiting(Arc<dyn Node>),
    /// A try that was not admitted: nothing is left behind.
    Refused,
}

impl Residue {
    /// What a join with this answer may have left, as [`SequentialNodes::join`] defines its errors.
    pub fn of(join: &Join, answer: &Result<Joined>) -> Self {
        match answer {
            Ok(Joined::Admitted(_) | Joined::Waiting(_)) => Residue::Node,
            Ok(Joined::Refused) => Residue::Nothing,
            Err(error) => Residue::after(error.into(), join.repeated),
        }
    }
}

/// One node in a listing (NODE-LIST).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Its sequence number.
    pub sequence: u64,
    /// Its admission rule and weight.
    pub claim: Claim,
    /// Whether it is admitted.
    pub admitted: bool,
    /// The owner's label, as [`label_of`](Entry::label_of) reads it from the server.
    pub label: String,
    /// How long it has been in the queue, as far as the server shows (for display only).
    pub age: Option<Duration>,
    /// How long the server goes on counting on its owner without another renewal, rounded down by a
    /// second at most. `None` where it does not tell
    /// ([`lease_left`](crate::Capabilities::lease_left)), or was not asked ([`Page::leases`]).
    pub lease_left: Option<Duration>,
    /// Its data, as it was written last (NODE-DATA).
    #[serde(skip)]
    pub data: Arc<[u8]>,
}

impl Entry {
    /// A label for a listing, from the bytes on the server. Any client may have written them:
    /// invalid UTF-8 becomes U+FFFD, what would act on a terminal is escaped, and what is longer
    /// than [`MAX_LABEL_BYTES`] is cut.
    pub fn label_of(written: &[u8]) -> String {
        // The rest is never shown.
        let start = &written[..written.len().min(MAX_LABEL_BYTES + 1)];
        shown(&String::from_utf8_lossy(start), MAX_LABEL_BYTES).into_owned()
    }
}

/// Which part of a listing to read.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Only nodes behind this sequence number (0: from the head).
    pub after: u64,
    /// The most nodes to read.
    pub most: usize,
    /// Whether to tell how long each lease has left. On etcd that is a request more for the lease of
    /// each holder, at most [`MAX_LEASES`](Page::MAX_LEASES) of them.
    pub leases: bool,
}

impl Page {
    /// The most leases of a page that a server is asked for one by one.
    pub const MAX_LEASES: usize = 64;

    /// This page, without the leases.
    pub const fn new(after: u64, most: usize) -> Self {
        Self { after, most, leases: false }
    }

    /// With the leases.
    pub const fn with_leases(self) -> Self {
        Self { leases: true, ..self }
    }
}

/// A page of queues: of those that have nodes, or a stored limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuePage {
    /// The queues. Within a page each comes once.
    pub queues: Vec<Address>,
    /// Where the next page begins, in the backend's own words; `None` after the last.
    pub next: Option<String>,
}

impl QueuePage {
    /// A page of at most so many of these, in the order of their encoded keys. The next one begins behind the
    /// last key.
    pub fn in_order(mut queues: Vec<Address>, most: usize) -> Self {
        queues.sort_unstable_by(|one, other| one.coded().cmp(other.coded()));
        let is_cut = queues.len() > most;
        queues.truncate(most);
        let next = queues.last().filter(|_| is_cut).map(|last| last.coded().to_owned());
        Self { queues, next }
    }
}

/// An ordered queue of ephemeral entries. A node is (queue, lease, admission rule, weight, data).
///
/// * `NODE-ORDER`: sequence numbers of a queue rise strictly in join order, for ever: across idle
///   times, deletion of an empty parent, server restart and leader change.
/// * `NODE-TOKEN`: an admitted node's token is its sequence; tokens rise strictly from exclusive
///   holder to holder.
/// * `NODE-ADMIT`: a join answers at once whether the node is admitted ([`Claim`] has the rules).
/// * `NODE-ONE-TRIP`: an uncontended join is one round trip, a leave one more. A client that used
///   the queue a moment ago may expect it to be as it was (alone, contended, long); if that is
///   wrong, a join takes up to two trips more, and few of many joins do.
/// * `NODE-IDEMPOTENT`: a join is sent again under the same id without making a second node, and a
///   node found again counts only if it is on this lease. A join that lands late, after its attempt
///   was abandoned, meets a tombstone.
/// * `NODE-DEATH`: nodes of a dead client go with its lease, in mid-queue too.
/// * `NODE-GONE`: when anyone else removes a node, its owner is notified within one TTL: as
///   `Revoked`, or as `Forgotten` if the server shows that it has lost its data.
/// * `NODE-LIST`: holders and waiters are listed in order, page by page, with sequence number, claim and
///   label; and where the [server tells](crate::Capabilities::lease_left), with the time that the leases
///   of the holders have left: never more than a TTL, and never less, but for a second, than until
///   [their owners' deadline](super::Lease::deadline).
/// * `NODE-DATA`: a node's data is in the queue's listing from the join on. Its owner may replace it
///   ([`Node::write_data`]) as long as the node stands; a late write reaches no other node.
/// * `NODE-QUEUES`: the queues of a kind that have nodes can be listed, by the beginning of their
///   key, page by page.
/// * `NODE-LIMITS`: so can those that have a stored limit, whether they have nodes or not; and a limit
///   can be replaced where a known one is stored, and nowhere else.
/// * `WATCH-QUEUE`: a queue of a kind that [is observed](crate::Kind::is_observed) can be watched, as
///   a cell can be ([`ChangeWatch`] has the clauses).
/// * `NODE-FOREIGN`: an entry that is no node of ours does no harm, or is honoured if a layout says
///   so.
#[async_trait]
pub trait SequentialNodes: Send + Sync {
    /// Joins a queue: one try, bounded by the request timeout. Opens a new lease first when the old
    /// one is lost (LEASE-REOPEN).
    ///
    /// # Errors
    /// `Unavailable` when the request was surely not sent. `OutcomeUnknown` when it may have been carried
    /// out: core sends it again under the same id, with `repeated` set, or abandons it. `Lost`
    /// (`Expired`) when the lease was lost meanwhile: core abandons it, and joins anew. Any other
    /// kind, such as `Conflict` for another limit than the stored one, promises that this request
    /// made no node: core cleans nothing up.
    ///
    /// # Cancel safety
    /// A dropped join has an unknown outcome: core abandons it.
    async fn join(&self, join: &Join) -> Result<Joined>;

    /// Undoes an attempt whose outcome is unknown: removes its node, whichever request made it, and
    /// makes a request that arrives later harmless (QUEUE-TOMBSTONE-FOR-UNKNOWN-JOIN,
    /// CHAIN-SYNC-AFTER-UNKNOWN-CREATE, CHAIN-TOMBSTONE-FOR-UNKNOWN-JOIN). One try; harmless to
    /// repeat.
    ///
    /// # Errors
    /// `Unavailable` or `OutcomeUnknown`: core tries again until it is confirmed or the lease is lost.
    ///
    /// # Cancel safety
    /// Repeat it after a drop.
    async fn abandon(&self, join: &Join) -> Result<()>;

    /// Lists a queue in order: holders first, then waiters. It sees every change that was confirmed
    /// to anybody before the call. A page that is shorter than asked for is the last.
    ///
    /// # Errors
    /// `Unavailable`.
    ///
    /// # Cancel safety
    /// Reads only.
    async fn list(&self, queue: &Address, page: Page) -> Result<Vec<Entry>>;

    /// Lists the queues that have at least one node: at most about `most` of them, from where the
    /// page before ended (`None`: the first page). A queue that comes or goes meanwhile may be
    /// missed. The order is the backend's, and a queue may stand in two pages. Queues at exact
    /// addresses are not listed.
    ///
    /// # Errors
    /// `Unavailable`; `InvalidArgument` naming `after` for text that no page gave.
    ///
    /// # Cancel safety
    /// Reads only.
    async fn queues(&self, of: &QueuePrefix, after: Option<&str>, most: usize) -> Result<QueuePage>;

    /// A watch of a queue of a kind that [is observed](crate::Kind::is_observed) (WATCH-QUEUE). It
    /// does nothing until it is asked. One of another kind answers `Unsupported`.
    fn watch_queue(&self, queue: &Address) -> Box<dyn ChangeWatch>;

    /// Removes the node at a sequence number, whichever client owns it: an operator's forced
    /// release. Wakes the waiters that this admits; the node's owner hears `Revoked`, at once if
    /// the backend can notify it. One try. Answers whether it was there.
    ///
    /// # Errors
    /// `Unavailable`; `OutcomeUnknown` when it may have been carried out: harmless to repeat, since a
    /// sequence number is never reused.
    ///
    /// # Cancel safety
    /// A dropped one may or may not have been carried out.
    async fn revoke(&self, queue: &Address, sequence: u64) -> Result<bool>;

    /// The stored limit of a queue of permits; `None` before the first join that brought one.
    ///
    /// # Errors
    /// `Unavailable`; `Conflict` when something else than a limit is stored; the error shows it.
    ///
    /// # Cancel safety
    /// Reads only.
    async fn limit(&self, queue: &Address) -> Result<Option<u32>>;

    /// Stores the limit of a queue of permits (not zero), for good. Waiters stay and follow it:
    /// those that fit now are admitted at once, and one whose weight exceeds it ends its wait with
    /// `Conflict`. A lower limit revokes nothing, and admits nobody until the sum fits
    /// (CHAIN-LIMIT-CHANGE-MARKS-HOLDERS). One try.
    ///
    /// # Errors
    /// `Unavailable`; `OutcomeUnknown` when it may have been carried out (another client may have set it
    /// since: read it).
    ///
    /// # Cancel safety
    /// A dropped one may or may not have been carried out.
    async fn set_limit(&self, queue: &Address, limit: u32) -> Result<()>;

    /// Stores the limit as [`set_limit`](Self::set_limit) does, if this one is stored (`None`: if none is)
    /// at the instant of the write. Answers whether it was. One try.
    ///
    /// # Errors
    /// As [`set_limit`](Self::set_limit).
    ///
    /// # Cancel safety
    /// A dropped one may or may not have been carried out.
    async fn replace_limit(&self, queue: &Address, stored: Option<u32>, limit: u32) -> Result<bool>;

    /// Lists the queues that have something stored as their limit, as [`queues`](Self::queues) lists those
    /// that have nodes. A kind that takes no permits has none.
    ///
    /// # Errors
    /// As [`queues`](Self::queues).
    ///
    /// # Cancel safety
    /// Reads only.
    async fn limited(&self, of: &QueuePrefix, after: Option<&str>, most: usize) -> Result<QueuePage>;
}
