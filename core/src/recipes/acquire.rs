//! The request of every lock.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::ask::Ask;
use super::guards::{Guard, Reentrant, sealed};
use super::hold::Hold;
use crate::error::{Error, Result};
use crate::reentrancy::Owner;

/// An acquisition that has not begun: await it, or set options first.
///
/// `T` is the answer of the await: a guard, or for a try an `Option` of it (`None`: others hold it or
/// wait for it). The acquisition starts at the first poll: a request that is dropped before sends
/// nothing. A request is `'static`, and works in `select!`, `join!`, `timeout` and `spawn`.
///
/// | option | its subject | on a try |
/// |---|---|---|
/// | [`within`](Self::within) | the wait | does not exist |
/// | [`fail_fast`](Self::fail_fast) | the wait in an outage | yes |
/// | [`max_hold`](Self::max_hold), [`min_hold`](Self::min_hold) | the hold | yes |
/// | [`min_replicas`](Self::min_replicas) | when it counts as held | yes |
/// | [`by`](Self::by) | who holds: a mutex, readers, writers, several locks | yes |
/// | [`label`](Self::label) | the text in listings | yes |
///
/// ```
/// use std::time::Duration;
/// # use latchwork_core::{connect, Config, ErrorKind, Result, memory};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let invoices = coordinator.mutex("invoices/2026-11")?;
/// let hold = invoices
///     .acquire()
///     .within(Duration::from_secs(5)) // else `Timeout`
///     .max_hold(Duration::from_secs(60))
///     .label("month end")
///     .await?;
/// assert!(invoices.try_acquire().await?.is_none());
/// let late = invoices.acquire().within(Duration::from_millis(10)).await.unwrap_err();
/// assert_eq!(late.kind(), ErrorKind::Timeout);
/// hold.release().await?;
/// let answer = invoices.acquire().with(async |hold| hold.token()).await?; // acquire, run, release
/// # println!("{answer}");
/// # coordinator.close().await }
/// ```
///
/// # Errors
/// Each verb lists its own. `InvalidArgument` names an option with a bad value, and an option that
/// is set after the first poll.
///
/// # Cancel safety
/// A dropped request leaves nothing in the queue.
///
/// # Misuse is a compile error
/// ```compile_fail,E0599
/// # async fn no(mutex: latchwork_core::recipes::Mutex) {
/// mutex.try_acquire().within(std::time::Duration::from_secs(1)).await; // a try does not wait
/// # }
/// ```
/// ```compile_fail,E0599
/// # async fn no(permits: latchwork_core::recipes::Semaphore, owner: latchwork_core::Owner) {
/// permits.acquire(1).by(&owner).await; // permits are not reentrant
/// # }
/// ```
#[must_use = "an acquisition does nothing until it is awaited"]
pub struct Acquire<T> {
    stage: AcquireStage,
    answers: PhantomData<fn() -> T>,
}

enum AcquireStage {
    Asked(Arc<dyn Take>, Ask),
    // The mutex is never locked: it makes the request `Sync`.
    Running(Mutex<Acquiring>),
    // An option came after the first poll.
    Late(&'static str),
    Done,
}

/// The future of [`Take::take`]: one type for all recipes.
pub type Acquiring = Pin<Box<dyn Future<Output = Result<Option<Hold>>> + Send>>;

/// Carries out requests: what all verbs of a recipe call. A backend implements it for the locks of
/// another library.
pub trait Take: Send + Sync + 'static {
    /// Acquires; `None` if a try is refused. The request calls it at its first poll.
    fn take(self: Arc<Self>, ask: Ask) -> Acquiring;

    /// The key, for errors.
    fn key(&self) -> &str;
}

impl Ask {
    /// The request by which `recipe` acquires.
    pub fn of<T: Acquired>(self, recipe: Arc<dyn Take>) -> Acquire<T> {
        Acquire { stage: AcquireStage::Asked(recipe, self), answers: PhantomData }
    }
}

/// The answer of an acquisition: a guard, or for a try an `Option` of it. Sealed.
pub trait Acquired: Sized + 'static + private::FromHold {
    /// The guard.
    type Guard: Guard;
}

mod private {
    pub trait FromHold {
        fn from_hold(hold: Option<super::Hold>) -> Self;
    }
}

impl<G: Guard> private::FromHold for G {
    fn from_hold(hold: Option<Hold>) -> Self {
        <G as sealed::Of>::of(hold.expect("only a try is refused"))
    }
}

