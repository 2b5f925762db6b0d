//! Leader election.

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

/// An election: of all candidates one leads at a time, and everybody can see which.
///
/// *Protocol.* Candidates stand in a queue, as those who want a mutex do, and lead in the order of
/// their coming. What a candidate says of itself is its node's data, sent with its join. The
/// admitted head of the queue leads, and its sequence number is the term. The leader may replace its
/// data; a [watch](Self::watch) of the queue shows its head. There is nothing else: no announcement that
/// may be missing or out of date, and nothing stays when the candidates have gone.
///
/// *Why it is safe.* The queue admits one node at a time. A term is the fencing token of the
/// leader's node: no two leaders have one term, and terms rise. Data stands in the node itself: it
/// goes with it, and a proclamation that comes late reaches no other.
///
/// *When the lease is lost*, leadership is lost: [`lost`](crate::Hold::lost) becomes ready,
/// [`check`](crate::Hold::check) answers `Lost`, and another candidate leads. As with every lease lock, a
/// paused leader can work on for a moment beside its successor: send
/// [`token`](super::Fenced::token) with each write, or write by
/// [`SharedValue::write_while`](super::SharedValue::write_while). A candidate that loses its lease
/// stands again by itself, behind the others.
///
/// *With other programs.* At an [exact key](crate::Key::exact) on ZooKeeper an election is
/// Curator's `LeaderLatch`, on etcd the `Election` of Go's `concurrency`: candidates of both stand
/// in one queue, and read each other's data. Labels are not shown there, since the node holds the
/// data alone; a candidate of `LeaderLatch` keeps the data that it joined with.
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

    /// Joins as a candidate, and waits until it leads. Others see `data`, up to 4,096 bytes. As
    /// [`Mutex::acquire`](super::Mutex::acquire) otherwise: one round trip if the election is free.
    ///
    /// # Errors
    /// `InvalidArgument` naming `data`. Others as [`Mutex::acquire`](super::Mutex::acquire).
    ///
    /// # Cancel safety
    /// Cancel-safe: a dropped campaign leaves nothing in the queue, and leads no more.
    pub fn campaign(&self, data: impl AsRef<[u8]>) -> Acquire<Leadership> {
        Ask::new("campaign", Claim::Exclusive).saying(data.as_ref()).of(self.handle.clone())
    }

    /// Leads if there is no leader and no candidate; never waits. `None` if there is one. As
    /// [`Mutex::try_acquire`](super::Mutex::try_acquire) otherwise.
    ///
    /// # Errors
    /// As [`campaign`](Self::campaign) and
    /// [`Mutex::try_acquire`](super::Mutex::try_acquire).
    ///
    /// # Cancel safety
    /// Cancel-safe: leaves nothing in the queue.
    pub fn try_campaign(&self, data: impl AsRef<[u8]>) -> Acquire<Option<Leadership>> {
        Ask::try_new("try_campaign", Claim::Exclusive).saying(data.as_ref()).of(self.handle.clone())
    }

    /// Leads again and again: stands, does `work` as the leader, resigns. Ends when the work breaks;
    /// while it continues, or when leadership was lost under it, it stands again, behind the other
    /// candidates. Work is dropped when leadership is lost.
    ///
    /// # Errors
    /// As [`campaign`](Self::campaign), when it could not stand.
    ///
    /// # Cancel safety
    /// Cancel-safe: leads no more, whoever has kept the leader.
    pub async fn lead<T, F: Future<Output = ControlFlow<T>>>(
        &self,
        data: impl AsRef<[u8]>,
        mut work: impl FnMut(Arc<Leadership>) -> F,
    ) -> Result<T> {
        loop {
            let leader = match self.campaign(&data).await {
                Err(error) if matches!(error.kind(), ErrorKind::Lost(_)) => continue,
                leader => Arc::new(leader?),
            };
            let resigns = Resigns(&leader);
            let done = leader.run(work(Arc::clone(&leader))).await;
            if let Err(error) = leader.release().await
                && error.lost_reason().is_none()
            {
                tracing::debug!(%error, "the resignation is not confirmed; the lease ends it");
            }
            drop(resigns);
            if let Ok(ControlFlow::Break(done)) = done {
                return Ok(done);
            }
        }
    }

    /// Who leads now. One round trip.
    ///
    /// # Errors
    /// `Unavailable`; `Misconfigured` when its sequence number does not fit a term; `Forbidden`;
    /// `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn leader(&self) -> Result<Option<Leader>> {
        let head = self.handle.list(0, 1).await;
        self.handle.in_context("leader", head.and_then(|head| self.handle.leading(&head)))
    }

    /// Watches the leader, once it was read. It shows every leader, every proclamation and every gap that
    /// lasts.
    ///
    /// # Errors
    /// `Unavailable` when the server does not answer within twice the request timeout. Others as
    /// [`leader`](Self::leader).
    ///
    /// # Cancel safety
    /// A dropped call watches nothing.
    #[doc(alias = "observe")]
    pub async fn watch(&self) -> Result<Watch<Option<Leader>>> {
        let (client, handle) = (self.handle.client(), Arc::clone(&self.handle));
        let leader = move |head: &Arc<[QueueEntry]>| handle.leading(head);
        Watch::open(client, self.address(), client.watch_queue(self.address()), leader).await
    }

    /// The leader and the candidates, in order and with their data: no I/O.
    pub fn queue(&self) -> Listing<QueueEntry> {
        self.handle.listing()
    }

    /// Removes any client's leader or candidate: for operators. As
    /// [`Mutex::force_release`](super::Mutex::force_release).
    ///
    /// # Errors
    /// `Unavailable`; `OutcomeUnknown` when it may have been carried out (harmless to repeat);
    /// `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// A dropped call may or may not have been carried out.
    pub async fn force_release(&self, sequence: u64) -> Result<bool> {
        self.handle.force_release(sequence).await
    }
}

addressed!(Election, self => self.handle.queue);

/// Gives leadership up when it is dropped, whoever has kept the leader.
struct Resigns<'a>(&'a Leadership);

impl Drop for Resigns<'_> {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

impl Leadership {
    /// Replaces what others see of it, up to 4,096 bytes. Retries until it is confirmed or
    /// leadership is lost.
    ///
    /// # Errors
    /// `InvalidArgument` naming `data`; `Lost` with the reason; `NotHeld` after a resignation;
    /// `Unsupported` at an exact address on ZooKeeper, where Curator's candidates would not bear it;
    /// `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// A dropped call may or may not have been carried out, or be carried out late, over newer
    /// data. It is never seen of another leader.
    pub async fn proclaim(&self, data: impl AsRef<[u8]>) -> Result<()> {
        write_data("proclaim", self, data.as_ref()).await
    }
}
