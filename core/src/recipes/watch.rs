use std::fmt;
use std::sync::Arc;

use futures_util::Stream;
use futures_util::future::BoxFuture;

use super::group_changes::GroupChanges;
use super::group_member::GroupMember;
use super::watcher::Watcher;
use crate::address::Address;
use crate::client::Client;
use crate::error::Result;
use crate::watched::Watched;

/// A live view of a state: `Watch<Option<Leader>>` of an election, `Watch<Vec<GroupMember>>` of a group,
/// `Watch<Option<VersionedValue>>` of a value.
///
/// The latest state always arrives, and versions and terms only rise. A slow reader skips states in between.
/// The client reads the state after each change, after each new connection, and at least once a TTL.
///
/// A watch does not depend on the lease, and a drop ends it. A clone continues independently from the same
/// last answer.
///
/// ```
/// # use latchwork_core::{connect, Config, Result, memory};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let limits = coordinator.shared_value("limits")?;
/// let mut watch = limits.watch().await?;
/// assert!(watch.changed().await?.is_none()); // the first call answers at once
/// limits.write("10").await?;
/// assert_eq!(&*watch.changed().await?.expect("written").value, b"10");
/// # coordinator.close().await }
/// ```
#[must_use = "a watch that is dropped at once sees nothing"]
#[derive(Clone)]
pub struct Watch<T> {
    address: Address,
    source: Box<dyn WatchSource<T>>,
    answered: Option<T>,
}

trait WatchSource<T>: Send + Sync {
    fn latest(&self) -> Result<T>;
    fn is_current(&self) -> bool;
    /// Waits until the state differs from the last answer.
    fn next<'a>(&'a mut self, answered: &'a mut Option<T>) -> BoxFuture<'a, Result<T>>;
    fn boxed_clone(&self) -> Box<dyn WatchSource<T>>;
}

impl<T> Clone for Box<dyn WatchSource<T>> {
    fn clone(&self) -> Self {
        (**self).boxed_clone()
    }
}

#[derive(Clone)]
struct Read<S, F> {
    watcher: Watcher<S>,
    read: F,
}

impl<T, S, F> WatchSource<T> for Read<S, F>
where
    T: Clone + PartialEq + Send + Sync + 'static,
    S: Clone + Send + Sync + 'static,
    F: Fn(&S) -> Result<T> + Clone + Send + Sync + 'static,
{
    fn latest(&self) -> Result<T> {
        self.watcher.latest().and_then(|state| (self.read)(&state))
    }

    fn is_current(&self) -> bool {
        self.watcher.is_current()
    }

    fn next<'a>(&'a mut self, answered: &'a mut Option<T>) -> BoxFuture<'a, Result<T>> {
        let Self { watcher, read, .. } = self;
        Box::pin(watcher.next(answered, move |state| read(state)))
    }

    fn boxed_clone(&self) -> Box<dyn WatchSource<T>> {
        Box::new(self.clone())
    }
}

impl<T: Clone + PartialEq + Send + Sync + 'static> Watch<T> {
    pub(super) async fn open<S: Clone + Send + Sync + 'static>(
        client: &Arc<Client>,
        address: &Address,
        watched: Arc<Watched<S>>,
        read: impl Fn(&S) -> Result<T> + Clone + Send + Sync + 'static,
    ) -> Result<Self> {
        let watcher = Watcher::open(client, watched).await;
        let watcher = watcher.map_err(|error| error.in_operation("watch").on(address.name()))?;
        let source = Box::new(Read { watcher, read });
        Ok(Self { address: address.clone(), source, answered: None })
    }

    /// Returns the last known state, without a request. During an outage it may be old
    /// ([`is_current`](Self::is_current)).
    ///
    /// # Errors
    /// The reason why the watch has ended.
    /// * `Lost` (`Forgotten`): the server lost its data.
    /// * `Closed`, `Forbidden`, `Conflict`, `Misconfigured`.
    pub fn latest(&self) -> Result<T> {
        self.source.latest()
    }

    /// Returns whether the watch on the server works now. `false` during an outage.
    pub fn is_current(&self) -> bool {
        self.source.is_current()
    }

    /// Waits until the state differs from the last answer, and returns it. The first call returns at once. It
    /// also waits during an outage.
    ///
    /// # Errors
    /// As [`latest`](Self::latest), and `RuntimeGone`.
    ///
    /// # Cancel safety
    /// A dropped call loses no change: the next call returns it.
    pub async fn changed(&mut self) -> Result<T> {
        let next = self.source.next(&mut self.answered).await;
        next.map_err(|error| error.in_operation("watch").on(self.address.name()))
    }

    /// Returns the answers of [`changed`](Self::changed) as a stream, which ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<T>> + Send {
        futures_util::stream::unfold(Some(self), |watch| async move {
            let mut watch = watch?;
            let answer = watch.changed().await;
            let rest = answer.is_ok().then_some(watch);
            Some((answer, rest))
        })
    }
}

impl Watch<Vec<GroupMember>> {
    /// Waits as [`changed`](Self::changed), and returns the differences from the last answer of either
    /// method. The first call has all members in `joined`.
    ///
    /// # Errors and cancel safety
    /// As [`changed`](Self::changed).
    pub async fn changes(&mut self) -> Result<GroupChanges> {
        let before = self.answered.clone().unwrap_or_default();
        let now = self.changed().await?;
        Ok(GroupChanges::between(&before, &now))
    }
}

impl<T: fmt::Debug> fmt::Debug for Watch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("address", &self.address)
            .field("answered", &self.answered)
            .finish_non_exhaustive()
    }
}