impl<G: Guard> private::FromHold for Option<G> {
    fn from_hold(hold: Option<Hold>) -> Self {
        hold.map(<G as sealed::Of>::of)
    }
}

impl<G: Guard> Acquired for G {
    type Guard = G;
}

impl<G: Guard> Acquired for Option<G> {
    type Guard = G;
}

/// Options of every acquisition.
impl<T: Acquired> Acquire<T> {
    fn set(mut self, name: &'static str, set: impl FnOnce(&mut Ask)) -> Self {
        match &mut self.stage {
            AcquireStage::Asked(_, ask) => set(ask),
            _ => self.stage = AcquireStage::Late(name),
        }
        self
    }

    /// The hold ends after `time` in any case, so that a hung task does not hold for ever
    /// (LEASE-FIXED). It counts from the send of an uncontended join, else from when the
    /// acquisition learns of its admission: an acquisition that is not polled is not bounded by it.
    /// If `time` is shorter than the round trip, the acquisition answers `Lost` (`MaxHold`).
    ///
    /// At the end the hold is lost (`MaxHold`). One [margin](crate::contracts::Lease::margin)
    /// later its node leaves, whether the guard is kept or dropped: by then the holder's work is
    /// over, as at an expiry. A [`release`](crate::Hold::release) after the end leaves at once.
    /// Spawned work is not stopped: give it [`lost`](crate::Hold::lost).
    pub fn max_hold(self, time: Duration) -> Self {
        self.set("max_hold", |ask| ask.max_hold = Some(time))
    }

    /// The hold is not given back before `time` after its admission, also if it is released or
    /// dropped sooner. So a job of a few milliseconds on one host does not run again on a host whose
    /// clock is a second late. `release()` answers at once, and the node leaves when the time is
    /// over; [`close`](crate::Coordinator::close) waits for that.
    ///
    /// If an owner's writer is released while the owner reads on, other readers wait for that time
    /// too; a [`downgrade`](super::WriteGuard::downgrade) admits them at once. A
    /// [`max_hold`](Acquire::max_hold) that ends sooner (it may count from the send of the join)
    /// takes precedence.
    ///
    /// It binds this client as long as its lease lasts. If the process ends before, the server
    /// frees the node within a TTL; or at once, if the client was closed by
    /// [`close_now`](crate::Coordinator::close_now) and the backend's
    /// [`minimum_outlives_close`](crate::Capabilities::minimum_outlives_close) is false.
    #[doc(alias = "hold_at_least", alias = "lock_at_least_for")]
    pub fn min_hold(self, time: Duration) -> Self {
        self.set("min_hold", |ask| ask.min_hold = Some(time))
    }

    /// Answers `Unavailable` as soon as the coordinator does not answer, instead of waiting until
    /// it does: at once if the lease is [`Suspended`](crate::contracts::LeaseState::Suspended),
    /// when it becomes so during the wait in the queue, and at the first request that fails. For a
    /// service that has another answer ready (503) and does not keep its callers waiting in an
    /// outage. A re-entry needs no answer, and succeeds.
    pub fn fail_fast(self) -> Self {
        self.set("fail_fast", |ask| ask.fail_fast = true)
    }

    /// Redis: the acquisition counts only once `replicas` replicas have confirmed it; else it is
    /// given back, and answers `Unavailable`, which says how many have. Zero asks for none, where
    /// the coordinator asks for some ([`Config::min_replicas`](crate::Config::min_replicas)).
    ///
    /// A confirmed hold outlives a failover to a replica that confirmed it, and no other: Redis may
    /// promote one that did not. Only the acquisition is confirmed: its renewals and its release are
    /// not, nor is a re-entry, or a call that joins an acquisition of its owner under way. The
    /// confirmation costs a round trip and the replication, on a connection of its own, and has the
    /// time of one request, within the deadline of the acquisition. Others wait meanwhile. It
    /// extends no lease.
    ///
    /// Elsewhere, where
    /// [`confirms_on_replicas`](crate::Capabilities::confirms_on_replicas) is false, more than zero
    /// is refused with `Unsupported`.
    pub fn min_replicas(self, replicas: u32) -> Self {
        self.set("min_replicas", |ask| ask.min_replicas = Some(replicas))
    }

    /// The text in listings, in place of the owner's or the coordinator's, up to 4 KiB. People read
    /// it on a terminal, so a control character, or one that changes the direction of the text
    /// around it, is refused.
    pub fn label(self, label: impl Into<Arc<str>>) -> Self {
        let label = label.into();
        self.set("label", |ask| ask.label = Some(label))
    }
}

