//! A fair mutex that its owner may take again.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::acquire::Acquire;
use super::queue_handle::QueueHandle;
use super::under::under;
use super::verb::{Ask, verb};
use crate::address::Address;
use crate::contracts::{Entry, Patience};
use crate::coordinator::Coordinator;
use crate::error::{Error, ErrorKind, Result};
use crate::hold::{Fenced, Hold, Release, own_methods};
use crate::holding::Tenure;
use crate::reentrancy::{Mode, Owner, Share};
use crate::token::Token;

/// A fair mutex that its [`Owner`] may take again, without a request: counted locally, freed by the last
/// release. Another owner waits, in the same process too. It shares the key with [`Mutex`](super::Mutex): both exclude each
/// other.
///
/// *Protocol.* All holds of an owner on a key hang on one node. A re-entry keeps the token and does not stretch a fixed end.
/// When the node is lost, all its holds are lost together, and a later acquisition is a new one with a new token,
/// never a silent continuation. Two tasks of one owner that acquire at once make one node, by one acquisition in the background: the
/// options are those of the task that began it.
///
/// *Why it is safe* towards others, and *when the lease is lost*, is said of the [`Mutex`](super::Mutex): to the server an owner is one
/// holder. *Source.* Curator's `InterProcessMutex` counts so by thread; here the owner is explicit, since a task is no thread.
///
/// An owner is given, or taken from the task's scope ([`Owner::scope`]); with neither the answer is `NoOwner`, never a fresh
/// owner in silence.
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
    handle: QueueHandle,
}

impl ReentrantMutex {
    pub(crate) fn new(coordinator: Coordinator, queue: Address) -> Self {
        Self { handle: QueueHandle { coordinator, queue, recipe: "reentrant_mutex" } }
    }

    verb! {
        /// Waits its turn, or enters again at once where the owner in whose scope the task is ([`Owner::scope`]) holds.
        ///
        /// # Errors
        /// `NoOwner` outside of a scope; else as [`acquire_as`](Self::acquire_as).
        ///
        /// # Cancel safety
        /// As [`acquire_as`](Self::acquire_as).
        acquire() -> ReentrantGuard, by take;
        acquire_within, acquire_with;
        /// Enters again if the owner in whose scope the task is holds, acquires if nobody holds or waits; never waits for others.
        ///
        /// # Errors
        /// `NoOwner` outside of [`Owner::scope`]; else as [`Mutex::try_acquire`](super::Mutex::try_acquire).
        ///
        /// # Cancel safety
        /// Cancel-safe: leaves nothing in the queue.
        try_acquire, try_acquire_with;
        /// It waits its turn, or enters again at once when this owner holds.
        ///
        /// # Errors
        /// As [`Mutex::acquire`](super::Mutex::acquire), and `InvalidArgument` naming `label` where the owner's is empty, longer than
        /// 4 KiB or has a control character.
        ///
        /// # Cancel safety
        /// Cancel-safe: a dropped acquire leaves nothing in the queue, unless another task of the owner waits for it too: that one keeps the
        /// place. It runs on the coordinator's runtime, so one that is kept and not polled keeps no other task of the owner waiting;
        /// from the admission on it holds, and keeps other owners out until it is polled and released, or dropped.
        acquire_as, acquire_as_with, try_acquire_as, try_acquire_as_with;
    }

    /// How often this owner holds it now, by this coordinator: not at all once the node is lost.
    pub fn holds(&self, owner: &Owner) -> usize {
        self.handle.coordinator.owners().count(&(owner.clone(), self.handle.queue.clone()))
    }

    /// Acquires, runs `work` under the hold, and releases it: the work is dropped when the hold is lost.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); `Lost` with the reason when it was lost, also when the server says so only at the release; `Unknown`
    /// when the release was not confirmed.
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing: what is held is released in the background.
    pub async fn with_lock<T>(&self, work: impl AsyncFnOnce(&ReentrantGuard) -> T) -> Result<T> {
        under(self.acquire().await?, work).await
    }

    /// The key, as it was given.
    pub fn key(&self) -> &str {
        self.handle.queue.name()
    }

    /// Where it lives on the coordinator.
    pub fn address(&self) -> &Address {
        &self.handle.queue
    }

    /// Who holds and who waits, in order, as [`Mutex::queue`](super::Mutex::queue): one node for all holds of an owner.
    ///
    /// # Errors
    /// `Unavailable`; `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn queue(&self, after: u64, most: usize) -> Result<Vec<Entry>> {
        self.handle.list(after, most).await
    }

    /// Removes a node of the queue, as [`Mutex::force_release`](super::Mutex::force_release): all holds of its owner are lost.
    ///
    /// # Errors
    /// As [`Mutex::force_release`](super::Mutex::force_release).
    ///
    /// # Cancel safety
    /// A dropped one may or may not have been carried out.
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
        let owner = ask.owner.map_or_else(|| self.current(ask.operation), |owner| Ok(owner.clone()))?;
        Ok(self.handle.enter(ask, &owner, Mode::Exclusive).await?.map(ReentrantGuard))
    }
}

impl fmt::Debug for ReentrantMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrantMutex").field("address", &self.handle.queue).finish_non_exhaustive()
    }
}

/// One hold of an owner. The last of them to be released or dropped frees the mutex.
#[must_use = "a guard that is dropped at once releases at once"]
pub struct ReentrantGuard(Share);

impl ReentrantGuard {
    /// The owner.
    pub fn owner(&self) -> &Owner {
        self.0.owner()
    }
}

own_methods!(ReentrantGuard, fenced);

#[async_trait]
impl Hold for ReentrantGuard {
    fn tenure(&self) -> &Arc<Tenure> {
        self.0.tenure()
    }

    /// Gives this hold back; the last of the owner's frees the mutex, and waits until the server has confirmed.
    /// `Released` when others remain: nothing is sent.
    ///
    /// # Errors
    /// `Unknown` when the last one's release was not confirmed before the hold's deadline.
    ///
    /// # Cancel safety
    /// Dropped, it goes on in the background.
    async fn release(&self) -> Result<Release> {
        self.0.release().await
    }
}

impl Fenced for ReentrantGuard {
    fn token(&self) -> Token {
        self.0.holding().token()
    }
}

impl fmt::Debug for ReentrantGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReentrantGuard").field(&self.0).finish()
    }
}
