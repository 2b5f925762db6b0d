//! Who is there.

use std::sync::Arc;

use super::acquire::Take;
use super::ask::Ask;
use super::group_member::GroupMember;
use super::guards::Membership;
use super::handles::addressed;
use super::node_data::write_data;
use super::queue_handle::QueueHandle;
use super::watch::Watch;
use crate::contracts::QueueEntry;
use crate::decide::Claim;
use crate::error::Result;

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
/// *When a member's lease is lost*, it is a member no more: [`lost`](crate::Hold::lost) becomes ready, and
/// others see it go when the server has ended the lease. Join again.
///
/// *Source.* ZooKeeper's group membership; Curator's `GroupMember`.
///
/// ```
/// # use latchwork_core::{connect, Config, memory};
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
/// membership.release().await?;
/// assert_eq!(watch.changes().await?.left[0].sequence, membership.sequence());
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Group {
    handle: Arc<QueueHandle>,
}

impl GroupMember {
    pub(super) fn of(entry: &QueueEntry) -> Self {
        let QueueEntry { sequence, label, data, .. } = entry;
        Self { sequence: *sequence, label: label.clone(), data: Arc::clone(data) }
    }
}

impl Group {
    pub(crate) fn new(handle: QueueHandle) -> Self {
        Self { handle: Arc::new(handle) }
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
    pub async fn join(&self, data: impl AsRef<[u8]>) -> Result<Membership> {
        let ask = Ask::new("join", Claim::Shared).saying(data.as_ref());
        let joined = Arc::clone(&self.handle).take(ask).await?;
        Ok(Membership(joined.expect("only a try is refused")))
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
    pub async fn watch(&self) -> Result<Watch<Vec<GroupMember>>> {
        let client = self.handle.client();
        let members = |entries: &Arc<[QueueEntry]>| Ok(members(entries));
        Watch::open(client, self.address(), client.watch_queue(self.address()), members).await
    }
}

addressed!(Group, self => self.handle.queue);

/// The members in a queue.
fn members(entries: &[QueueEntry]) -> Vec<GroupMember> {
    entries.iter().map(GroupMember::of).collect()
}

impl Membership {
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
    pub async fn update(&self, data: impl AsRef<[u8]>) -> Result<()> {
        write_data("update", self, data.as_ref()).await
    }
}
