//! Leader election.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::acquire::Acquire;
use super::cell_handle::CellHandle;
use super::leadership::{Leading, MAX_DATA_BYTES, stands};
use super::observer::Observer;
use super::queue_handle::{Acquired, QueueHandle};
use super::verb::{Ask, verb};
use crate::address::Address;
use crate::contracts::{AskedLimit, CellLife, CellWrite, CellWritten, Entry, Expected, Patience, Version};
use crate::decide::Claim;
use crate::error::{Error, ErrorKind, Result};
use crate::hold::{Fenced, Hold, Release, Tenure, own_methods};
use crate::reentrancy::Owner;
use crate::support::Backoff;
use crate::token::Token;

/// An election: of all candidates one leads at a time, and everybody can see which.
///
/// *Protocol.* Candidates stand in a queue, as those who want a mutex do, and lead in the order of
/// their coming. Who is admitted writes its term and its data into a cell, under the condition that
/// it still leads (CELL-HELD), and only then answers. Observers watch that cell. They also look
/// once in a third of a TTL whether the leader that it names still stands, which nobody tells them
/// when it dies and nobody follows.
///
/// *Why it is safe.* A term is the fencing token of the leader's place in the queue: no two leaders
/// have one term, and terms rise. The cell names only who leads, or who led until a moment ago: the
/// server refuses the write of a leader of the past.
///
/// *When the lease is lost*, leadership is lost: [`lost`](Hold::lost) becomes ready,
/// [`check`](Hold::check) answers `Lost`, and another candidate leads. As with every lease lock, a
/// paused leader can work on for a moment beside its successor: send
/// [`token`](Fenced::token) with what it writes.
///
/// *Source.* Curator's `LeaderLatch` and `LeaderSelector` ([`lead`](Election::lead)); etcd's
/// `concurrency.Election`.
///
/// ```
/// # use latchwork_core::{connect, Config, Release, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let election = coordinator.election("scheduler")?;
/// let mut observer = election.observe().await?;
/// assert_eq!(observer.changed().await?, None);
///
/// let leader = election.campaign(b"10.0.0.7:80").await?;
/// let seen = observer.changed().await?.expect("it leads");
/// assert_eq!((seen.term, &*seen.data), (leader.token(), &b"10.0.0.7:80"[..]));
/// assert_eq!(leader.resign().await?, Release::Released); // at once: no candidate waits for a lease
/// assert_eq!(observer.changed().await?, None);
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Election {
    handle: QueueHandle,
    // Names the leader.
    cell: CellHandle,
}

impl Election {
    pub(crate) fn new(handle: QueueHandle, cell: CellHandle) -> Self {
        Self { handle, cell }
    }

    verb! {
        /// Stands as a candidate, and waits until it leads; `data` is what observers see of the
        /// leader, up to 4,000 bytes. As [`Mutex::acquire`](super::Mutex::acquire) otherwise, with
        /// one round trip more for the announcement.
        ///
        /// # Errors
        /// `InvalidArgument` naming `data`; `Lost` when leadership was lost before it was
        /// announced. Others as [`Mutex::acquire`](super::Mutex::acquire).
        ///
        /// # Cancel safety
        /// Cancel-safe: a dropped campaign leaves nothing in the queue, and leads no more.
        campaign(data: &[u8]) -> Leader, by take;
        campaign_within, campaign_with;
        /// Leads if nobody leads or stands; never waits. `Ok(None)` if somebody does. As
        /// [`Mutex::try_acquire`](super::Mutex::try_acquire) otherwise.
        ///
        /// # Errors
        /// As [`campaign`](Self::campaign) and
        /// [`Mutex::try_acquire`](super::Mutex::try_acquire).
        ///
        /// # Cancel safety
        /// Cancel-safe: leaves nothing in the queue.
        try_campaign, try_campaign_with;
        /// Listings show the owner's label.
        ///
        /// # Errors
        /// As [`campaign`](Self::campaign), and `InvalidArgument` naming `label` when the owner's is
        /// empty, longer than 4 KiB or has a control character.
        ///
        /// # Cancel safety
        /// As [`campaign`](Self::campaign).
        campaign_as, campaign_as_with, try_campaign_as, try_campaign_as_with;
    }

