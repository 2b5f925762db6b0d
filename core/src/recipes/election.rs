use std::ops::ControlFlow;
use std::sync::Arc;

use super::acquire::Acquire;
use super::ask::Ask;
use super::guards::Leadership;
use super::handles::addressed;
use super::leadership::Leader;
use super::node_data::write_data;
use super::queue_handle::QueueHandle;
use super::watch::Watch;
use crate::contracts::QueueEntry;
use crate::decide::Claim;
use crate::error::{ErrorKind, Result};
use crate::listing::Listing;
use crate::support::{Backoff, Pauses};

/// An election: one of the candidates leads at a time, and all clients can see the leader.
///
/// *Protocol.* Candidates join a queue with their data, as for a [`Mutex`](super::Mutex), and lead in that
/// order. The leader is the first node of the queue. Its sequence number is the term: the fencing token,
/// which rises from leader to leader.
///
/// *When the lease is lost*, so is leadership: [`lost`](crate::Hold::lost) becomes ready, and
/// [`check`](crate::Hold::check) fails. A paused leader can work next to its successor for a moment: send the
/// [`token`](super::Fenced::token) with each write, or use
/// [`SharedValue::write_while`](super::SharedValue::write_while). A candidate joins again automatically.
///
/// *With other programs.* At an [exact key](crate::Key::exact), candidates share a queue and data with
/// Curator's `LeaderLatch` on ZooKeeper, and with the `Election` of Go's `concurrency` on etcd. The nodes
/// there contain no label, and on ZooKeeper the data cannot change.
///
/// *Source.* Leader election of the ZooKeeper recipes; Curator's `LeaderLatch` and
/// `LeaderSelector` ([`lead`](Election::lead)); etcd's `concurrency.Election`.
///
/// ```
/// # use latchwork_core::{connect, Config, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let election = coordinator.election("scheduler")?;
/// let mut watch = election.watch().await?;
/// assert_eq!(watch.changed().await?, None);
///
/// let leader = election.campaign(b"10.0.0.7:80").await?;
/// let seen = watch.changed().await?.expect("it leads");
/// assert_eq!((seen.term, &*seen.data), (leader.token(), &b"10.0.0.7:80"[..]));
/// leader.release().await?; // at once: no candidate waits for a lease
/// assert_eq!(watch.changed().await?, None);
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Election {
    handle: Arc<QueueHandle>,
}

impl Election {
    pub(crate) fn new(handle: QueueHandle) -> Self {
        Self { handle: Arc::new(handle) }
    }

    /// Joins as a candidate, and waits until the candidate leads. Other clients see `data`, up to 4,096
    /// bytes.
    ///
    /// # Errors
    /// * `InvalidArgument` (`data`): the data is too long.
    /// * The errors of [`Mutex::acquire`](super::Mutex::acquire).
    pub fn campaign(&self, data: impl AsRef<[u8]>) -> Acquire<Leadership> {
        Ask::new("campaign", Claim::Exclusive).saying(data.as_ref()).of(self.handle.clone())
    }

    /// Becomes the leader if there is no leader and no candidate; otherwise returns `None` without waiting.
    ///
    /// # Errors
    /// As [`campaign`](Self::campaign), without `Timeout`.
    pub fn try_campaign(&self, data: impl AsRef<[u8]>) -> Acquire<Option<Leadership>> {
        Ask::try_new("try_campaign", Claim::Exclusive).saying(data.as_ref()).of(self.handle.clone())
    }

    /// Campaigns in a loop: becomes the leader, runs `work`, resigns. Returns when `work` returns `Break`.
    /// After `Continue`, a loss of leadership or an outage, it joins again at the end of the queue. A loss
    /// drops the work.
    ///
    /// # Errors
    /// As [`campaign`](Self::campaign), without `Lost`. `Unavailable` only if a client that [connects
    /// lazily](crate::connect_lazy) has not connected yet.
    ///
    /// # Cancel safety
    /// A dropped call resigns, also if other code still has the `Arc` of the guard.
    pub async fn lead<T, F: Future<Output = ControlFlow<T>>>(
        &self,
        data: impl AsRef<[u8]>,
        mut work: impl FnMut(Arc<Leadership>) -> F,
    ) -> Result<T> {
        let client = self.handle.client();
        let mut pauses = Backoff::new(Pauses::OUTAGE);
        loop {
            let leader = match self.campaign(&data).await {
                Err(error) if matches!(error.kind(), ErrorKind::Lost(_)) => continue,
                Err(error) if error.may_pass() && client.is_connected() => {
                    tracing::debug!(%error, key = self.key(), "an outage: the candidate joins again");
                    pauses.wait(&client.clock()).await;
                    continue;
                }
                leader => Arc::new(leader?),
            };
            pauses.reset();
            let resigns = Resigns(&leader);
            let done = leader.run(work(Arc::clone(&leader))).await;
            if let Err(error) = leader.release().await
                && error.lost_reason().is_none()
            {
                tracing::debug!(%error, "the server did not confirm the resignation; the leadership ends with the lease");
            }
            drop(resigns);
            if let Ok(ControlFlow::Break(done)) = done {
                return Ok(done);
            }
        }
    }

    /// Reads the current leader, if there is one. One round trip.
    ///
    /// # Errors
    /// * `Misconfigured`: the leader's sequence number does not fit into a term.
    /// * The errors of [every call](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// The call only reads.
    pub async fn leader(&self) -> Result<Option<Leader>> {
        let head = self.handle.list(0, 1).await;
        self.handle.in_context("leader", head.and_then(|head| self.handle.leading(&head)))
    }

    /// Watches the leader: each leader, each proclamation, and each time without a leader.
    ///
    /// # Errors
    /// As [`leader`](Self::leader). `Unavailable` comes within twice the request timeout.
    ///
    /// # Cancel safety
    /// A dropped call ends the watch.
    #[doc(alias = "observe")]
    pub async fn watch(&self) -> Result<Watch<Option<Leader>>> {
        let (client, handle) = (self.handle.client(), Arc::clone(&self.handle));
        let leader = move |head: &Arc<[QueueEntry]>| handle.leading(head);
        Watch::open(client, self.address(), client.watch_queue(self.address()), leader).await
    }

    /// Lists the leader and the candidates in queue order, with their data.
    pub fn queue(&self) -> Listing<QueueEntry> {
        self.handle.listing()
    }

    /// Removes a leader or a candidate, as [`Mutex::force_release`](super::Mutex::force_release).
    pub async fn force_release(&self, sequence: u64) -> Result<bool> {
        self.handle.force_release(sequence).await
    }
}

addressed!(Election, self => self.handle.queue);

/// Resigns when it is dropped, also if other code still has the leader's `Arc`.
struct Resigns<'a>(&'a Leadership);

impl Drop for Resigns<'_> {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

impl Leadership {
    /// Replaces the leader's data, up to 4,096 bytes. Retries for one TTL.
    ///
    /// # Errors
    /// * `InvalidArgument` (`data`): the data is too long.
    /// * `Lost`, `NotHeld`: as [`check`](crate::Hold::check).
    /// * `Unsupported`: at an exact address on ZooKeeper, where Curator's candidates would fail.
    /// * The errors of [every call](crate::ErrorKind). `Unavailable`: the server refused the data, for
    ///   example because its memory is full.
    ///
    /// # Cancel safety
    /// A dropped call may still write its data, also later and over newer data.
    pub async fn proclaim(&self, data: impl AsRef<[u8]>) -> Result<()> {
        write_data("proclaim", self, data.as_ref()).await
    }
}
