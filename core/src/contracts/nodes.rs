use async_trait::async_trait;

use super::cells::ChangeWatch;
use super::entry::{EntryPage, QueueEntry};
use super::join::{Join, Joined};
use super::limit::ExpectedLimit;
use crate::address::Address;
use crate::error::Result;

/// Ordered queues of ephemeral entries. A node is (queue, lease, admission rule, weight, data). A dropped
/// call may or may not have been carried out.
///
/// * `NODE-ORDER`: sequence numbers of a queue rise strictly in join order, for ever: across idle times,
///   deletion of an empty parent, server restart and leader change.
/// * `NODE-TOKEN`: an admitted node's token is its sequence; tokens rise strictly from exclusive holder to
///   holder.
/// * `NODE-ADMIT`: a join answers at once whether the node is admitted ([`Claim`](crate::decide::Claim) has
///   the rules).
/// * `NODE-ONE-TRIP`: an uncontended join is one round trip, a leave one more. A client may expect the queue
///   as it was a moment ago. If it is not, a join takes up to two more trips, which few of many joins do.
/// * `NODE-IDEMPOTENT`: a join that is sent again under the same id makes no second node, and a node found
///   again counts only if it is on this lease. A join of an abandoned attempt meets a tombstone.
/// * `NODE-DEATH`: the nodes of a dead client are removed with its lease, also in the middle of a queue.
/// * `NODE-GONE`: when another client removes a node, its owner is notified within one TTL: as `Revoked`, or
///   as `Forgotten` if the server shows that it has lost its data.
/// * `NODE-LIST`: holders and waiters are listed in order, page by page, with sequence number, claim and
///   label. If the server [can report it](crate::Capabilities::lease_left), the listing has the time that the
///   leases of the holders have left: at most a TTL, and at least, except for a second, the time until [their
///   owners' deadline](super::Lease::deadline).
/// * `NODE-DATA`: a node's data is in the queue's listing from the join on. Its owner may replace it
///   ([`Node::write_data`](super::Node::write_data)) as long as the node exists; a late write reaches no
///   other node.
/// * `NODE-QUEUES`: the queues of a kind that have nodes can be listed, by the beginning of their key, page
///   by page ([`Backend::list_keys`](super::Backend::list_keys)).
/// * `NODE-LIMITS`: the queues that have a stored limit can be listed in the same way, with or without nodes.
///   A limit can be replaced on the condition that a known limit is stored.
/// * `WATCH-QUEUE`: a queue of a kind that [is observed](crate::Kind::is_observed) can be watched like a cell
///   ([`ChangeWatch`] has the clauses).
/// * `NODE-FOREIGN`: an entry that is not a node of this library does no harm, or is honoured if a layout
///   says so.
#[async_trait]
pub trait SequentialNodes: Send + Sync {
    /// Joins a queue: one try, bounded by the request timeout. Opens a new lease if the old one is lost
    /// (LEASE-REOPEN).
    ///
    /// # Errors
    /// * `Unavailable`: the request was surely not sent.
    /// * `OutcomeUnknown`: it may have been carried out. Core sends it again under the same id, with
    ///   `repeated` set, or abandons it.
    /// * `Lost` (`Expired`): the lease was lost during the join. Core abandons it, and joins again.
    /// * Any other kind, such as `Conflict` for another limit than the stored one, promises that this request
    ///   made no node. Core cleans nothing up.
    ///
    /// # Cancel safety
    /// A dropped join has an unknown outcome: core abandons it.
    async fn join(&self, join: &Join) -> Result<Joined>;

    /// Undoes an attempt whose outcome is unknown: removes its node, and makes a request that arrives later
    /// harmless (QUEUE-TOMBSTONE-FOR-UNKNOWN-JOIN, CHAIN-SYNC-AFTER-UNKNOWN-CREATE,
    /// CHAIN-TOMBSTONE-FOR-UNKNOWN-JOIN). One try; harmless to repeat.
    ///
    /// # Errors
    /// `Unavailable` or `OutcomeUnknown`: core tries again until it is confirmed or the lease is lost.
    async fn abandon(&self, join: &Join) -> Result<()>;

    /// Lists a queue in order. It sees every change that was confirmed to any client before the call. A page
    /// that is shorter than requested is the last.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn list(&self, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>>;

    /// Returns a watch of a queue of a kind that [is observed](crate::Kind::is_observed) (WATCH-QUEUE). It
    /// sends nothing before its first call. A watch of another kind answers `Unsupported`.
    fn watch_queue(&self, queue: &Address) -> Box<dyn ChangeWatch>;

    /// Removes the node at a sequence number, whichever client owns it, and wakes the waiters that this
    /// admits. Returns whether the node was there.
    ///
    /// The owner's hold is lost as `Revoked`, at once if the backend can notify it. One try; harmless to
    /// repeat, since a sequence number is never reused.
    ///
    /// # Errors
    /// * `Unavailable`.
    /// * `OutcomeUnknown`: it may have been carried out, as after a drop.
    async fn revoke(&self, queue: &Address, sequence: u64) -> Result<bool>;

    /// Returns the stored limit of a queue of permits; `None` before the first join that stored one.
    ///
    /// # Errors
    /// * `Unavailable`.
    /// * `Conflict`: the stored text is not a limit; the error shows it.
    async fn limit(&self, queue: &Address) -> Result<Option<u32>>;

    /// Stores the limit of a queue of permits (not zero) permanently, if the stored limit is `expected` at
    /// the instant of the write. Returns whether it did. One try.
    ///
    /// A waiter that fits now is admitted at once, and a waiter whose weight exceeds the limit ends its wait
    /// with `Conflict`. A lower limit revokes nothing, and admits no waiter until the sum fits
    /// (CHAIN-LIMIT-CHANGE-MARKS-HOLDERS).
    ///
    /// # Errors
    /// * `Unavailable`.
    /// * `OutcomeUnknown`: it may have been carried out, as after a drop. Another client may have changed the
    ///   limit since, so read it.
    async fn set_limit(&self, queue: &Address, expected: ExpectedLimit, limit: u32) -> Result<bool>;
}
