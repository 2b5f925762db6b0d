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

/// A group: the live members, each with its data. The entry of a dead client disappears.
///
/// *Protocol.* A member is a node with its data in a queue that admits every node. No two members ever have
/// the same sequence number.
///
/// *When a member's lease is lost*, so is its membership: [`lost`](crate::Hold::lost) becomes ready, and the
/// member must join again. Other clients see that it left when the server has ended the lease.
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

    /// Joins the group. Other clients see `data`, up to 4,096 bytes. One round trip. Each call makes another
    /// member.
    ///
    /// # Errors
    /// * `InvalidArgument` (`data`): the data is too long.
    /// * `Lost`: the new member was removed during the call.
    /// * `Conflict`, `Misconfigured`, and the errors of [every call](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// A dropped join leaves no member.
    pub async fn join(&self, data: impl AsRef<[u8]>) -> Result<Membership> {
        let ask = Ask::new("join", Claim::Shared).saying(data.as_ref());
        let joined = Arc::clone(&self.handle).take(ask).await?;
        Ok(Membership(joined.expect("only a try is refused")))
    }

    /// Reads the current members in the order of joining. One round trip for each 500 members.
    ///
    /// # Errors
    /// The errors of [every call](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// The call only reads.
    pub async fn members(&self) -> Result<Vec<GroupMember>> {
        let entries = self.handle.list_all().await;
        self.handle.in_context("members", entries.map(|entries| members(&entries)))
    }

    /// Watches the members.
    ///
    /// # Errors
    /// As [`members`](Self::members). `Unavailable` comes within twice the request timeout.
    ///
    /// # Cancel safety
    /// A dropped call ends the watch.
    pub async fn watch(&self) -> Result<Watch<Vec<GroupMember>>> {
        let client = self.handle.client();
        let members = |entries: &Arc<[QueueEntry]>| Ok(members(entries));
        Watch::open(client, self.address(), client.watch_queue(self.address()), members).await
    }
}

addressed!(Group, self => self.handle.queue);

fn members(entries: &[QueueEntry]) -> Vec<GroupMember> {
    entries.iter().map(GroupMember::of).collect()
}

impl Membership {
    /// Replaces the member's data, up to 4,096 bytes. Retries for one TTL.
    ///
    /// # Errors
    /// * `InvalidArgument` (`data`): the data is too long.
    /// * `Lost`, `NotHeld`: as [`check`](crate::Hold::check).
    /// * The errors of [every call](crate::ErrorKind). `Unavailable`: the server refused the data, for
    ///   example because its memory is full.
    ///
    /// # Cancel safety
    /// A dropped call may still write its data, also later and over newer data.
    pub async fn update(&self, data: impl AsRef<[u8]>) -> Result<()> {
        write_data("update", self, data.as_ref()).await
    }
}
