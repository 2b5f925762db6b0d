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
/// has a fencing token, which rises from holder to holder.
///
/// *Protocol.* Each acquisition is one ephemeral node in the key's queue. The server admits the first node,
/// and a release wakes the next. If the client dies, its lease expires on the server.
///
/// *Why it is safe.* A client counts its hold as lost before the server can admit another client
/// (LEASE-DEADLINE). But no lease lock can stop a process that is paused between its check and its write:
/// send the [`token`](super::Fenced::token) to the resource.
///
/// *Owners.* The mutex is reentrant for an owner that the call names ([`Acquire::by`]). All holds of an owner
/// on a key share one node, token and fixed end, and are lost together. Without an owner, a task that
/// acquires it again waits for itself.
///
/// *When the lease is lost*, so is the hold: [`lost`](crate::Hold::lost) becomes ready, and
/// [`check`](crate::Hold::check) fails. A waiter joins again automatically at the end of the queue.
///
/// *Source.* The lock of the ZooKeeper recipes, as in Curator's `InterProcessMutex` (whose owner is a thread)
/// and etcd's `concurrency.Mutex`. Fencing: M. Kleppmann, *How to do distributed locking* (2016).
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

    /// Acquires the mutex. Waits while other clients hold it, and for this client's own earlier releases.
    ///
    /// In an outage the acquisition keeps its place until its lease is lost, and then joins again. Without a
    /// [deadline](Acquire::within) it fails with `Unavailable` at most one TTL and one request timeout after
    /// the server's last answer.
    ///
    /// Poll a waiting acquisition or drop it: otherwise it may be admitted unnoticed, and block all others.
    ///
    /// # Errors
    /// * `Timeout`: other clients still hold the mutex at the deadline.
    /// * `Lost`: another client removed the place in the queue (`Revoked`).
    /// * `Conflict`: another program has keys at the address of the mutex.
    /// * `Misconfigured`, and the errors of [every call](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// As [`Acquire`].
    #[doc(alias = "lock")]
    pub fn acquire(&self) -> Acquire<MutexGuard> {
        Ask::new("acquire", Claim::Exclusive).of(self.handle.clone())
    }

    /// Acquires the mutex if it is free and its queue is empty; otherwise returns `None` without waiting. If
    /// [`clean_try`](crate::Capabilities::clean_try) is false, simultaneous tries may all be refused.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), without `Timeout`. `Unavailable` comes within the request timeout.
    #[doc(alias = "try_lock")]
    pub fn try_acquire(&self) -> Acquire<Option<MutexGuard>> {
        Ask::try_new("try_acquire", Claim::Exclusive).of(self.handle.clone())
    }

    /// Returns how many holds this owner has on this coordinator. Zero after a loss.
    pub fn hold_count(&self, owner: &Owner) -> usize {
        self.handle.hold_count(owner)
    }

    /// Lists the holder and the waiters in queue order.
    pub fn queue(&self) -> Listing<QueueEntry> {
        self.handle.listing()
    }

    /// Removes a client's node from the queue, for operators. Returns whether the node existed.
    ///
    /// The client gets `Revoked`, at the latest within one TTL. Until then only fencing refuses a holder's
    /// writes.
    ///
    /// # Errors
    /// The errors of [every call](crate::ErrorKind). After `OutcomeUnknown`, repeat the call.
    ///
    /// # Cancel safety
    /// A dropped call may still remove the node.
    pub async fn force_release(&self, sequence: u64) -> Result<bool> {
        self.handle.force_release(sequence).await
    }
}

addressed!(Mutex, self => self.handle.queue);