/// Recipes in which an owner may enter again.
impl<T: Acquired<Guard: Reentrant>> Acquire<T> {
    /// By this owner. An owner that holds already enters again at once, without a request to the
    /// server, and before all who wait; its last guard gives the lock back.
    ///
    /// Two tasks of one owner can hold at the same time, so they must order their work themselves.
    /// Tasks of one owner that acquire at once share one acquisition in the background, with the
    /// options of the task that began it; a dropped task leaves the place to the others, and a task
    /// that is not polled blocks none of them. The options count for the acquisition, not for a
    /// re-entry.
    ///
    /// Of a read/write lock, an owner that writes may read and write again, and an owner that reads
    /// may read again, also while writers wait. An owner that reads and asks to write would wait for
    /// itself, and gets `Deadlock`. If a writer's guard ends while its owner reads on, the node
    /// becomes a reader's.
    #[doc(alias = "owner")]
    pub fn by(self, owner: &Owner) -> Self {
        self.set("by", |ask| ask.owner = Some(owner.clone()))
    }
}

/// Acquisitions that wait their turn.
impl<G: Guard> Acquire<G> {
    /// The longest time for all of it: joining, waiting, reconnecting. Then the answer is `Timeout`
    /// (others hold it) or `Unavailable` (the coordinator does not answer), and nothing stays.
    /// Without it the wait has no end. Zero is refused: a try is another verb.
    #[doc(alias = "timeout", alias = "wait_time", alias = "deadline")]
    pub fn within(self, time: Duration) -> Self {
        self.set("within", |ask| ask.within = Some(time))
    }

    /// Acquires, runs `work` under the hold, and releases it. A loss drops the work.
    ///
    /// # Errors
    /// As the acquisition; `Lost` with the reason if the hold was lost, also when only the release
    /// shows it; `OutcomeUnknown` if the release was not confirmed.
    ///
    /// # Cancel safety
    /// A dropped call leaves nothing: its hold is released in the background.
    #[doc(alias = "with_lock")]
    pub async fn with<R>(self, work: impl AsyncFnOnce(&G) -> R) -> Result<R> {
        under(self.await?, work).await
    }
}

/// Tries.
impl<G: Guard> Acquire<Option<G>> {
    /// As [`with`](Acquire#method.with) of an acquisition that waits, if it is free; `None` if it is
    /// not.
    ///
    /// # Errors
    /// As the try; `Lost` and `OutcomeUnknown` as for an acquisition that waits.
    ///
    /// # Cancel safety
    /// A dropped call leaves nothing: its hold is released in the background.
    pub async fn with<R>(self, work: impl AsyncFnOnce(&G) -> R) -> Result<Option<R>> {
        match self.await? {
            Some(guard) => under(guard, work).await.map(Some),
            None => Ok(None),
        }
    }
}

async fn under<G: Guard, R>(guard: G, work: impl AsyncFnOnce(&G) -> R) -> Result<R> {
    let done = guard.run(work(&guard)).await?;
    guard.release().await?;
    Ok(done)
}

impl<T: Acquired> Future for Acquire<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        loop {
            match &mut self.stage {
                AcquireStage::Running(acquiring) => {
                    let acquiring = acquiring.get_mut().unwrap_or_else(PoisonError::into_inner);
                    let answer = ready!(acquiring.as_mut().poll(context));
                    self.stage = AcquireStage::Done;
                    return Poll::Ready(answer.map(T::from_hold));
                }
                stage @ AcquireStage::Asked(..) => {
                    let AcquireStage::Asked(of, ask) = mem::replace(stage, AcquireStage::Done) else {
                        unreachable!()
                    };
                    *stage = AcquireStage::Running(Mutex::new(of.take(ask)));
                }
                AcquireStage::Late(name) => {
                    let late = Error::invalid(name, "it was set after the first poll");
                    self.stage = AcquireStage::Done;
                    return Poll::Ready(Err(late));
                }
                AcquireStage::Done => panic!("an acquisition was polled after it was ready"),
            }
        }
    }
}

impl<T> fmt::Debug for Acquire<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match &self.stage {
            AcquireStage::Asked(of, ask) => &format!("{} of {:?}, not started", ask.operation, of.key()),
            AcquireStage::Running(_) => "running",
            AcquireStage::Late(_) => "an option came too late",
            AcquireStage::Done => "done",
        };
        f.debug_tuple("Acquire").field(&format_args!("{stage}")).finish()
    }
}
