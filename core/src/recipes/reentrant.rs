//! A fair mutex that its owner may take again.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;

use super::acquire::Acquire;
use super::mutex::{Mutex, MutexGuard};
use crate::contracts::Patience;
use crate::coordinator::Coordinator;
use crate::error::{Error, ErrorKind, Result};
use crate::hold::{Fenced, Hold, Release};
use crate::holding::Holding;
use crate::reentrancy::{Entered, Generation, Left, OwnedKey, Owner};
use crate::token::Token;

/// A fair mutex that its [`Owner`] may take again, without a request: counted locally, freed by the last
/// release. Another owner waits, in the same process too. It shares the key with [`Mutex`]: both exclude each
/// other.
///
/// *Protocol.* All holds of an owner on a key hang on one node. A re-entry keeps the token and does not stretch a fixed end.
/// When the node is lost, all its holds are lost together, and a later acquisition is a new one with a new token,
/// never a silent continuation. Two tasks of one owner that acquire at once make one node.
///
/// An owner is given, or taken from the task's scope ([`Owner::scope`]); with neither the answer is `NoOwner`, never a fresh
/// owner in silence.
///
/// ```
/// # use latchwork_core::{connect, Config, Fenced, Hold, Owner, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let ledger = coordinator.reentrant_mutex("ledger")?;
/// let owner = Owner::new("month-end");
/// let outer = ledger.acquire_as(&owner).await?;
/// let inner = ledger.acquire_as(&owner).await?; // no request
/// assert_eq!(inner.token(), outer.token());
/// inner.release().await?;
/// outer.release().await?; // frees it
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct ReentrantMutex {
    coordinator: Coordinator,
    mutex: Mutex,
}

impl ReentrantMutex {
    pub(crate) fn new(coordinator: Coordinator, mutex: Mutex) -> Self {
        Self { coordinator, mutex }
    }

    /// As [`acquire_as`](ReentrantMutex::acquire_as), by the owner in whose scope the task is.
    ///
    /// # Errors
    /// `NoOwner` outside of [`Owner::scope`]; else as [`Mutex::acquire`].
    ///
    /// # Cancel safety
    /// As [`acquire_as`](ReentrantMutex::acquire_as).
    pub async fn acquire(&self) -> Result<ReentrantGuard> {
        self.acquire_as(&self.current()?).await
    }

    /// Waits its turn, or enters again at once when this owner holds.
    ///
    /// # Errors
    /// As [`Mutex::acquire`].
    ///
    /// # Cancel safety
    /// Cancel-safe: a dropped acquire leaves nothing; another task of the owner that waited for it takes over.
    pub async fn acquire_as(&self, owner: &Owner) -> Result<ReentrantGuard> {
        self.acquire_with(owner, Acquire::new()).await
    }

    /// Acquires with options, which count for the acquisition, not for a re-entry. The label is the owner's unless
    /// another is given.
    ///
    /// # Errors
    /// As [`Mutex::acquire_with`].
    ///
    /// # Cancel safety
    /// As [`acquire_as`](ReentrantMutex::acquire_as).
    pub async fn acquire_with(&self, owner: &Owner, options: Acquire) -> Result<ReentrantGuard> {
        match self.enter(owner, options, Patience::Wait).await? {
            Some(guard) => Ok(guard),
            None => unreachable!("only a try is refused"),
        }
    }

    /// Enters again if this owner holds, acquires if nobody holds or waits; never waits for others.
    ///
    /// # Errors
    /// As [`Mutex::try_acquire`].
    ///
    /// # Cancel safety
    /// Cancel-safe: leaves nothing.
    pub async fn try_acquire_as(&self, owner: &Owner) -> Result<Option<ReentrantGuard>> {
        self.enter(owner, Acquire::new(), Patience::Try).await
    }

    /// As [`try_acquire_as`](ReentrantMutex::try_acquire_as), by the owner in whose scope the task is.
    ///
    /// # Errors
    /// `NoOwner` outside of [`Owner::scope`]; else as [`Mutex::try_acquire`].
    ///
    /// # Cancel safety
    /// Cancel-safe: leaves nothing.
    pub async fn try_acquire(&self) -> Result<Option<ReentrantGuard>> {
        self.try_acquire_as(&self.current()?).await
    }

    /// How often this owner holds it now, by this coordinator.
    pub fn holds(&self, owner: &Owner) -> usize {
        self.coordinator.owners().count(&self.entry(owner))
    }

    /// The key, as it was given.
    pub fn key(&self) -> &str {
        self.mutex.key()
    }

    fn current(&self) -> Result<Owner> {
        Owner::current().ok_or_else(|| {
            let why = "no owner was given, and the task is in no owner's scope";
            Error::new(ErrorKind::NoOwner, why).in_operation("acquire").on(self.key())
        })
    }

    fn entry(&self, owner: &Owner) -> OwnedKey {
        (owner.clone(), self.mutex.address().clone())
    }

