//! What all guards and leadership have in common.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use tokio::sync::Notify;

use crate::address::Address;
use crate::clock::Moment;
use crate::contracts::{LeaseState, Node};
use crate::coordinator::Coordinator;
use crate::departures::Departure;
use crate::error::{Error, ErrorKind, Lost, LostReason, Result};
use crate::token::Token;

/// What a release answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// It was held until now, and is free.
    Released,
    /// It was lost before: somebody else may have held it since.
    AlreadyLost(LostReason),
}

/// A hold on something: the trait of all guards.
///
/// A lease lock cannot promise that two processes never both *believe* they hold: a process that is paused past
/// its TTL, and continued, goes on for an instant before it looks. `check()` tells it at the first
/// call; the fencing token ([`Fenced`]) lets the resource refuse what was sent in that instant. Dropping a hold releases it
/// in the background; it never blocks, and never panics outside a runtime.
#[async_trait::async_trait]
pub trait Hold: fmt::Debug + Send + Sync {
    /// The part that all guards share.
    #[doc(hidden)]
    fn holding(&self) -> &Holding;

    /// The key, as it was given.
    fn key(&self) -> &str {
        self.holding().tenure.queue.name()
    }

    /// Whether it is held, by the clock at this call.
    fn is_held(&self) -> bool {
        self.check().is_ok()
    }

    /// An error once it is not held any more.
    ///
    /// # Errors
    /// `Lost` with the reason; `NotHeld` after a release.
    fn check(&self) -> Result<()> {
        self.holding().tenure.check()
    }

    /// The state by the clock at this call: `Suspended` while the coordinator does not answer and the deadline has not come.
    fn state(&self) -> LeaseState {
        self.holding().tenure.node.state().state()
    }

    /// A stream of states, from now until it is lost or released: for those who pause writes while `Suspended`.
    fn states(&self) -> BoxStream<'static, LeaseState> {
        states(Arc::clone(&self.holding().tenure))
    }

    /// A handle that becomes ready when the hold is lost: a future, cloneable, `'static`. It is ready at its
    /// first poll when the deadline has passed by then. After a release it stays pending.
    fn lost(&self) -> Loss {
        Loss { tenure: Arc::clone(&self.holding().tenure), waiting: None }
    }

    /// Runs `work` while it is held: drops it when the hold is lost. (What was handed to `spawn_blocking`
    /// or spawned goes on.) The hold is not released at the end.
    ///
    /// # Errors
    /// [`Lost`], with the key and the reason.
    ///
    /// # Cancel safety
    /// As that of `work`.
    async fn run<F>(&self, work: F) -> std::result::Result<F::Output, Lost>
    where
        Self: Sized,
        F: Future + Send,
        F::Output: Send,
    {
        let lost = self.lost();
        tokio::select! {
            biased;
            lost = lost => Err(lost),
            output = work => Ok(output),
        }
    }

    /// Gives it back, and waits until the server has confirmed. Idempotent.
    ///
    /// # Errors
    /// `Unknown` when it was not confirmed by the hold's deadline: the server frees it within TTL and a bound.
    ///
    /// # Cancel safety
    /// A dropped release goes on in the background.
    async fn release(&self) -> Result<Release> {
        self.holding().release().await.map_err(|error| error.in_operation("release").on(self.key()))
    }
}

/// A hold that fences: mutex, writer, leader. The tokens of readers and permits identify, they do not fence.
pub trait Fenced: Hold {
    /// The fencing token: always readable, strictly above that of every holder before (NODE-TOKEN).
    /// Refusing a stale one is the resource's part: `UPDATE … SET fence = $1 … WHERE fence <= $1`.
    fn token(&self) -> Token;
}

/// What every guard has inside: one node, and its way back.
#[doc(hidden)]
pub struct Holding {
    coordinator: Coordinator,
    tenure: Arc<Tenure>,
}

/// What a guard shares with its `lost()` handles and state streams.
struct Tenure {
    queue: Address,
    node: Arc<dyn Node>,
    // How the hold ended by its owner's hand, once it did.
    ended: OnceLock<Release>,
    released: Notify,
}

impl Tenure {
    fn check(&self) -> Result<()> {
        let lost = match self.ended.get() {
            None => self.node.state().lost(),
            Some(Release::AlreadyLost(reason)) => Some(*reason),
            Some(Release::Released) => {
                return Err(Error::new(ErrorKind::NotHeld, "it was released").on(self.queue.name()));
            }
        };
        lost.map_or(Ok(()), |reason| Err(Error::lost(reason).on(self.queue.name())))
    }

    /// Why it is lost; never for a hold that was released in time.
    fn lost(&self) -> Option<LostReason> {
        match self.ended.get() {
            None => self.node.state().lost(),
            Some(Release::AlreadyLost(reason)) => Some(*reason),
            Some(Release::Released) => None,
        }
    }

    /// The state now; `None` once it was released in time.
    fn state(&self) -> Option<LeaseState> {
        match self.ended.get() {
            None => Some(self.node.state().state()),
            Some(Release::AlreadyLost(reason)) => Some(LeaseState::Lost(*reason)),
            Some(Release::Released) => None,
        }
    }

    /// The owner ends it: the first call counts. Answers whether this was it.
    fn end(&self) -> bool {
        let release = self.node.state().lost().map_or(Release::Released, Release::AlreadyLost);
        let first = self.ended.set(release).is_ok();
        self.released.notify_waiters();
        first
    }

    async fn until_ended(&self) {
        let notified = self.released.notified();
        tokio::pin!(notified);
        notified.as_mut().enable();
        if self.ended.get().is_none() {
            notified.await;
        }
    }
}

