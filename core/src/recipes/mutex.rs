//! A fair mutex.

use std::sync::Arc;

use super::acquire::Acquire;
use super::ask::Ask;
use super::guards::MutexGuard;
use super::handles::addressed;
use super::queue_handle::QueueHandle;
use crate::contracts::QueueEntry;
use crate::decide::Claim;
use crate::error::Result;
use crate::listing::Listing;
use crate::reentrancy::Owner;

/// A fair mutex on a coordinator: admitted in the order of joining. Each hold has a fencing token
/// that rises from holder to holder.
///
/// *Protocol.* Every acquisition is one ephemeral node in the key's queue, ordered by the server.
/// The first is admitted, and a release wakes the next. The node's lease is renewed in the
/// background, and expires on the server when the client dies.
///
/// *Why it is safe.* The server admits one node at a time, and this client counts itself lost
/// earlier than the server can (LEASE-DEADLINE). No lease lock can exclude a process that is paused
/// between its look at the clock and its write: send [`token`](super::Fenced::token) with the write, and
/// let the resource refuse older ones.
///
/// *Owners.* It is reentrant for an owner that the call names ([`Acquire::by`]). All holds of an owner
/// on a key share one node: a re-entry keeps the token and does not move a fixed end. When the node is
/// lost, all its holds are lost together, and a later acquisition is a new one with a new token, never
/// a silent continuation. Two tasks of one owner that acquire at once share one acquisition in the
/// background, with the options of the task that began it. A call without an owner excludes everyone:
/// a task that holds and acquires again waits for itself.
///
/// *When the lease is lost*, the hold is lost: [`lost`](crate::Hold::lost) becomes ready,
/// [`check`](crate::Hold::check) answers `Lost`, and another client is admitted. A waiter loses its place,
/// and joins again by itself, at the tail.
///
/// *Source.* The lock of the ZooKeeper recipes (one sequential ephemeral node each, no herd), as in
/// Curator's `InterProcessMutex` and etcd's `concurrency.Mutex`; on Redis a queue of such nodes.
/// (Curator's counts holds by thread. Here the owner is explicit, since tasks are not threads.)
/// Fencing: M. Kleppmann, *How to do distributed locking* (2016), on what Redlock leaves open.
///
/// A handle is cheap to make and to clone; making one does no I/O.
///
/// ```
/// # use latchwork_core::{connect, Config, Owner, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let invoices = coordinator.mutex("invoices/2026-11")?;
/// let hold = invoices.acquire().await?;
/// println!("mine, with token {}", hold.token());
/// hold.release().await?;
/// let owner = Owner::new("month end");
/// let outer = invoices.acquire().by(&owner).await?;
/// let inner = invoices.acquire().by(&owner).await?; // no request
/// assert_eq!((inner.token(), invoices.hold_count(&owner)), (outer.token(), 2));
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Mutex {
    pub(super) handle: Arc<QueueHandle>,
}

impl Mutex {
    pub(crate) fn new(handle: QueueHandle) -> Self {
        Self { handle: Arc::new(handle) }
    }

    /// Waits its turn, as long as others hold. Options: [`Acquire`]. It first waits for this
    /// client's own earlier releases of the same key.
    ///
    /// While the coordinator does not answer, the acquisition keeps its place until its lease
    /// is lost, then joins again. It gives up when the server has been silent for one TTL, and a
    /// last request for one request timeout: a TTL and a request timeout after the last answer,
    /// at the latest.
    ///
    /// A waiting acquisition has a place in the queue, and may be admitted while it is not polled:
    /// poll it or drop it. One that is kept unpolled keeps everyone else out.
    ///
    /// # Errors
    /// `Unavailable`; `Lost` when another client removed the place in the queue (`Revoked`);
    /// `Forbidden`; `Conflict` when another program has keys in its place;
    /// `Misconfigured`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Cancel-safe: a dropped acquire leaves nothing in the queue; its node is removed in the
    /// background within a round trip. (On Redis and etcd a marker may stay next to the queue
    /// for ten minutes, so that a join that was under way does not land late.)
    #[doc(alias = "lock")]
    pub fn acquire(&self) -> Acquire<MutexGuard> {
        Ask::new("acquire", Claim::Exclusive).of(self.handle.clone())
    }

    /// Acquires if it is free and the queue is empty; never waits. `None` if it is not. If a
    /// backend's [`clean_try`](crate::Capabilities::clean_try) is false, two simultaneous tries
    /// on a free lock may both fail.
    ///
    /// # Errors
    /// `Unavailable` when the server does not answer within the request timeout (if the lease expires
    /// during the try, the try is repeated under a new one); `Forbidden`; `Conflict` and
    /// `Misconfigured` as for an acquire; `Lost` when another client removed its node
    /// meanwhile; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Cancel-safe: leaves nothing in the queue.
    #[doc(alias = "try_lock")]
    pub fn try_acquire(&self) -> Acquire<Option<MutexGuard>> {
        Ask::try_new("try_acquire", Claim::Exclusive).of(self.handle.clone())
    }

    /// How often this owner holds it now, through this coordinator: zero once the node is lost.
    pub fn hold_count(&self, owner: &Owner) -> usize {
        self.handle.hold_count(owner)
    }

    /// The holders and waiters, in order and with their data: no I/O.
    pub fn queue(&self) -> Listing<QueueEntry> {
        self.handle.listing()
    }

    /// Removes any client's node from the queue, and admits those that it blocked: for operators.
    /// Take its sequence number from [`queue`](Self::queue). Answers whether the node was there.
    ///
    /// Its owner hears `Revoked`, at once if the backend can notify it, and works on until then:
    /// only fencing keeps its last writes out.
    ///
    /// # Errors
    /// `Unavailable`; `OutcomeUnknown` when it may have been carried out (harmless to repeat);
    /// `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// A dropped call may or may not have been carried out.
    pub async fn force_release(&self, sequence: u64) -> Result<bool> {
        self.handle.force_release(sequence).await
    }
}

addressed!(Mutex, self => self.handle.queue);
