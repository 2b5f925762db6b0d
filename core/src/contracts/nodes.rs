//! The SequentialNodes contract: an ordered queue of ephemeral entries.

use async_trait::async_trait;

use super::cells::ChangeWatch;
use super::entry::{EntryPage, QueueEntry};
use super::join::{Join, Joined};
use super::limit::ExpectedLimit;
use crate::address::Address;
use crate::error::Result;

/// An ordered queue of ephemeral entries. A node is (queue, lease, admission rule, weight, data).
///
/// * `NODE-ORDER`: sequence numbers of a queue rise strictly in join order, for ever: across idle
///   times, deletion of an empty parent, server restart and leader change.
/// * `NODE-TOKEN`: an admitted node's token is its sequence; tokens rise strictly from exclusive
///   holder to holder.
/// * `NODE-ADMIT`: a join answers at once whether the node is admitted ([`Claim`](crate::decide::Claim) has the rules).
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
///   ([`Node::write_data`](super::Node::write_data)) as long as the node stands; a late write reaches no other node.
/// * `NODE-QUEUES`: the queues of a kind that have nodes can be listed, by the beginning of their
///   key, page by page ([`Backend::list_keys`](super::Backend::list_keys)).
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
    async fn list(&self, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>>;

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

    /// Stores the limit of a queue of permits (not zero), for good, if `expected` is stored at the instant of
    /// the write. Returns whether it was. Waiters stay and follow the limit: a waiter that fits now is
    /// admitted at once, and one whose weight exceeds it ends its wait with `Conflict`. A lower limit
    /// revokes nothing, and admits no waiter until the sum fits (CHAIN-LIMIT-CHANGE-MARKS-HOLDERS). One try.
    ///
    /// # Errors
    /// `Unavailable`; `OutcomeUnknown` when it may have been carried out (another client may have set it
    /// since: read it).
    ///
    /// # Cancel safety
    /// A dropped one may or may not have been carried out.
    async fn set_limit(&self, queue: &Address, expected: ExpectedLimit, limit: u32) -> Result<bool>;
}