    async fn take(&self, data: &[u8], ask: Ask<'_>) -> Result<Option<Leader>> {
        let operation = ask.operation;
        self.cell.in_context(operation, check_data(data))?;
        let Some(acquired) = self.handle.alone(ask, Claim::Exclusive, AskedLimit::Stored).await? else {
            return Ok(None);
        };
        let leader = Leader { acquired: Some(acquired), election: self.clone(), announced: Mutex::default() };
        self.cell.in_context(operation, leader.announce(data).await)?;
        Ok(Some(leader))
    }

    /// Leads again and again: stands, does `work` as the leader, resigns. Ends when the work breaks;
    /// while it continues, or when leadership was lost under it, it stands again, behind the other
    /// candidates. Work is dropped when leadership is lost.
    ///
    /// # Errors
    /// As [`campaign`](Self::campaign), when it could not stand.
    ///
    /// # Cancel safety
    /// Cancel-safe: leads no more.
    pub async fn lead<T, F: Future<Output = ControlFlow<T>>>(
        &self,
        data: &[u8],
        mut work: impl FnMut(Arc<Leader>) -> F,
    ) -> Result<T> {
        loop {
            let leader = match self.campaign(data).await {
                Err(error) if matches!(error.kind(), ErrorKind::Lost { .. }) => continue,
                leader => Arc::new(leader?),
            };
            let done = leader.run(work(Arc::clone(&leader))).await;
            if let Err(error) = leader.resign().await {
                tracing::debug!(%error, "the resignation is not confirmed; the lease ends it");
            }
            if let Ok(ControlFlow::Break(done)) = done {
                return Ok(done);
            }
        }
    }