impl Holding {
    pub(crate) fn new(coordinator: Coordinator, queue: Address, node: Arc<dyn Node>) -> Self {
        let tenure = Tenure { queue, node, ended: OnceLock::new(), released: Notify::new() };
        let holding = Self { coordinator, tenure: Arc::new(tenure) };
        holding.leave_at_fixed_end();
        holding
    }

    pub(crate) fn token(&self) -> Token {
        Token::new(0, self.tenure.node.state().sequence()).expect("checked at admission")
    }

    /// The server must be told of a fixed end even when nobody looks (LEASE-FIXED).
    fn leave_at_fixed_end(&self) {
        let end = self.tenure.node.state().fixed_end();
        if end == Moment::NEVER {
            return;
        }
        let (clock, departures) = (self.coordinator.clock(), self.coordinator.departures().clone());
        let tenure = Arc::clone(&self.tenure);
        tokio::spawn(async move {
            tokio::select! {
                () = tenure.until_ended() => {}
                () = clock.sleep_until(end) => departures.push(tenure.departure()),
            }
        });
    }

    async fn release(&self) -> Result<Release> {
        let Tenure { node, ended, .. } = &*self.tenure;
        let lease = node.state().lease();
        let departing = self.tenure.end().then(|| Departing { holding: self, confirmed: false });
        let release = *ended.get().expect("ended above, if not before");
        if matches!(release, Release::AlreadyLost(_)) {
            // The server's side is given back all the same (RULES C6), but nobody waits for it.
            return Ok(release);
        }
        tokio::select! {
            biased;
            departed = self.depart(departing) => match departed {
                Ok(()) => Ok(release),
                Err(error) => Err(Error::new(ErrorKind::Unknown, "the release was not confirmed").because(error)),
            },
            () = lease.clock().sleep_until(lease.deadline()) => {
                Err(Error::new(ErrorKind::Unknown, "the release was not confirmed before the hold's deadline"))
            }
        }
    }

    /// Leaves, or waits for the leave of an earlier call or of the background.
    async fn depart(&self, departing: Option<Departing<'_>>) -> Result<()> {
        let Tenure { queue, node, .. } = &*self.tenure;
        if let Some(departing) = departing {
            match node.leave().await {
                Ok(()) => departing.confirm(),
                Err(error) => tracing::debug!(%error, key = queue.name(), "a release is tried again"),
            }
        }
        node.state().departed().await
    }
}

impl Tenure {
    fn departure(&self) -> Departure {
        Departure::Leave(self.queue.clone(), Arc::clone(&self.node))
    }
}

/// A leave under way: dropped before it is confirmed, it goes on in the background.
struct Departing<'a> {
    holding: &'a Holding,
    confirmed: bool,
}

impl Departing<'_> {
    fn confirm(mut self) {
        self.confirmed = true;
        self.holding.tenure.node.state().depart(Ok(()));
    }
}

impl Drop for Departing<'_> {
    fn drop(&mut self) {
        if !self.confirmed {
            self.holding.coordinator.departures().push(self.holding.tenure.departure());
        }
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        if self.tenure.end() {
            self.coordinator.departures().push(self.tenure.departure());
        }
    }
}

impl fmt::Debug for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tenure { queue, node, ended, .. } = &*self.tenure;
        f.debug_struct("Holding")
            .field("queue", queue)
            .field("node", node.state())
            .field("ended", ended)
            .finish()
    }
}

/// The states from now on, ended by loss (as the last item) or release.
fn states(tenure: Arc<Tenure>) -> BoxStream<'static, LeaseState> {
    stream::unfold((tenure, None), |(tenure, seen)| async move {
        let state = match seen {
            Some(LeaseState::Lost(_)) => return None,
            None => tenure.state()?,
            Some(seen) => tokio::select! {
                biased;
                // A loss is told also when the owner's release comes before our look.
                () = tenure.until_ended() => tenure.state()?,
                state = tenure.node.state().changed(seen) => state,
            },
        };
        Some((state, (tenure, Some(state))))
    })
    .boxed()
}

/// Becomes ready when a hold is lost. See [`Hold::lost`].
pub struct Loss {
    tenure: Arc<Tenure>,
    // Sync, unlike a BoxFuture: a handle is shared between tasks.
    waiting: Option<Pin<Box<dyn Future<Output = LostReason> + Send + Sync>>>,
}

impl Loss {
    /// Why it is lost, or `None` while it is not; by the clock at this call.
    pub fn reason(&self) -> Option<LostReason> {
        self.tenure.lost()
    }
}

impl Clone for Loss {
    fn clone(&self) -> Self {
        Self { tenure: Arc::clone(&self.tenure), waiting: None }
    }
}

impl fmt::Debug for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loss").field("key", &self.tenure.queue).field("reason", &self.reason()).finish()
    }
}

impl Future for Loss {
    type Output = Lost;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Lost> {
        let tenure = Arc::clone(&self.tenure);
        // The clock is read before any timer is asked: a stopped process sees its loss at the first poll.
        let reason = match tenure.lost() {
            Some(reason) => reason,
            None => {
                let waiting = self.waiting.get_or_insert_with(|| Box::pin(until_lost(Arc::clone(&tenure))));
                std::task::ready!(waiting.as_mut().poll(context))
            }
        };
        self.waiting = None;
        Poll::Ready(Lost { key: tenure.queue.name().into(), reason })
    }
}

async fn until_lost(tenure: Arc<Tenure>) -> LostReason {
    let reason = tokio::select! {
        biased;
        () = tenure.until_ended() => tenure.lost(),
        reason = tenure.node.state().until_lost() => Some(reason),
    };
    match reason {
        Some(reason) => reason,
        // Released in time: it will never be lost.
        None => std::future::pending().await,
    }
}
