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

/// A fair mutex on a coordinator: clients acquire it in the order in which they joined its queue. Each hold
/// has a fencing token, which rises from holder to holder. Making or cloning a handle does no I/O.
///
/// *Protocol.* Each acquisition is one ephemeral node in the key's queue. The server admits the first node,
/// and a release wakes the next. The client renews the node's lease; if the client dies, the lease expires on
/// the server.
///
/// *Why it is safe.* The server admits one node at a time, and a client counts its hold as lost before the
/// server can admit another client (LEASE-DEADLINE). No lease lock can stop a process that is paused between
/// its check of the lock and its write: send the [`token`](super::Fenced::token) to the resource.
///
/// *Owners.* The mutex is reentrant for an owner that the call names ([`Acquire::by`]). All holds of an owner
/// on a key share one node: a re-entry keeps the token and does not move a fixed end, and a loss ends all of
/// them. Without an owner, a task that holds the mutex and acquires it again waits for itself.
///
/// *When the lease is lost*, the hold is lost: [`lost`](crate::Hold::lost) becomes ready,
/// [`check`](crate::Hold::check) fails with `Lost`, and another client is admitted. A waiter joins again
/// automatically at the end of the queue.
///
/// *Source.* The lock of the ZooKeeper recipes (no herd effect), as in Curator's `InterProcessMutex` and
/// etcd's `concurrency.Mutex`. Curator counts the holds of a thread, but a task is not a thread, so here the
/// owner is explicit. Fencing: M. Kleppmann, *How to do distributed locking* (2016).
///
/// ```
/// # use latchwork_core::{connect, Config, Owner, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let invoices = coordinator.mutex("invoices/2026-11")?;
/// let hold = invoices.acquire().await?;
/// println!("held, with token {}", hold.token());
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

    /// Acquires the mutex, and waits while other clients hold it, and for this client's own earlier releases
    /// of the same key. [`Acquire`] has the options.
    ///
    /// In an outage the acquisition keeps its place until its lease is lost, and then joins again. Without a
    /// deadline ([`Acquire::within`]) it fails with `Unavailable` at most one TTL and one request timeout
    /// after the server's last answer.
    ///
    /// Poll a waiting acquisition or drop it: it may be admitted while it is not polled, and then blocks all
    /// other clients.
    ///
    /// # Errors
    /// * `Timeout`: other clients still hold the mutex at the deadline.
    /// * `Unavailable`: the server does not answer.
    /// * `Lost`: another client removed the place in the queue (`Revoked`).
    /// * `Conflict`: another program has keys at the address of the mutex.
    /// * `Forbidden`, `Misconfigured`, `Closed`, `RuntimeGone`: see [`ErrorKind`](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// A dropped acquisition removes its node in the background within a round trip. (On Redis and etcd a
    /// marker may remain next to the queue for ten minutes, which keeps out a join that arrives late.)
    #[doc(alias = "lock")]
    pub fn acquire(&self) -> Acquire<MutexGuard> {
        Ask::new("acquire", Claim::Exclusive).of(self.handle.clone())
    }

    /// Acquires the mutex if it is free and its queue is empty; otherwise returns `None` without waiting.
    ///
    /// If [`clean_try`](crate::Capabilities::clean_try) is false, simultaneous tries on a free mutex may all
    /// be refused.
    ///
    /// # Errors
    /// * `Unavailable`: the server does not answer within the request timeout.
    /// * `Lost`: another client removed the node during the try.
    /// * `Conflict`, `Forbidden`, `Misconfigured`, `Closed`, `RuntimeGone`: as [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// A dropped try leaves nothing in the queue.
    #[doc(alias = "try_lock")]
    pub fn try_acquire(&self) -> Acquire<Option<MutexGuard>> {
        Ask::try_new("try_acquire", Claim::Exclusive).of(self.handle.clone())
    }

    /// Returns how many holds this owner has through this coordinator. Zero after a loss.
    pub fn hold_count(&self, owner: &Owner) -> usize {
        self.handle.hold_count(owner)
    }

    /// Lists the holder and the waiters in queue order. No I/O until a page is read.
    pub fn queue(&self) -> Listing<QueueEntry> {
        self.handle.listing()
    }

    /// Removes a client's node from the queue, for operators. Returns whether the node existed.
    /// [`queue`](Self::queue) shows its sequence number.
    ///
    /// The client of the node gets `Revoked`: normally at once, and at the latest within one TTL. Until then
    /// a holder continues its work, and only fencing refuses its writes.
    ///
    /// # Errors
    /// * `Unavailable`: the server does not answer.
    /// * `OutcomeUnknown`: the node may have been removed. Repeat the call.
    /// * `Forbidden`, `Closed`, `RuntimeGone`: see [`ErrorKind`](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// A dropped call may still remove the node.
    pub async fn force_release(&self, sequence: u64) -> Result<bool> {
        self.handle.force_release(sequence).await
    }
}

addressed!(Mutex, self => self.handle.queue);
