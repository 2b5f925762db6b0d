//! Several locks as one.

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
    /// Several locks as one. Validates, no I/O.
    ///
    /// # Errors
    /// `InvalidArgument` naming `members` when there are none, or when two are the same queue;
    /// naming `name` when two coordinators have the same [name](crate::Config::name), or none.
    pub fn new(members: impl IntoIterator<Item: Into<MultiMember>>) -> Result<Self> {
        let members = members.into_iter().map(Into::into).collect();
        MultiMembers::new(members).map(|members| Self(Arc::new(members)))
    }

    /// Waits until all are held, as long as others hold. By an [owner](Acquire::by), each mutex and
    /// read/write lock that the owner holds is entered again.
    ///
    /// # Errors
    /// As an acquisition of the member that failed, whose key the error names. Nothing stays
    /// held.
    ///
    /// # Cancel safety
    /// Cancel-safe: a dropped acquire leaves nothing in any queue, and gives its members back.
    pub fn acquire(&self) -> Acquire<MultiGuard> {
        Ask::new("acquire", Claim::Exclusive).of(self.0.clone())
    }

    /// Acquires all of them if each is free; never waits. `None` if one is not, and nothing
    /// stays held.
    ///
    /// # Errors
    /// As a try of the member that failed, whose key the error names. Nothing stays held.
    ///
    /// # Cancel safety
    /// Cancel-safe: leaves nothing in any queue.
    pub fn try_acquire(&self) -> Acquire<Option<MultiGuard>> {
        Ask::try_new("try_acquire", Claim::Exclusive).of(self.0.clone())
    }

    /// The members, in the order in which they were given.
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
