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
/// The await returns a guard. A try returns an `Option`: `None` if other clients hold the lock or wait for
/// it. Nothing is sent before the first poll.
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
/// As the method that made the request. `InvalidArgument` names an option that has a bad value or was set
/// after the first poll.
///
/// # Cancel safety
/// The client removes the node of a dropped request in the background. (On Redis and etcd a marker may remain
/// for ten minutes, which keeps out a join that arrives late.)
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
    Late(&'static str),
    Done,
}

/// The future of [`Take::take`].
pub type Acquiring = Pin<Box<dyn Future<Output = Result<Option<Hold>>> + Send>>;

/// Carries out the requests of a recipe. A backend implements it for the locks of another library.
pub trait Take: Send + Sync + 'static {
    /// Acquires; returns `None` if a try is refused. Called at the first poll.
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

/// A guard, or an `Option` of a guard for a try. Sealed.
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
    /// The hold is then lost (`MaxHold`). Its node leaves the queue at a [`release`](crate::Hold::release),
    /// or one [margin](crate::contracts::Lease::margin) later, so that the holder's work can stop.
    ///
    /// The time starts at the send of the request if the lock was free, otherwise when the client learns of
    /// the admission. If `time` is shorter than the round trip, the acquisition fails with `Lost`.
    pub fn max_hold(self, time: Duration) -> Self {
        self.set("max_hold", |ask| ask.max_hold = Some(time))
    }

    /// Keeps the lock for at least `time` after the admission, also after a release or a drop.
    ///
    /// `release()` returns at once; [`close`](crate::Coordinator::close) waits for the end of the time. So a
    /// short scheduled job does not run again on a host whose clock is late.
    ///
    /// A sooner [`max_hold`](Acquire::max_hold) takes precedence. If an owner releases its writer and still
    /// reads, other readers wait, unless it [downgrades](super::WriteGuard::downgrade).
    ///
    /// If the process ends, the server frees the lock within a TTL. After
    /// [`close_now`](crate::Coordinator::close_now) it does so at once if
    /// [`minimum_outlives_close`](crate::Capabilities::minimum_outlives_close) is false.
    #[doc(alias = "hold_at_least", alias = "lock_at_least_for")]
    pub fn min_hold(self, time: Duration) -> Self {
        self.set("min_hold", |ask| ask.min_hold = Some(time))
    }

    /// Fails with `Unavailable` as soon as the coordinator does not answer: at the first failed request, or
    /// when the lease is [`Suspended`](crate::contracts::LeaseState::Suspended). A re-entry of an owner needs
    /// no server, and succeeds.
    pub fn fail_fast(self) -> Self {
        self.set("fail_fast", |ask| ask.fail_fast = true)
    }

    /// Requires that `replicas` Redis replicas confirm the acquisition within one request timeout and the
    /// deadline. Otherwise the client gives the lock back and fails with `Unavailable`. Zero switches off the
    /// default of [`Config::min_replicas`](crate::Config::min_replicas).
    ///
    /// A confirmed hold survives a failover to a replica that confirmed it; Redis may promote another one.
    /// Renewals, releases, re-entries and calls that share an acquisition are not confirmed. The confirmation
    /// costs one round trip and the replication, and does not extend the lease.
    ///
    /// Fails with `Unsupported` on a backend whose
    /// [`confirms_on_replicas`](crate::Capabilities::confirms_on_replicas) is false.
    pub fn min_replicas(self, replicas: u32) -> Self {
        self.set("min_replicas", |ask| ask.min_replicas = Some(replicas))
    }

    /// Sets the text in listings, up to 4 KiB, without control characters or characters that change the text
    /// direction. The default is the label of the owner or the coordinator.
    pub fn label(self, label: impl Into<Arc<str>>) -> Self {
        let label = label.into();
        self.set("label", |ask| ask.label = Some(label))
    }
}

impl<T: Acquired<Guard: Reentrant>> Acquire<T> {
    /// Acquires for this owner. An owner that holds the lock already enters again at once, without a request
    /// and before all waiters. The owner's last release frees the lock.
    ///
    /// Tasks of one owner can hold the lock at the same time, and must order their work themselves. If they
    /// acquire at the same time, they share one acquisition, with the options of the first task. See
    /// [`RwLock`](super::RwLock) for owners that read and write.
    #[doc(alias = "owner")]
    pub fn by(self, owner: &Owner) -> Self {
        self.set("by", |ask| ask.owner = Some(owner.clone()))
    }
}

impl<G: Guard> Acquire<G> {
    /// Sets the deadline of the whole acquisition, including reconnects; by default there is none. After it
    /// the request fails with `Timeout` (other clients hold the lock) or `Unavailable` (no answer). Zero is
    /// refused: use the `try_` method.
    #[doc(alias = "timeout", alias = "wait_time", alias = "deadline")]
    pub fn within(self, time: Duration) -> Self {
        self.set("within", |ask| ask.within = Some(time))
    }

    /// Acquires, runs `work` while the lock is held, and releases it. A loss drops the work.
    ///
    /// # Errors
    /// * `Lost`: the hold was lost, which may show only at the release.
    /// * `OutcomeUnknown`: the server did not confirm the release.
    /// * The errors of the acquisition.
    ///
    /// # Cancel safety
    /// A dropped call releases its hold in the background.
    #[doc(alias = "with_lock")]
    pub async fn with<R>(self, work: impl AsyncFnOnce(&G) -> R) -> Result<R> {
        under(self.await?, work).await
    }
}

impl<G: Guard> Acquire<Option<G>> {
    /// As [`with`](Acquire#method.with) of an acquisition that waits, but returns `None` if the lock is not
    /// free.
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