    async fn enter(
        &self,
        owner: &Owner,
        options: Acquire,
        patience: Patience,
    ) -> Result<Option<ReentrantGuard>> {
        let operation = if patience == Patience::Try { "try_acquire" } else { "acquire" };
        let options = options.labelled_unless_given(owner.label());
        // Before a deadline is made of them, and for a re-entry too.
        options.check().map_err(|error| error.in_operation(operation).on(self.key()))?;
        let deadline = options.deadline(&self.coordinator, patience);
        let (key, clock) = (self.entry(owner), self.coordinator.clock());
        loop {
            let changed = self.coordinator.owners().changed();
            tokio::pin!(changed);
            changed.as_mut().enable();
            match self.coordinator.owners().enter(&key) {
                Entered::Again(generation, hold) => return Ok(Some(self.guard(key, generation, hold))),
                Entered::Acquire(generation) => {
                    let acquiring = Acquiring { coordinator: &self.coordinator, key: &key, generation };
                    let options = options.clone().until(&self.coordinator, deadline);
                    let acquired = match patience {
                        Patience::Wait => Some(self.mutex.acquire_with(options).await?),
                        Patience::Try => self.mutex.try_acquire_with(options).await?,
                    };
                    let Some(hold) = acquired else { return Ok(None) };
                    let hold = acquiring.done(hold);
                    return Ok(Some(self.guard(key, generation, hold)));
                }
                Entered::Join => {
                    tokio::select! {
                        () = changed => {}
                        () = clock.sleep_until(deadline) => {
                            let late = crate::attempt::late(patience);
                            return Err(late.in_operation(operation).on(self.key()));
                        }
                    }
                }
            }
        }
    }

    fn guard(&self, key: OwnedKey, generation: Generation, hold: Arc<MutexGuard>) -> ReentrantGuard {
        ReentrantGuard {
            coordinator: self.coordinator.clone(),
            key,
            generation,
            hold,
            left: AtomicBool::new(false),
        }
    }
}

/// An acquisition under way. Dropped before it is done, another task of the owner takes over (RULES D4).
struct Acquiring<'a> {
    coordinator: &'a Coordinator,
    key: &'a OwnedKey,
    generation: Generation,
}

impl Acquiring<'_> {
    fn done(self, hold: MutexGuard) -> Arc<MutexGuard> {
        let hold = Arc::new(hold);
        self.coordinator.owners().acquired(self.key, self.generation, Arc::clone(&hold));
        hold
    }
}

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        // Does nothing once it is done: the entry is no acquisition any more.
        self.coordinator.owners().gave_up(self.key, self.generation);
    }
}

/// One hold of an owner. The last of them to be released or dropped frees the mutex.
#[must_use = "a guard that is dropped at once releases at once"]
pub struct ReentrantGuard {
    coordinator: Coordinator,
    key: OwnedKey,
    generation: Generation,
    hold: Arc<MutexGuard>,
    left: AtomicBool,
}

impl ReentrantGuard {
    /// The owner.
    pub fn owner(&self) -> &Owner {
        &self.key.0
    }

    /// Gives this hold up. Answers the node's guard when it was the last.
    fn leave(&self) -> Option<Arc<MutexGuard>> {
        if self.left.swap(true, Ordering::AcqRel) {
            return None;
        }
        match self.coordinator.owners().leave(&self.key, self.generation) {
            Left::Last(hold) => Some(hold),
            Left::Remaining | Left::Stale => None,
        }
    }
}

#[async_trait]
impl Hold for ReentrantGuard {
    fn holding(&self) -> &Holding {
        self.hold.holding()
    }

    fn check(&self) -> Result<()> {
        match self.left.load(Ordering::Acquire) {
            true => Err(Error::new(ErrorKind::NotHeld, "this hold was released").on(self.key())),
            false => self.hold.check(),
        }
    }

    /// Gives this hold back; the last of the owner's frees the mutex, and waits until the server has confirmed.
    /// `Released` when others remain: nothing is sent.
    async fn release(&self) -> Result<Release> {
        if self.left.load(Ordering::Acquire) {
            return Ok(Release::Released);
        }
        if let Err(error) = self.hold.check()
            && let Some(reason) = error.lost_reason()
        {
            // The node is given back all the same, in the background.
            drop(self.leave());
            return Ok(Release::AlreadyLost(reason));
        }
        match self.leave() {
            Some(last) => last.release().await,
            None => Ok(Release::Released),
        }
    }
}

impl Fenced for ReentrantGuard {
    fn token(&self) -> Token {
        self.hold.token()
    }
}

impl Drop for ReentrantGuard {
    fn drop(&mut self) {
        if let Some(last) = self.leave() {
            last.holding().let_go();
        }
    }
}

impl fmt::Debug for ReentrantGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrantGuard")
            .field("owner", self.owner())
            .field("hold", &self.hold)
            .finish_non_exhaustive()
    }
}
