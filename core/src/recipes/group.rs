//! Who is there.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::Stream;

use super::acquire::Acquire;
use super::cell_handle::CellHandle;
use super::cell_watch::ValueWatch;
use super::queue_handle::{Acquired, QueueHandle};
use super::verb::Ask;
use crate::address::Address;
use crate::contracts::{AskedLimit, CellLife, CellWrite, Entry, Expected, NodeId, Patience};
use crate::decide::{Claim, renewal_period};
use crate::error::Result;
use crate::held_node::HeldNode;
use crate::hold::{Hold, Release, Tenure, own_methods};

/// So many members are read at a time.
const PAGE: usize = 500;

/// A group: its members, with what each says of itself, as long as each lives.
///
/// *Protocol.* A member is a place in a queue that admits everybody, in the order of joining, with
/// the member's data as its label. Who joins or leaves says so in a cell, which the group's watches
/// follow: whoever hears of it reads the queue again. They also read it once in a third of a TTL,
/// since nobody tells of a death.
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
/// let membership = workers.join("10.0.0.7:80").await?;
/// let mut watch = workers.watch().await?;
/// assert_eq!(watch.changed().await?[0].data, "10.0.0.7:80");
/// assert_eq!(membership.release().await?, Release::Released);
/// assert!(watch.changed().await?.is_empty());
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Group {
    handle: QueueHandle,
    // Written when somebody joins or leaves.
    news: CellHandle,
}

/// A member, as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// Its number: members that join later have higher ones, and none comes twice.
    pub number: u64,
    /// What it said of itself.
    pub data: String,
}

impl Group {
    pub(crate) fn new(handle: QueueHandle, news: CellHandle) -> Self {
        Self { handle, news }
    }

    /// Joins, with what others are to see: one line of text, 1 to 4,096 bytes. One round trip, and
    /// one that tells the others. It may join several times: each is a member.
    ///
    /// # Errors
    /// `InvalidArgument` naming `label` for data that is none; `Unavailable`; `Lost` when it was
    /// removed meanwhile; `Conflict`; `Forbidden`; `Misconfigured`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Cancel-safe: a dropped join leaves no member.
    pub async fn join(&self, data: &str) -> Result<Membership> {
        let options = Acquire::new().label(data);
        let ask = Ask { operation: "join", owner: None, options, patience: Patience::Wait };
        let acquired = self.handle.alone(ask, Claim::Shared, AskedLimit::Stored).await?;
        let membership = Membership { acquired, group: self.clone() };
        self.tell(false).await;
        Ok(membership)
    }

    /// The members now, in the order of joining.
    ///
    /// # Errors
    /// `Unavailable`; `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn members(&self) -> Result<Vec<GroupMember>> {
        let mut members: Vec<GroupMember> = Vec::new();
        loop {
            let after = members.last().map_or(0, |member| member.number);
            let page = self.handle.list(after, PAGE).await?;
            let is_last = page.len() < PAGE;
            members.extend(page.into_iter().map(GroupMember::from));
            if is_last {
                return Ok(members);
            }
        }
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
        let watch = self.news.in_context("watch", ValueWatch::open(&self.news).await)?;
        Ok(GroupWatch { group: self.clone(), watch, answered: None })
    }

    /// Tells the watches that somebody joined or left; the last to leave takes the cell along. What
    /// fails is seen by their next look.
    async fn tell(&self, left: bool) {
        let told = async {
            let is_empty = left && self.handle.list(0, 1).await?.is_empty();
            // Any new value does.
            let value = (!is_empty).then(|| NodeId::random().to_string().into_bytes().into());
            self.news.write(&CellWrite { expected: Expected::Any, value, life: CellLife::Stays }).await
        };
        if let Err(error) = told.await {
            tracing::debug!(%error, "the members are seen by the next look of those who watch");
        }
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

impl From<Entry> for GroupMember {
    fn from(entry: Entry) -> Self {
        Self { number: entry.sequence, data: entry.label }
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
    // `None` while it is dropped only.
    acquired: Option<Acquired>,
    group: Group,
}

impl Membership {
    /// Its number among the members. As [`GroupMember::number`].
    pub fn number(&self) -> u64 {
        self.held().token().sequence()
    }

    fn held(&self) -> &HeldNode {
        &self.acquired.as_ref().expect("there until it is dropped").held
    }
}

#[async_trait]
impl Hold for Membership {
    fn tenures(&self) -> &[Arc<Tenure>] {
        std::slice::from_ref(self.held().tenure())
    }

    async fn release(&self) -> Result<Release> {
        let released = self.held().release().await;
        self.group.tell(true).await;
        released
    }
}

own_methods!(Membership);

impl Drop for Membership {
    fn drop(&mut self) {
        // Told after a release. Else nobody waits for the news, which a look replaces; but the last
        // one is to leave nothing behind.
        if !self.is_held() {
            return;
        }
        let group = self.group.clone();
        self.group.handle.leave_and_then(self.acquired.take(), async move { group.tell(true).await });
    }
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Membership")
            .field("key", &self.key())
            .field("number", &self.number())
            .finish_non_exhaustive()
    }
}

/// The members of a group, as they change. All watches of one group on one client share the watch
/// of its cell.
#[must_use = "a watch that is dropped at once sees nothing"]
pub struct GroupWatch {
    group: Group,
    watch: ValueWatch,
    // What `changed` answered last.
    answered: Option<Vec<GroupMember>>,
}

impl GroupWatch {
    /// Waits until there are other members than in the last answer, and answers all of them in the
    /// order of joining. The first call answers at once. What comes and goes while nobody asks is
    /// skipped. A death is seen within a third of this client's TTL after the server has ended the
    /// lease.
    ///
    /// # Errors
    /// `Lost` with the reason `Forgotten` when the server is without its data; `Forbidden`;
    /// `Closed`; `RuntimeGone`. An outage is waited out.
    ///
    /// # Cancel safety
    /// Cancel-safe: the next call answers what a dropped one has not.
    pub async fn changed(&mut self) -> Result<Vec<GroupMember>> {
        let changed = self.next().await;
        self.group.news.in_context("watch", changed)
    }

    async fn next(&mut self) -> Result<Vec<GroupMember>> {
        let client = self.group.news.client.clone();
        let clock = client.clock();
        loop {
            self.watch.glance()?;
            match self.group.members().await {
                Ok(members) if self.answered.as_ref() != Some(&members) => {
                    self.answered = Some(members.clone());
                    return Ok(members);
                }
                Err(error) if !error.is_retryable() => return Err(error),
                Ok(_) | Err(_) => {}
            }
            let look_at = clock.now() + renewal_period(client.lease().ttl());
            tokio::select! {
                news = self.watch.news() => news?,
                () = clock.sleep_until(look_at) => {}
            }
        }
    }

    /// The answers of [`changed`](Self::changed) as a stream, which ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Vec<GroupMember>>> + Send {
        futures_util::stream::unfold(Some(self), |watch| async {
            let mut watch = watch?;
            let next = watch.changed().await;
            let rest = next.is_ok().then_some(watch);
            Some((next, rest))
        })
    }
}

impl fmt::Debug for GroupWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupWatch").field("group", &self.group).finish_non_exhaustive()
    }
}
