//! One lock on a majority of independent coordinators.

use std::time::Duration;

use super::forward::{forward, shown, verb};
use super::guard::Guard;
use super::home::Home;
use super::mutex::Mutex;
use crate::{Acquire, Owner, Result, Token};

/// One lock on a majority of independent coordinators. As [`latchwork::QuorumLock`](crate::QuorumLock).
///
/// ```
/// use std::time::Duration;
/// use latchwork::blocking::{self, QuorumLock};
///
/// # fn main() -> latchwork::Result<()> {
/// let coordinators = ["east", "north", "west"].map(|name| format!("memory://{name}?name={name}&ttl=10s"));
/// let mut members = Vec::new();
/// for url in &coordinators {
///     members.push(blocking::connect(url)?.mutex("invoices")?);
/// }
/// let lock = QuorumLock::new(members, Duration::from_secs(10))?;
/// lock.initialize()?; // once, when the servers are new
/// let hold = lock.acquire()?;
/// println!("mine for {:?} more", hold.remaining());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct QuorumLock {
    recipe: crate::QuorumLock,
    members: Vec<Mutex>,
    // Of all members: guards keep each one's runtime too.
    home: Home,
}

impl QuorumLock {
    /// One lock on a majority of these members. As [`QuorumLock::new`](crate::QuorumLock::new).
    ///
    /// # Errors
    /// `InvalidArgument` naming `members`, `name` or `longest_ttl`.
    pub fn new(members: impl IntoIterator<Item = Mutex>, longest_ttl: Duration) -> Result<Self> {
        let members: Vec<_> = members.into_iter().collect();
        let recipe = crate::QuorumLock::new(members.iter().map(|member| member.recipe.clone()), longest_ttl)?;
        let home = Home::of_members(members.iter().map(|member| &member.home))?;
        Ok(Self { recipe, members, home })
    }

    verb! {
        QuorumLock, acquire() -> QuorumGuard;
        acquire_within, acquire_with;
        try_acquire, try_acquire_with;
        acquire_as, acquire_as_with, try_acquire_as, try_acquire_as_with;
    }

    /// Acquires, runs `work` under the hold, and releases it. Nothing stops the work at a loss. As
    /// [`QuorumLock::with_lock`](crate::QuorumLock::with_lock) otherwise.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); `Lost` behind work whose hold was lost; `Unknown` when the release
    /// was not confirmed.
    pub fn with_lock<T>(&self, work: impl FnOnce(&QuorumGuard) -> T) -> Result<T> {
        self.acquire()?.under(work)
    }

    forward! { QuorumLock:
        /// Declares that the servers are new.
        fn initialize() -> ();
        /// Deletes the markers, so that other members or another `longest_ttl` can be given.
        fn delete() -> ();
    }

    /// The members, in the order in which they were given.
    pub fn members(&self) -> &[Mutex] {
        &self.members
    }

    /// The key, as it was given.
    pub fn key(&self) -> &str {
        self.recipe.key()
    }

    /// The longest TTL of any client's lease.
    pub fn longest_ttl(&self) -> Duration {
        self.recipe.longest_ttl()
    }
}

shown!(QuorumLock);

/// A quorum's hold.
pub type QuorumGuard = Guard<crate::QuorumGuard>;

impl QuorumGuard {
    /// How long the acquisition took.
    pub fn waited(&self) -> Duration {
        self.hold.waited()
    }

    /// The tokens of the members that are held. As [`QuorumGuard::tokens`](crate::QuorumGuard::tokens).
    pub fn tokens(&self) -> Vec<Option<Token>> {
        self.hold.tokens()
    }
}
