//! A fair mutex that its owner may acquire again.

use std::fmt;
use std::time::Duration;

use super::acquire::Acquire;
use super::guards::Held;
use super::queue_handle::QueueHandle;
use super::under::under;
use super::verb::{Ask, verb};
use crate::address::Address;
use crate::contracts::{Entry, Patience};
use crate::error::{Error, ErrorKind, Result};
use crate::hold::{Fenced, Hold, guard};
use crate::reentrancy::{Mode, Owner, Share};

/// A fair mutex that its [`Owner`] may acquire again, without a request: counted locally, freed by
/// the last release. Another owner waits, in the same process too. It excludes the
/// [`Mutex`](super::Mutex) of the same key.
///
/// *Protocol.* All holds of an owner on a key share one node. A re-entry keeps the token and does
/// not move a fixed end. When the node is lost, all its holds are lost together, and a later
/// acquisition is a new one with a new token, never a silent continuation. Two tasks of one owner
/// that acquire at once share one acquisition in the background, with the options of the task that
/// began it.
///
/// *Why it is safe* towards others, and what happens *when the lease is lost*: as for the
/// [`Mutex`](super::Mutex), since to the server an owner is one holder. *Source.* Curator's
/// `InterProcessMutex` counts by thread; here the owner is explicit, since a task is no thread.
///
/// The call names the owner, or the task's scope does ([`Owner::scope`]). With neither the answer
/// is `NoOwner`, never a new owner in silence.
///
/// ```
/// # use latchwork_core::{connect, Config, Owner, Release, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let ledger = coordinator.reentrant_mutex("ledger")?;
/// let owner = Owner::new("month-end");
/// let outer = ledger.acquire_as(&owner).await?;
/// let inner = ledger.acquire_as(&owner).await?; // no request
/// assert_eq!(inner.token(), outer.token());
/// assert_eq!(inner.release().await?, Release::Released);
/// assert_eq!(outer.release().await?, Release::Released); // frees it
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct ReentrantMutex {
    pub(super) handle: QueueHandle,
}

impl ReentrantMutex {
    pub(crate) fn new(handle: QueueHandle) -> Self {
        Self { handle }
    }

    verb! {
        /// Waits its turn, or enters again at once if the owner of the task's scope
        /// ([`Owner::scope`]) holds.
        ///
        /// # Errors
        /// `NoOwner` outside of a scope; else as [`acquire_as`](Self::acquire_as).
        ///
        /// # Cancel safety
        /// As [`acquire_as`](Self::acquire_as).
        acquire() -> ReentrantGuard, by take;
        acquire_within, acquire_with;
        /// Enters again if the owner of the task's scope holds, acquires if nobody holds or waits;
        /// never waits for others.
        ///
        /// # Errors
        /// `NoOwner` outside of [`Owner::scope`]; else as
        /// [`Mutex::try_acquire`](super::Mutex::try_acquire).
        ///
        /// # Cancel safety
        /// Cancel-safe: leaves nothing in the queue.
        try_acquire, try_acquire_with;
        /// It waits its turn, or enters again at once if this owner holds.
        ///
        /// # Errors
        /// As [`Mutex::acquire`](super::Mutex::acquire), and `InvalidArgument` naming `label` when
        /// the owner's is empty, longer than 4 KiB or has a control character.
        ///
        /// # Cancel safety
        /// Cancel-safe: a dropped acquire leaves nothing in the queue, unless another task of the
        /// owner waits for it too and keeps the place. The acquisition runs on the coordinator's
        /// runtime, so an unpolled future blocks no other task of the owner. From the admission on
        /// it holds, and keeps other owners out until it is polled and released, or dropped.
        acquire_as, acquire_as_with, try_acquire_as, try_acquire_as_with;
    }

    /// How often this owner holds it now, through this coordinator: zero once the node is lost.
    pub fn holds(&self, owner: &Owner) -> usize {
        self.handle.owners.count(&(owner.clone(), self.handle.queue.clone()))
    }

    /// Acquires, runs `work` under the hold, and releases it; `work` is dropped when the hold is
    /// lost.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); `Lost` with the reason when the hold was lost, also when only
    /// the release shows it; `Unknown` when the release was not confirmed.
    ///
    /// # Cancel safety
    /// A dropped call leaves nothing: its hold is released in the background.
    pub async fn with_lock<T>(&self, work: impl AsyncFnOnce(&ReentrantGuard) -> T) -> Result<T> {
        under(self.acquire().await?, work).await
    }

    /// The key, as it was given.
    pub fn key(&self) -> &str {
        self.handle.queue.name()
    }

    /// The queue's address on the coordinator.
    pub fn address(&self) -> &Address {
        &self.handle.queue
    }

    /// The holders and waiters, in order, as [`Mutex::queue`](super::Mutex::queue): one node for
    /// all holds of an owner.
    ///
    /// # Errors
    /// `Unavailable`; `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn queue(&self, after: u64, most: usize) -> Result<Vec<Entry>> {
        self.handle.list(after, most).await
    }

    /// Removes any client's node from the queue, as
    /// [`Mutex::force_release`](super::Mutex::force_release): all holds of its owner are lost.
    ///
    /// # Errors
    /// As [`Mutex::force_release`](super::Mutex::force_release).
    ///
    /// # Cancel safety
    /// A dropped call may or may not have been carried out.
    pub async fn force_release(&self, sequence: u64) -> Result<bool> {
        self.handle.force_release(sequence).await
    }

    fn current(&self, operation: &'static str) -> Result<Owner> {
        Owner::current().ok_or_else(|| {
            let why =
                "no owner was given, and the task is in no owner's scope: use acquire_as, or Owner::scope";
            Error::new(ErrorKind::NoOwner, why).in_operation(operation).on(self.key())
        })
    }

    async fn take(&self, ask: Ask<'_>) -> Result<Option<ReentrantGuard>> {
        Ok(self.enter(ask).await?.map(ReentrantGuard))
    }

    /// As a member of a [`MultiLock`](super::MultiLock).
    pub(super) async fn take_held(&self, ask: Ask<'_>) -> Result<Option<Held>> {
        let clock = self.handle.client().clock();
        let begun = clock.now();
        Ok(self.enter(ask).await?.map(|share| Held::shared(share, clock.now().since(begun))))
    }

    async fn enter(&self, ask: Ask<'_>) -> Result<Option<Share>> {
        let owner = ask.owner.map_or_else(|| self.current(ask.operation), |owner| Ok(owner.clone()))?;
        self.handle.enter(ask, &owner, Mode::Exclusive).await
    }
}

impl fmt::Debug for ReentrantMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrantMutex").field("address", &self.handle.queue).finish_non_exhaustive()
    }
}

/// One hold of an owner. The last one to be released or dropped frees the mutex; if others remain,
/// a release sends nothing and answers `Released`.
#[must_use = "a guard that is dropped at once releases at once"]
#[derive(Debug)]
pub struct ReentrantGuard(Share);

impl ReentrantGuard {
    /// The owner.
    pub fn owner(&self) -> &Owner {
        self.0.owner()
    }
}

guard!(ReentrantGuard by 0, fenced);
