use std::fmt;
use std::sync::Arc;

use super::acquire::{Acquire, Acquiring, Take};
use super::ask::Ask;
use super::guards::MultiGuard;
use super::member::MultiMember;
use super::multi_gathering::Gathering;
use super::multi_members::MultiMembers;
use crate::decide::Claim;
use crate::error::Result;

/// Several locks, of any recipe, mode and coordinator, that are acquired as one: all or none.
///
/// *Protocol.* An acquisition tries all locks at the same time. If one is refused, it gives the others back
/// and waits for one after the other, in canonical order: by the name of the coordinator, then by kind and
/// key. One deadline covers all of it.
///
/// *Why it is safe.* An acquisition that waits holds only locks that come earlier in the order, so two never
/// wait for each other. But each coordinator needs the same [name](crate::Config::name) in all processes, and
/// a task must acquire all its locks by one `MultiLock`.
///
/// *When the lease of one lock is lost*, so is the whole hold: [`lost`](crate::Hold::lost) names the key, and
/// [`release`](crate::Hold::release) gives the other locks back. If this happens before all locks are held,
/// the acquisition starts again.
///
/// *Source.* A total order against deadlock: E. W. Dijkstra's dining philosophers (1971). Curator's
/// `InterProcessMultiLock` uses the order of the caller, so it can deadlock; `RedissonMultiLock` retries.
///
/// ```
/// # use latchwork_core::{connect, recipes::MultiLock, Config, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let (from, to) = (coordinator.mutex("account/7")?, coordinator.mutex("account/3")?);
/// let both = MultiLock::new([from, to])?;
/// let hold = both.acquire().await?;
/// let [Some(from), Some(to)] = hold.tokens()[..] else { unreachable!("two mutexes") }; // in the given order
/// println!("moving money with the fences {from} and {to}");
/// hold.release().await?;
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct MultiLock(Arc<MultiMembers>);

impl MultiLock {
    /// Combines several locks into one. No I/O.
    ///
    /// # Errors
    /// * `InvalidArgument` (`members`): the list is empty, or two members are the same lock.
    /// * `InvalidArgument` (`name`): two coordinators have the same [name](crate::Config::name), or no name.
    pub fn new(members: impl IntoIterator<Item: Into<MultiMember>>) -> Result<Self> {
        let members = members.into_iter().map(Into::into).collect();
        MultiMembers::new(members).map(|members| Self(Arc::new(members)))
    }

    /// Acquires all locks, and waits while other clients hold one of them. With an [owner](Acquire::by), the
    /// mutexes and read/write locks that the owner holds are entered again.
    ///
    /// # Errors
    /// * `InvalidArgument` (`members`): two members are one lock, under two names of its coordinator.
    /// * The errors of the member that failed, with its key. No lock remains held.
    pub fn acquire(&self) -> Acquire<MultiGuard> {
        Ask::new("acquire", Claim::Exclusive).of(self.0.clone())
    }

    /// Acquires all locks if each is free; otherwise returns `None` without waiting, and holds none.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), without `Timeout`.
    pub fn try_acquire(&self) -> Acquire<Option<MultiGuard>> {
        Ask::try_new("try_acquire", Claim::Exclusive).of(self.0.clone())
    }

    /// Returns the members in the order in which they were given.
    pub fn members(&self) -> &[MultiMember] {
        &self.0.members
    }
}

impl Take for MultiMembers {
    fn take(self: Arc<Self>, ask: Ask) -> Acquiring {
        Box::pin(async move {
            ask.check().map_err(|error| error.in_operation(ask.operation).on(&*self.name))?;
            Gathering::new(&self, ask).run().await
        })
    }

    fn key(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for MultiLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiLock").field("members", &self.0.members).finish_non_exhaustive()
    }
}
