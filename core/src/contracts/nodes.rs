use async_trait::async_trait;

use super::cells::ChangeWatch;
use super::entry::{EntryPage, QueueEntry};
use super::join::{Join, Joined};
use super::limit::ExpectedLimit;
use crate::address::Address;
use crate::error::Result;

/// Ordered queues of ephemeral entries. A node is (queue, lease, admission rule, weight, data).
/// [`Backend`](super::Backend) has the rules of every request.
///
/// * `NODE-ORDER`: sequence numbers of a queue rise strictly in join order, for ever: across idle times,
///   deletion of an empty parent, server restart and leader change.
/// * `NODE-TOKEN`: an admitted node's token is its sequence; tokens rise strictly from exclusive holder to
///   holder.
/// * `NODE-ADMIT`: a join answers at once whether the node is admitted, by the rules of
///   [`Claim`](crate::decide::Claim).
/// * `NODE-ONE-TRIP`: an uncontended join is one round trip, a leave one more. A client may guess the queue
///   from its last turn; a wrong guess costs up to two more trips.
/// * `NODE-IDEMPOTENT`: a join that is sent again under the same id makes no second node, and a node that is
///   found again counts only if it is on this lease. A join of an abandoned attempt meets a tombstone.
/// * `NODE-DEATH`: the nodes of a dead client are removed with its lease, also in the middle of a queue.
/// * `NODE-GONE`: when another client removes a node, its owner is notified within one TTL: as `Revoked`, or
///   as `Forgotten` if the server shows that it has lost its data.
/// * `NODE-LIST`: holders and waiters are listed in order, page by page, with sequence number, claim and
///   label. If the server [can report it](crate::Capabilities::lease_left), also with the time that the
///   leases of the holders have left: at most a TTL, and at least, except for a second, the time until [their
///   owners' deadline](super::Lease::deadline).
/// * `NODE-DATA`: a node's data is in the listing from the join on. Its owner may replace it; a late write
///   reaches no other node.
/// * `NODE-QUEUES`: the queues of a kind that have nodes can be listed, by the beginning of their key, page
///   by page ([`Backend::list_keys`](super::Backend::list_keys)).
/// * `NODE-LIMITS`: the queues that have a stored limit can be listed in the same way, with or without nodes.
///   A limit can be replaced only if a known one is stored.
/// * `WATCH-QUEUE`: a queue of a kind that [is observed](crate::Kind::is_observed) can be watched like a cell
///   ([`ChangeWatch`]).
/// * `NODE-FOREIGN`: an entry that is not a node of this library does no harm, or counts if a layout says so.
#[async_trait]
pub trait SequentialNodes: Send + Sync {
    /// Joins a queue. Opens a new lease if the old one is lost (LEASE-REOPEN).
    ///
    /// # Errors
    /// * `OutcomeUnknown`: core sends the join again under the same id, with `repeated` set, or abandons it,
    ///   also after a drop.
    /// * `Lost` (`Expired`): the lease was lost during the join. Core abandons it, and joins again.
    /// * Any other kind, such as `Conflict` for another limit, promises that this request made no node.
    async fn join(&self, join: &Join) -> Result<Joined>;

    /// Undoes an attempt whose outcome is unknown: removes its node, and makes a request that arrives later
    /// harmless (QUEUE-TOMBSTONE-FOR-UNKNOWN-JOIN, CHAIN-SYNC-AFTER-UNKNOWN-CREATE,
    /// CHAIN-TOMBSTONE-FOR-UNKNOWN-JOIN). Core repeats it until it is confirmed or the lease is lost.
    async fn abandon(&self, join: &Join) -> Result<()>;

    /// Lists a queue in order. A page that is shorter than requested is the last.
    async fn list(&self, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>>;

    /// Returns a watch of a queue (WATCH-QUEUE), which sends nothing before its first call. A kind that [is
    /// not observed](crate::Kind::is_observed) answers `Unsupported`.
    fn watch_queue(&self, queue: &Address) -> Box<dyn ChangeWatch>;

    /// Removes the node at a sequence number, whichever client owns it, and wakes the waiters that this
    /// admits. Returns whether the node existed. The owner's hold is lost as `Revoked`, at once if the
    /// backend can notify it. Harmless to repeat, since a sequence number is never reused.
    async fn revoke(&self, queue: &Address, sequence: u64) -> Result<bool>;

    /// Returns the stored limit of a queue of permits; `None` before the first join that stored one.
    ///
    /// # Errors
    /// `Conflict`: the stored text, which the error shows, is not a limit.
    async fn limit(&self, queue: &Address) -> Result<Option<u32>>;

    /// Stores the limit of a queue of permits (not zero) permanently, if the stored limit is `expected` at
    /// that instant. Returns whether it did.
    ///
    /// A waiter that fits is admitted at once; a waiter whose weight exceeds the limit ends with `Conflict`.
    /// A lower limit revokes nothing, and admits no waiter until the sum fits
    /// (CHAIN-LIMIT-CHANGE-MARKS-HOLDERS).
    ///
    /// # Errors
    /// `OutcomeUnknown`: another client may have changed the limit since, so read it.
    async fn set_limit(&self, queue: &Address, expected: ExpectedLimit, limit: u32) -> Result<bool>;
}
