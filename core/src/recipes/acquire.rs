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

/// The request to acquire a lock: set options, then await it.
///
/// The await returns `T`: a guard, or for a try an `Option` of a guard (`None`: other clients hold the
/// lock or wait for it). The acquisition starts at the first poll: a request that is dropped before its
/// first poll sends nothing. A request is `'static`, and works in `select!`, `join!`, `timeout` and
/// `spawn`.
///
/// | option | sets | on a try |
/// |---|---|---|
/// | [`within`](Self::within) | the deadline of the wait | does not exist |
/// | [`fail_fast`](Self::fail_fast) | an error instead of a wait during an outage | yes |
/// | [`max_hold`](Self::max_hold), [`min_hold`](Self::min_hold) | how long the hold lasts | yes |
/// | [`min_replicas`](Self::min_replicas) | how many Redis replicas must confirm it | yes |
/// | [`by`](Self::by) | the owner (mutex, reader, writer, several locks) | yes |
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
///     .within(Duration::from_secs(5)) // then `Timeout`
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
/// The method that makes the request lists its errors. `InvalidArgument` names an option with a bad
/// value, or an option that was set after the first poll.
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

/// Carries out the requests of a recipe. A backend implements it for the locks of another library.
pub trait Take: Send + Sync + 'static {
    /// Acquires; returns `None` if a try is refused. The request calls it at its first poll.
    fn take(self: Arc<Self>, ask: Ask) -> Acquiring;

    /// Returns the key, for errors.
    fn key(&self) -> &str;
}

impl Ask {
    /// Makes a request that `recipe` carries out.
    pub fn of<T: Acquired>(self, recipe: Arc<dyn Take>) -> Acquire<T> {
        Acquire { stage: AcquireStage::Asked(recipe, self), answers: PhantomData }
    }
}

/// The answer of an acquisition: a guard, or for a try an `Option` of a guard. Sealed.
pub trait Acquired: Sized + 'static + private::FromHold {
    /// The type of the guard.
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

    /// Ends the hold after `time`, so that a hung task does not hold the lock for ever (LEASE-FIXED).
    ///
    /// At this fixed end the hold is lost (`MaxHold`). The client removes its node from the queue one
    /// [margin](crate::contracts::Lease::margin) later, also if the guard still exists; the margin gives
    /// the holder's work time to stop. A [`release`](crate::Hold::release) after the end removes the node
    /// at once. Spawned work is not stopped: let it wait for [`lost`](crate::Hold::lost).
    ///
    /// If the lock was free, the time counts from the send of the request. Otherwise it counts from the
    /// moment when the acquisition learns of its admission, so it does not bound an acquisition that is
    /// not polled. If `time` is shorter than the round trip, the acquisition fails with `Lost`
    /// (`MaxHold`).
    pub fn max_hold(self, time: Duration) -> Self {
        self.set("max_hold", |ask| ask.max_hold = Some(time))
    }

    /// Keeps the lock for at least `time` after the admission, also if the guard is released or dropped
    /// sooner.
    ///
    /// A scheduled job that takes a few milliseconds then does not run again on a host whose clock is a
    /// second late. `release()` returns at once, and the lock becomes free when the time is over;
    /// [`close`](crate::Coordinator::close) waits for that.
    ///
    /// A [`max_hold`](Acquire::max_hold) that ends sooner takes precedence. If an owner releases its
    /// writer and still reads, other readers wait for that time too; a
    /// [`downgrade`](super::WriteGuard::downgrade) admits them at once.
    ///
    /// The lock is kept only while the client's lease exists: if the process ends, the server frees the
    /// lock within a TTL. After [`close_now`](crate::Coordinator::close_now) the lock is free at once if the
    /// capability [`minimum_outlives_close`](crate::Capabilities::minimum_outlives_close) is false.
    #[doc(alias = "hold_at_least", alias = "lock_at_least_for")]
    pub fn min_hold(self, time: Duration) -> Self {
        self.set("min_hold", |ask| ask.min_hold = Some(time))
    }

    /// Fails with `Unavailable` as soon as the coordinator does not answer, instead of waiting for the
    /// end of the outage.
    ///
    /// The request fails if the lease is [`Suspended`](crate::contracts::LeaseState::Suspended) at its
    /// start or becomes suspended during the wait in the queue, and at the first failed request to the
    /// server. Use it in a service that answers 503 during an outage. A re-entry of an owner needs no
    /// server, and succeeds.
    pub fn fail_fast(self) -> Self {
        self.set("fail_fast", |ask| ask.fail_fast = true)
    }

    /// Requires that `replicas` Redis replicas confirm the acquisition.
    ///
    /// If fewer confirm it within one request timeout (and the deadline of the acquisition), the client
    /// gives the lock back and fails with `Unavailable`, which says how many confirmed. Zero switches off
    /// the coordinator's default ([`Config::min_replicas`](crate::Config::min_replicas)).
    ///
    /// A confirmed hold survives a failover to a replica that confirmed it. Redis may promote a replica
    /// that did not. Only the acquisition is confirmed: not its renewals, its release, a re-entry, or a
    /// call that shares an acquisition of its owner. The confirmation costs one round trip and the
    /// replication, on a separate connection. Other clients wait during this. It does not extend the lease.
    ///
    /// Fails with `Unsupported` for more than zero on a backend whose
    /// [`confirms_on_replicas`](crate::Capabilities::confirms_on_replicas) is false.
    pub fn min_replicas(self, replicas: u32) -> Self {
        self.set("min_replicas", |ask| ask.min_replicas = Some(replicas))
    }

    /// Sets the text in listings, up to 4 KiB. The default is the label of the owner, or of the
    /// coordinator. Control characters and characters that change the text direction are refused,
    /// because people read labels on a terminal.
    pub fn label(self, label: impl Into<Arc<str>>) -> Self {
        let label = label.into();
        self.set("label", |ask| ask.label = Some(label))
    }
}

