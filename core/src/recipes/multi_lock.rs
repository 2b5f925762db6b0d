//! Several locks as one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::acquire::Acquire;
use super::member::Member;
use super::multi_gathering::Gathering;
use super::multi_guard::MultiGuard;
use super::multi_members::MultiMembers;
use super::under::under;
use super::verb::{Ask, verb};
use crate::contracts::Patience;
use crate::error::Result;
use crate::reentrancy::Owner;

/// Several locks, of any recipe, mode and coordinator, as one: all are held, or none.
///
/// *Protocol.* An acquisition tries all locks at once, without waiting. If one is refused, it gives
/// the others back, and waits for one lock after the other in canonical order: by the name of the
/// coordinator, then by kind and key of the address. A deadline covers all of it.
///
/// *Why it is safe.* Each lock excludes as it does alone. No two acquisitions wait for each other:
/// one that waits holds only locks that stand before the awaited one in the order, and a try waits
/// for nothing. The order is the same in every process if each coordinator has the same
/// [name](crate::Config::name) in all of them. It says nothing about a lock that the same task
/// holds by another guard: acquire all of them here.
///
/// *When the lease of one is lost*, the whole hold is lost: [`lost`](crate::Hold::lost) becomes ready and
/// names the key, and [`release`](crate::Hold::release) gives the others back. If it happens before all
/// are held, the acquisition gives the others back and begins again.
///
/// *Source.* A total order against deadlock: E. W. Dijkstra's dining philosophers (1971). Curator's
/// `InterProcessMultiLock` acquires in the order that the caller gives, and leaves deadlocks to the
/// caller; `RedissonMultiLock` gives all back after a time, and tries again.
///
/// ```
/// # use latchwork_core::{connect, recipes::{Member, MultiLock}, Config, Release, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let (from, to) = (coordinator.mutex("account/7")?, coordinator.mutex("account/3")?);
/// let both = MultiLock::new([from.into(), to.into()])?;
/// let hold = both.acquire().await?;
/// let [from, to] = hold.tokens()[..] else { unreachable!("two members") }; // in the given order
/// println!("moving money with the fences {from} and {to}");
/// assert_eq!(hold.release().await?, Release::Released);
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct MultiLock(Arc<MultiMembers>);

impl MultiLock {
    /// Several locks as one. Validates, no I/O.
    ///
    /// # Errors
    /// `InvalidArgument` naming `members` when there are none, or when two are the same queue;
    /// naming `name` when two coordinators have the same [name](crate::Config::name), or none.
    pub fn new(members: impl IntoIterator<Item = Member>) -> Result<Self> {
        MultiMembers::new(members.into_iter().collect()).map(|members| Self(Arc::new(members)))
    }

    verb! {
        /// Waits until all are held, without a deadline, as long as others hold.
        ///
        /// # Errors
        /// As an acquisition of the member that failed, whose key the error names. Nothing stays
        /// held.
        ///
        /// # Cancel safety
        /// Cancel-safe: a dropped acquire leaves nothing in any queue, and gives back what it held.
        acquire() -> MultiGuard, by take;
        acquire_within, acquire_with;
        /// Acquires all of them if each is free; never waits. `Ok(None)` if one is not, and nothing
        /// stays held.
        ///
        /// # Errors
        /// As a try of the member that failed, whose key the error names. Nothing stays held.
        ///
        /// # Cancel safety
        /// Cancel-safe: leaves nothing in any queue.
        try_acquire, try_acquire_with;
        /// Each member is acquired by this owner, as its recipe does that: a reentrant mutex or a
        /// read/write lock that the owner holds is entered again.
        ///
        /// # Errors
        /// As [`acquire`](Self::acquire), and `InvalidArgument` naming `label` when the owner's is
        /// empty, longer than 4 KiB or has a control character.
        ///
        /// # Cancel safety
        /// As [`acquire`](Self::acquire).
        acquire_as, acquire_as_with, try_acquire_as, try_acquire_as_with;
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
    pub async fn with_lock<T>(&self, work: impl AsyncFnOnce(&MultiGuard) -> T) -> Result<T> {
        under(self.acquire().await?, work).await
    }

    /// The members, in the order in which they were given.
    pub fn members(&self) -> &[Member] {
        self.0.all()
    }

    async fn take(&self, ask: Ask<'_>) -> Result<Option<MultiGuard>> {
        ask.options.check().map_err(|error| error.in_operation(ask.operation).on(self.0.name()))?;
        Gathering::new(&self.0, ask).run().await
    }
}

impl fmt::Debug for MultiLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiLock").field("members", &self.0.all()).finish_non_exhaustive()
    }
}
