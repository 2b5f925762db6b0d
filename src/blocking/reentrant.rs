//! A fair mutex that its owner may acquire again.

use std::time::Duration;

use super::forward::{forward, keyed, recipe, verb};
use super::guard::{Guard, fences};
use crate::contracts::Entry;
use crate::{Acquire, Owner, Result};

recipe! {
    /// A fair mutex that its [`Owner`] may acquire again. As
    /// [`latchwork::ReentrantMutex`](crate::ReentrantMutex). An owner is no thread: the call names it, or
    /// the scope that the thread is in does ([`Owner::sync_scope`]).
    ///
    /// ```
    /// use latchwork::{Owner, Release, blocking};
    ///
    /// # fn main() -> latchwork::Result<()> {
    /// # let coordinator = blocking::connect("memory://")?;
    /// let ledger = coordinator.reentrant_mutex("ledger")?;
    /// let owner = Owner::new("month-end");
    /// let outer = ledger.acquire_as(&owner)?;
    /// let inner = owner.sync_scope(|| ledger.acquire())?; // no request
    /// assert_eq!(inner.token(), outer.token());
    /// assert_eq!(inner.release()?, Release::Released);
    /// assert_eq!(outer.release()?, Release::Released); // frees it
    /// # coordinator.close() }
    /// ```
    ReentrantMutex
}

impl ReentrantMutex {
    verb! {
        ReentrantMutex, acquire() -> ReentrantGuard;
        acquire_within, acquire_with;
        try_acquire, try_acquire_with;
        acquire_as, acquire_as_with, try_acquire_as, try_acquire_as_with;
    }

    /// How often this owner holds it now, through this coordinator.
    pub fn holds(&self, owner: &Owner) -> usize {
        self.recipe.holds(owner)
    }

    /// Acquires, runs `work` under the hold, and releases it. Nothing stops the work at a loss. As
    /// [`ReentrantMutex::with_lock`](crate::ReentrantMutex::with_lock) otherwise.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); `Lost` behind work whose hold was lost; `Unknown` when the release
    /// was not confirmed.
    pub fn with_lock<T>(&self, work: impl FnOnce(&ReentrantGuard) -> T) -> Result<T> {
        self.acquire()?.under(work)
    }

    forward! { ReentrantMutex:
        /// The holders and waiters, in order.
        fn queue(after: u64, most: usize) -> Vec<Entry>;
        /// Removes any client's node from the queue: for operators.
        fn force_release(sequence: u64) -> bool;
    }

    keyed!();
}

/// One hold of an owner.
pub type ReentrantGuard = Guard<crate::ReentrantGuard>;

impl ReentrantGuard {
    fences!();

    /// The owner.
    pub fn owner(&self) -> &Owner {
        self.hold.owner()
    }
}
