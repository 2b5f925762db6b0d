//! Several locks as one.

use std::fmt;
use std::time::Duration;

use super::forward::{shown, verb};
use super::guard::Guard;
use super::home::Home;
use super::mutex::Mutex;
use super::reentrant::ReentrantMutex;
use super::rwlock::RwLock;
use super::semaphore::Semaphore;
use crate::{Acquire, Address, Owner, Result, Token};

/// A lock as a member of a [`MultiLock`]. As [`latchwork::Member`](crate::Member).
#[derive(Clone)]
pub struct Member {
    member: crate::Member,
    home: Home,
}

impl Member {
    /// A read/write lock, to read.
    pub fn read(lock: RwLock) -> Self {
        Self { member: crate::Member::read(lock.recipe), home: lock.home }
    }

    /// A read/write lock, to write.
    pub fn write(lock: RwLock) -> Self {
        Self { member: crate::Member::write(lock.recipe), home: lock.home }
    }

    /// Permits of a semaphore.
    pub fn permits(semaphore: Semaphore, weight: u32) -> Self {
        Self { member: crate::Member::permits(semaphore.recipe, weight), home: semaphore.home }
    }

    /// The queue's address on its coordinator.
    pub fn address(&self) -> &Address {
        self.member.address()
    }

    /// The name of its coordinator.
    pub fn coordinator(&self) -> Option<&str> {
        self.member.coordinator()
    }
}

impl From<Mutex> for Member {
    fn from(mutex: Mutex) -> Self {
        Self { member: mutex.recipe.into(), home: mutex.home }
    }
}

impl From<ReentrantMutex> for Member {
    fn from(mutex: ReentrantMutex) -> Self {
        Self { member: mutex.recipe.into(), home: mutex.home }
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.member.fmt(f)
    }
}

/// Several locks, of any recipe, mode and coordinator, as one: all are held, or none. As
/// [`latchwork::MultiLock`](crate::MultiLock).
///
/// ```
/// use latchwork::blocking::{self, MultiLock};
///
/// # fn main() -> latchwork::Result<()> {
/// # let coordinator = blocking::connect("memory://")?;
/// let (from, to) = (coordinator.mutex("account/7")?, coordinator.mutex("account/3")?);
/// let both = MultiLock::new([from.into(), to.into()])?;
/// both.with_lock(|hold| println!("moving money with the fences {:?}", hold.tokens()))?;
/// # coordinator.close() }
/// ```
#[derive(Clone)]
pub struct MultiLock {
    recipe: crate::MultiLock,
    members: Vec<Member>,
    // Of all members: guards keep each one's runtime too.
    home: Home,
}

impl MultiLock {
    /// Several locks as one. As [`MultiLock::new`](crate::MultiLock::new).
    ///
    /// # Errors
    /// `InvalidArgument` naming `members` or `name`.
    pub fn new(members: impl IntoIterator<Item = Member>) -> Result<Self> {
        let members: Vec<_> = members.into_iter().collect();
        let recipe = crate::MultiLock::new(members.iter().map(|member| member.member.clone()))?;
        let home = Home::of_members(members.iter().map(|member| &member.home))?;
        Ok(Self { recipe, members, home })
    }

    verb! {
        MultiLock, acquire() -> MultiGuard;
        acquire_within, acquire_with;
        try_acquire, try_acquire_with;
        acquire_as, acquire_as_with, try_acquire_as, try_acquire_as_with;
    }

    /// Acquires, runs `work` under the hold, and releases it. Nothing stops the work at a loss. As
    /// [`MultiLock::with_lock`](crate::MultiLock::with_lock) otherwise.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); `Lost` behind work whose hold was lost; `Unknown` when the release
    /// was not confirmed.
    pub fn with_lock<T>(&self, work: impl FnOnce(&MultiGuard) -> T) -> Result<T> {
        self.acquire()?.under(work)
    }

    /// The members, in the order in which they were given.
    pub fn members(&self) -> &[Member] {
        &self.members
    }
}

shown!(MultiLock);

/// Several locks held as one.
pub type MultiGuard = Guard<crate::MultiGuard>;

impl MultiGuard {
    /// How long the acquisition took.
    pub fn waited(&self) -> Duration {
        self.hold.waited()
    }

    /// The tokens of all members. As [`MultiGuard::tokens`](crate::MultiGuard::tokens).
    pub fn tokens(&self) -> Vec<Token> {
        self.hold.tokens()
    }

    /// The addresses of all members, in the order of [`tokens`](Self::tokens).
    pub fn addresses(&self) -> Vec<&Address> {
        self.hold.addresses()
    }
}
