//! A fair read/write lock.

use std::time::Duration;

use super::forward::{forward, keyed, recipe, verb};
use super::guard::{Guard, fences};
use crate::contracts::Entry;
use crate::{Acquire, Owner, Result, Token};

recipe! {
    /// A fair read/write lock: any number of readers, or one writer. As
    /// [`latchwork::RwLock`](crate::RwLock).
    ///
    /// ```
    /// use latchwork::blocking;
    ///
    /// # fn main() -> latchwork::Result<()> {
    /// # let coordinator = blocking::connect("memory://")?;
    /// let prices = coordinator.rwlock("prices")?;
    /// let alone = prices.write()?;
    /// let fence = alone.token();
    /// let beside_others = alone.downgrade()?; // no writer comes between
    /// let other = prices.read()?;
    /// assert_eq!(beside_others.token(), fence);
    /// # drop((beside_others, other));
    /// # coordinator.close() }
    /// ```
    RwLock
}

impl RwLock {
    verb! {
        RwLock, read() -> ReadGuard;
        read_within, read_with;
        try_read, try_read_with;
        read_as, read_as_with, try_read_as, try_read_as_with;
    }

    verb! {
        RwLock, write() -> WriteGuard;
        write_within, write_with;
        try_write, try_write_with;
        write_as, write_as_with, try_write_as, try_write_as_with;
    }

    /// Acquires, runs `work` under the hold, and releases it. Nothing stops the work at a loss. As
    /// [`RwLock::with_read`](crate::RwLock::with_read) otherwise.
    ///
    /// # Errors
    /// As [`read`](Self::read); `Lost` behind work whose hold was lost; `Unknown` when the release was not
    /// confirmed.
    pub fn with_read<T>(&self, work: impl FnOnce(&ReadGuard) -> T) -> Result<T> {
        self.read()?.under(work)
    }

    /// Acquires, runs `work` under the hold, and releases it. Nothing stops the work at a loss. As
    /// [`RwLock::with_write`](crate::RwLock::with_write) otherwise.
    ///
    /// # Errors
    /// As [`write`](Self::write); `Lost` behind work whose hold was lost; `Unknown` when the release was
    /// not confirmed.
    pub fn with_write<T>(&self, work: impl FnOnce(&WriteGuard) -> T) -> Result<T> {
        self.write()?.under(work)
    }

    forward! { RwLock:
        /// The holders and waiters, in order.
        fn queue(after: u64, most: usize) -> Vec<Entry>;
        /// Removes any client's node from the queue: for operators.
        fn force_release(sequence: u64) -> bool;
    }

    keyed!();
}

/// A read hold, beside other readers.
pub type ReadGuard = Guard<crate::ReadGuard>;

/// A write hold, alone.
pub type WriteGuard = Guard<crate::WriteGuard>;

impl ReadGuard {
    /// How long the acquisition took.
    pub fn waited(&self) -> Duration {
        self.hold.waited()
    }

    /// The number that identifies this hold on the server. It is no fence: readers hold together.
    pub fn token(&self) -> Token {
        self.hold.token()
    }
}

impl WriteGuard {
    fences!();

    /// How long the acquisition took.
    pub fn waited(&self) -> Duration {
        self.hold.waited()
    }

    /// Turns the write hold into a read hold, without letting a writer in between. As
    /// [`WriteGuard::downgrade`](crate::WriteGuard::downgrade).
    ///
    /// # Errors
    /// As there: the hold is given back; so it is with `InAsyncCode`.
    pub fn downgrade(self) -> Result<ReadGuard> {
        let Self { hold, home } = self;
        Ok(ReadGuard::new(home.run(hold.downgrade())?, &home))
    }
}