/// Recipes in which an owner may enter again.
impl<T: Acquired<Guard: Reentrant>> Acquire<T> {
    /// Acquires for this owner. An owner that holds the lock already enters again at once: without a
    /// request to the server, and before all waiters. The lock becomes free when the owner's last guard
    /// is released.
    ///
    /// Two tasks of one owner can hold the lock at the same time, so they must order their work
    /// themselves. If they acquire at the same time, they share one acquisition in the background, with
    /// the options of the first task. If that task is dropped or not polled, the others still acquire.
    /// The options do not apply to a re-entry.
    ///
    /// On a read/write lock, an owner that writes may read and write again. An owner that reads may read
    /// again, also while writers wait. An owner that only reads and asks to write would wait for itself:
    /// it gets `Deadlock`. If an owner's last write guard ends while the owner still reads, its node
    /// becomes a reader node and keeps its place in the queue.
    #[doc(alias = "owner")]
    pub fn by(self, owner: &Owner) -> Self {
        self.set("by", |ask| ask.owner = Some(owner.clone()))
    }
}

/// Acquisitions that wait their turn.
impl<G: Guard> Acquire<G> {
    /// Sets the deadline of the whole acquisition, including reconnects. Without it the wait has no
    /// deadline.
    ///
    /// After the deadline the request fails with `Timeout` (other clients hold the lock) or `Unavailable`
    /// (the coordinator does not answer), and its place in the queue is given back. Zero is refused: use
    /// the `try_` method.
    #[doc(alias = "timeout", alias = "wait_time", alias = "deadline")]
    pub fn within(self, time: Duration) -> Self {
        self.set("within", |ask| ask.within = Some(time))
    }

    /// Acquires, runs `work` while the lock is held, and releases it. A loss drops the work.
    ///
    /// # Errors
    /// * The errors of the acquisition.
    /// * `Lost`: the hold was lost, which may show only at the release. The error has the reason.
    /// * `OutcomeUnknown`: the server did not confirm the release.
    ///
    /// # Cancel safety
    /// A dropped call releases its hold in the background.
    #[doc(alias = "with_lock")]
    pub async fn with<R>(self, work: impl AsyncFnOnce(&G) -> R) -> Result<R> {
        under(self.await?, work).await
    }
}

/// Tries.
impl<G: Guard> Acquire<Option<G>> {
    /// Runs `work` if the lock is free, and returns `None` if it is not. The work runs in the same way as in
    /// [`with`](Acquire#method.with) of an acquisition that waits.
    ///
    /// # Errors
    /// * The errors of the try.
    /// * `Lost`, `OutcomeUnknown`: as for an acquisition that waits.
    ///
    /// # Cancel safety
    /// A dropped call releases its hold in the background.
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
                    let late = Error::invalid(
                        name,
                        "the option was set after the first poll: set all options before the await",
                    );
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
