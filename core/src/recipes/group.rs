//! Who is there.

use std::fmt;
use std::sync::Arc;

use super::acquire::Acquire;
use super::group_member::GroupMember;
use super::group_watch::{GroupWatch, members};
use super::node_data::write_data;
use super::queue_handle::{Acquired, QueueHandle};
use super::verb::Ask;
use crate::address::Address;
use crate::contracts::{Entry, Patience};
use crate::decide::Claim;
use crate::error::Result;
use crate::hold::{Hold, guard};
use crate::reentrancy::Owner;

/// A group: its members, with what each says of itself, as long as each lives.
///
/// *Protocol.* A member is a node in a queue that admits everybody, in the order of joining. What
/// the member says of itself is the node's data, sent with the join, which it may replace. Watches
/// of the group watch the queue, and read it when the server tells of a change: a join, new data, a
/// leave, or the end of a lease.
///
/// *Why it is safe.* Numbers of a queue rise for ever, so no two members have one, and none comes
/// twice. A member's data stands in its node: it goes with it, and a change that comes late reaches
/// no other member.
///
/// *When a member's lease is lost*, it is a member no more: [`lost`](Hold::lost) becomes ready, and
/// others see it go when the server has ended the lease. Join again.
///
/// *Source.* ZooKeeper's group membership; Curator's `GroupMember`.
///
/// ```
/// # use latchwork_core::{connect, Config, Release, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let workers = coordinator.group("workers")?;
/// let membership = workers.join(b"10.0.0.7:80").await?;
/// let mut watch = workers.watch().await?;
/// assert_eq!(&*watch.changed().await?[0].data, b"10.0.0.7:80");
///
/// membership.update(b"10.0.0.7:80 draining").await?;
/// let changes = watch.changes().await?;
/// assert_eq!(&*changes.changed[0].data, b"10.0.0.7:80 draining");
/// assert_eq!(membership.release().await?, Release::Released);
/// assert_eq!(watch.changes().await?.left[0].number, membership.number());
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Group {
    handle: QueueHandle,
}

impl GroupMember {
    pub(super) fn of(entry: &Entry) -> Self {
        let Entry { sequence, label, data, .. } = entry;
        Self { number: *sequence, label: label.clone(), data: Arc::clone(data) }
    }
}

impl Group {
    pub(crate) fn new(handle: QueueHandle) -> Self {
        Self { handle }
    }

    /// Joins, with what others are to see of it, up to 4,096 bytes. One round trip. A client may
    /// join several times: each is a member.
    ///
    /// # Errors
    /// `InvalidArgument` naming `data`; `Unavailable`; `Lost` when it was removed meanwhile;
    /// `Conflict`; `Forbidden`; `Misconfigured`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Cancel-safe: a dropped join leaves no member.
    pub async fn join(&self, data: &[u8]) -> Result<Membership> {
        self.enter(data, None).await
    }

    /// As [`join`](Self::join), by an owner, whose label others see.
    ///
    /// # Errors
    /// As [`join`](Self::join), and `InvalidArgument` naming `label` when the owner's is empty,
    /// longer than 4 KiB or has a control character.
    ///
    /// # Cancel safety
    /// As [`join`](Self::join).
    pub async fn join_as(&self, data: &[u8], owner: &Owner) -> Result<Membership> {
        self.enter(data, Some(owner)).await
    }

    async fn enter(&self, data: &[u8], owner: Option<&Owner>) -> Result<Membership> {
        let ask = Ask { operation: "join", owner, options: Acquire::new(), patience: Patience::Wait };
        let acquired = self.handle.with_data(ask, Claim::Shared, data).await?;
        let acquired = acquired.expect("only a try is refused");
        Ok(Membership { acquired, handle: self.handle.clone() })
    }

    /// The members now, in the order of joining. One round trip for each 500 of them.
    ///
    /// # Errors
    /// `Unavailable`; `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn members(&self) -> Result<Vec<GroupMember>> {
        let entries = self.handle.list_all().await;
        self.handle.in_context("members", entries.map(|entries| members(&entries)))
    }

    /// Watches the members, once the group was read.
    ///
    /// # Errors
    /// `Unavailable` when the server does not answer within twice the request timeout. Others as
    /// [`members`](Self::members).
    ///
    /// # Cancel safety
    /// A dropped call watches nothing.
    pub async fn watch(&self) -> Result<GroupWatch> {
        self.handle.in_context("watch", GroupWatch::open(&self.handle).await)
    }

    /// The key, as it was given.
    pub fn key(&self) -> &str {
        self.handle.queue.name()
    }

    /// The queue's address on the coordinator.
    pub fn address(&self) -> &Address {
        &self.handle.queue
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("address", &self.handle.queue).finish_non_exhaustive()
    }
}

/// A membership. Given up by [`release`](Hold::release), or in the background when it is dropped.
#[must_use = "a membership that is dropped at once is given up at once"]
pub struct Membership {
    acquired: Acquired,
    handle: QueueHandle,
}

impl Membership {
    /// Its number among the members. As [`GroupMember::number`].
    pub fn number(&self) -> u64 {
        self.acquired.held.token().sequence()
    }

    /// Replaces what others see of it, up to 4,096 bytes. Retries until it is confirmed or the
    /// membership is lost. One round trip.
    ///
    /// # Errors
    /// `InvalidArgument` naming `data`; `Lost` with the reason; `NotHeld` after a release;
    /// `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// A dropped call may or may not have been carried out, or be carried out late, over newer
    /// data. It is never seen of another member.
    pub async fn update(&self, data: &[u8]) -> Result<()> {
        let updated = write_data(self.handle.client(), self, data).await;
        self.handle.in_context("update", updated)
    }
}

guard!(Membership by acquired.held);

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Membership")
            .field("key", &self.key())
            .field("number", &self.number())
            .finish_non_exhaustive()
    }
}