    /// Who leads now, as far as it has announced itself. Two round trips.
    ///
    /// # Errors
    /// `Unavailable`; `Conflict` when something else stands in its place on the server;
    /// `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn leader(&self) -> Result<Option<Leading>> {
        let leading = async {
            match self.cell.read().await?.as_ref().map(Leading::of).transpose()? {
                Some(leading) if stands(&self.handle, leading.term).await? => Ok(Some(leading)),
                _ => Ok(None),
            }
        };
        self.cell.in_context("leader", leading.await)
    }

    /// Observes who leads, once that was read.
    ///
    /// # Errors
    /// `Unavailable` when the server does not answer within twice the request timeout. Others as
    /// [`leader`](Self::leader).
    ///
    /// # Cancel safety
    /// A dropped call observes nothing.
    pub async fn observe(&self) -> Result<Observer> {
        self.cell.in_context("observe", Observer::open(&self.handle, &self.cell).await)
    }

    /// The leader and the candidates, in order: at most `most` of them, behind the sequence number
    /// `after` (0: from the head).
    ///
    /// # Errors
    /// `Unavailable`; `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn queue(&self, after: u64, most: usize) -> Result<Vec<Entry>> {
        self.handle.list(after, most).await
    }

    /// Removes any client's leader or candidate: for operators. As
    /// [`Mutex::force_release`](super::Mutex::force_release).
    ///
    /// # Errors
    /// `Unavailable`; `Unknown` when it may have been carried out (harmless to repeat);
    /// `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// A dropped call may or may not have been carried out.
    pub async fn force_release(&self, sequence: u64) -> Result<bool> {
        self.handle.force_release(sequence).await
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

fn check_data(data: &[u8]) -> Result<()> {
    match data.len() {
        0..=MAX_DATA_BYTES => Ok(()),
        bytes => {
            Err(Error::invalid("data", format!("has {bytes} bytes, at most {MAX_DATA_BYTES} are allowed")))
        }
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election").field("address", &self.handle.queue).finish_non_exhaustive()
    }
}

/// Leadership. Given up by [`resign`](Leader::resign) or [`release`](Hold::release), or in the
/// background when it is dropped.
#[must_use = "leadership that is dropped at once is given up at once"]
pub struct Leader {
    // `None` while it is dropped only.
    acquired: Option<Acquired>,
    election: Election,
    // The version of the cell that this leader wrote last.
    announced: Mutex<Option<Version>>,
}

impl Leader {
    /// The term: the fencing token, above that of every leader before.
    pub fn term(&self) -> Token {
        Fenced::token(self)
    }

    /// How long it stood as a candidate.
    pub fn waited(&self) -> Duration {
        self.acquired().waited
    }

    fn acquired(&self) -> &Acquired {
        self.acquired.as_ref().expect("there until it is dropped")
    }

    fn cell(&self) -> &CellHandle {
        &self.election.cell
    }

    /// Shows new data to the observers, up to 4,000 bytes. Retries until it is confirmed or
    /// leadership is lost.
    ///
    /// # Errors
    /// `InvalidArgument` naming `data`; `Lost` with the reason; `NotHeld` after a resignation;
    /// `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// A dropped call may or may not have been carried out.
    pub async fn proclaim(&self, data: &[u8]) -> Result<()> {
        let proclaimed = async {
            check_data(data)?;
            self.announce(data).await
        };
        self.cell().in_context("proclaim", proclaimed.await)
    }

    /// Gives leadership up, and waits until the server has confirmed it: the next candidate leads
    /// at once, and observers see that nobody leads until then. The same as
    /// [`release`](Hold::release).
    ///
    /// # Errors
    /// As [`Hold::release`].
    ///
    /// # Cancel safety
    /// A dropped call goes on in the background.
    pub async fn resign(&self) -> Result<Release> {
        Hold::release(self).await
    }

    async fn announce(&self, data: &[u8]) -> Result<()> {
        let value = Leading { term: self.term(), data: data.into() }.to_cell();
        let write = CellWrite { expected: Expected::Any, value: Some(value), life: CellLife::Stays };
        let clock = self.cell().client.clock();
        let mut pauses = Backoff::new(Duration::from_millis(10), Duration::from_secs(1));
        loop {
            match self.cell().write_while(self, &write).await {
                Ok(CellWritten::Written(version)) => {
                    *self.announced.lock() = Some(version);
                    return Ok(());
                }
                // An unconditional write is not refused.
                Ok(_) => {
                    return Err(Error::new(
                        ErrorKind::Misconfigured,
                        "the backend answered what was not asked",
                    ));
                }
                Err(error) if error.is_retryable() => pauses.wait(&clock).await,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Deletes the cell if it still names this leader. What fails is left to the next leader, and to
/// the observers, who look whether the leader stands.
async fn retract(cell: CellHandle, term: Token, announced: Option<Version>) {
    let retracted = async {
        let version = match announced {
            Some(version) => version,
            // Its announcement may have been made.
            None => match cell.read().await? {
                Some(found) if Leading::of(&found)?.term == term => found.version,
                _ => return Ok(()),
            },
        };
        cell.write(&CellWrite { expected: Expected::Version(version), value: None, life: CellLife::Stays })
            .await
            .map(drop)
    };
    if let Err(error) = retracted.await {
        tracing::debug!(%error, "an announcement stays until the next leader's");
    }
}

#[async_trait]
impl Hold for Leader {
    fn tenures(&self) -> &[Arc<Tenure>] {
        std::slice::from_ref(self.acquired().held.tenure())
    }

    async fn release(&self) -> Result<Release> {
        let announced = self.announced.lock().take();
        if announced.is_some() {
            retract(self.cell().clone(), self.term(), announced).await;
        }
        self.acquired().held.release().await
    }
}

impl Fenced for Leader {
    fn token(&self) -> Token {
        self.acquired().held.token()
    }
}

own_methods!(Leader);

impl Leader {
    /// The fencing token, strictly above that of every leader before. As [`Fenced::token`].
    pub fn token(&self) -> Token {
        Fenced::token(self)
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        let announced = self.announced.lock().take();
        // Resigned, and retracted then.
        if announced.is_none() && !self.is_held() {
            return;
        }
        // Once its node is gone, no announcement of it can be made late.
        let retracted = retract(self.cell().clone(), self.term(), announced);
        self.election.handle.leave_and_then(self.acquired.take(), retracted);
    }
}

impl fmt::Debug for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leader").field("key", &self.key()).field("term", &self.term()).finish_non_exhaustive()
    }
}
