//! One held node, and its way back: by a release, by a drop, or at its fixed end.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tracing::Span;

use crate::address::Address;
use crate::clock::Moment;
use crate::contracts::{LeaseState, Node};
use crate::coordinator::Coordinator;
use crate::departures::{Departure, is_over, settle};
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::hold::Release;
use crate::token::Token;

/// One node, and its way back: what the guards of one hold, or all guards of one owner, have inside.
pub(crate) struct Holding {
    coordinator: Coordinator,
    pub(crate) tenure: Arc<Tenure>,
    // The server has confirmed a downgrade; one goes on in the background.
    turned: AtomicBool,
    turns: AtomicBool,
    // Where somebody listens, until its end.
    span: Mutex<Option<Box<Span>>>,
}

/// One guard's time: what it shares with its `lost()` handles and state streams. Ended by its own release, whoever
/// else holds the node.
#[doc(hidden)]
pub struct Tenure {
    pub(crate) queue: Address,
    pub(crate) node: Arc<dyn Node>,
    // How the hold ended by its owner's hand, once it did. The node's state tells whoever waits for that.
    ended: OnceLock<Release>,
}

impl Tenure {
    fn new(queue: Address, node: Arc<dyn Node>) -> Arc<Self> {
        Arc::new(Self { queue, node, ended: OnceLock::new() })
    }

    /// Another guard's, on the same node.
    pub(crate) fn beside(&self) -> Arc<Self> {
        Self::new(self.queue.clone(), Arc::clone(&self.node))
    }

    pub(crate) fn check(&self) -> Result<()> {
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
    pub(crate) fn lost(&self) -> Option<LostReason> {
        match self.ended.get() {
            None => self.node.state().lost(),
            Some(Release::AlreadyLost(reason)) => Some(*reason),
            Some(Release::Released) => None,
        }
    }

    /// The state now; `None` once it was released in time.
    pub(crate) fn state(&self) -> Option<LeaseState> {
        match self.ended.get() {
            None => Some(self.node.state().state()),
            Some(Release::AlreadyLost(reason)) => Some(LeaseState::Lost(*reason)),
            Some(Release::Released) => None,
        }
    }

    /// How it ended by its owner's hand, once it did.
    pub(crate) fn ended(&self) -> Option<Release> {
        self.ended.get().copied()
    }

    /// The owner ends it: the first call counts. Answers whether this was it.
    pub(crate) fn end(&self) -> bool {
        let release = self.node.state().lost().map_or(Release::Released, Release::AlreadyLost);
        let first = self.ended.set(release).is_ok();
        self.node.state().nudge();
        first
    }

    pub(crate) async fn until_ended(&self) {
        self.node.state().until(|| self.ended()).await;
    }
}

impl Holding {
    /// `at_least`: the node is not given back sooner, however soon it is released.
    pub(crate) fn new(
        coordinator: Coordinator,
        queue: Address,
        node: Arc<dyn Node>,
        at_least: Option<Duration>,
    ) -> Self {
        if let Some(length) = at_least {
            node.state().keep_until(coordinator.clock().now() + length);
            coordinator.departures().keep(&node);
        }
        let holding = Self {
            coordinator,
            tenure: Tenure::new(queue, node),
            turned: AtomicBool::new(false),
            turns: AtomicBool::new(false),
            span: Mutex::default(),
        };
        holding.leave_at_fixed_end();
        holding
    }

    /// Shows it in traces, from now to its end.
    pub(crate) fn trace(&self, span: Span) {
        *self.span.lock() = (!span.is_disabled()).then(|| Box::new(span));
    }

    /// Its owner's hand ends it: the first call counts. Answers whether this was it.
    fn end(&self) -> bool {
        let first = self.tenure.end();
        let span = self.span.lock().take();
        if first && let Some(Release::AlreadyLost(reason)) = self.tenure.ended() {
            let (key, token) = (self.tenure.queue.name(), self.token());
            let tell = || match reason {
                LostReason::Closed => tracing::debug!(key, %token, %reason, "a hold was lost by a close"),
                _ => tracing::warn!(key, %token, %reason, "a hold was lost before it was given back"),
            };
            match &span {
                Some(span) => span.record("lost", tracing::field::display(reason)).in_scope(tell),
                None => tell(),
            }
        }
        first
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
        self.coordinator.departures().beside(async move {
            tokio::select! {
                () = tenure.until_ended() => {}
                () = clock.sleep_until(end) => departures.push(tenure.departure()),
            }
        });
    }

    /// Gives it back, as [`Hold::release`](crate::Hold::release).
    pub(crate) async fn release(&self) -> Result<Release> {
        self.give_back().await.map_err(|error| error.in_operation("release").on(self.tenure.queue.name()))
    }

    async fn give_back(&self) -> Result<Release> {
        let Tenure { node, ended, .. } = &*self.tenure;
        let lease = node.state().lease();
        let departing = self.end().then(|| Departing { holding: self, confirmed: false });
        let release = *ended.get().expect("ended above, if not before");
        if matches!(release, Release::AlreadyLost(_)) {
            // The server's side is given back all the same (RULES C6), but nobody waits for it.
            return Ok(release);
        }
        if node.state().is_kept() {
            // Nothing to wait for: the owner is done with it, and nobody else can have it yet.
            if let Some(departing) = departing {
                departing.later();
            }
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

    /// In the background, once the least time of the hold is over.
    fn later(self) {}
}

impl Drop for Departing<'_> {
    fn drop(&mut self) {
        if !self.confirmed {
            self.holding.coordinator.departures().push(self.holding.tenure.departure());
        }
    }
}

impl Holding {
    /// Turns the node of a writer into a reader's, in its place: tried until it is confirmed, or the hold's deadline.
    /// Dropped or refused, it goes on in the background.
    pub(crate) async fn downgrade(&self) -> Result<()> {
        if self.turned.load(Ordering::Acquire) {
            // Whatever has become of the reader's since.
            return Ok(());
        }
        self.tenure.check()?;
        let lease = self.tenure.node.state().lease();
        let (turn, turning) = (self.turn(true), Turning { holding: self, over: false });
        tokio::select! {
            biased;
            turned = settle(&**self.coordinator.backend(), &turn, self.coordinator.request_timeout()) => {
                match &turned {
                    Ok(()) => turning.confirm(),
                    Err(error) if is_over(error) => turning.over(),
                    // The node may live as long as this process, and others' readers wait for it.
                    Err(_) => drop(turning),
                }
                turned
            }
            () = lease.clock().sleep_until(lease.deadline()) => {
                Err(Error::new(ErrorKind::Unknown, "the downgrade was not confirmed before the hold's deadline"))
            }
        }
    }

    /// As [`downgrade`](Holding::downgrade), in the background, and not before its least time is over.
    pub(crate) fn downgrade_later(&self) {
        self.coordinator.departures().push(self.turn(false));
    }

    fn turn(&self, at_once: bool) -> Departure {
        let Tenure { queue, node, .. } = &*self.tenure;
        Departure::Downgrade { queue: queue.clone(), node: Arc::clone(node), at_once }
    }
}

/// A downgrade under way: readers wait for it, whatever becomes of the future that asked.
struct Turning<'a> {
    holding: &'a Holding,
    over: bool,
}

impl Turning<'_> {
    fn confirm(self) {
        self.holding.turned.store(true, Ordering::Release);
        self.over();
    }

    fn over(mut self) {
        self.over = true;
    }
}

impl Drop for Turning<'_> {
    fn drop(&mut self) {
        // Once is enough, however often it is asked for.
        if !self.over && !self.holding.turns.swap(true, Ordering::AcqRel) {
            self.holding.coordinator.departures().push(self.holding.turn(true));
        }
    }
}

impl Holding {
    /// Releases in the background. Does nothing after a release.
    pub(crate) fn let_go(&self) {
        if self.end() {
            self.coordinator.departures().push(self.tenure.departure());
        }
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl fmt::Debug for Tenure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenure")
            .field("queue", &self.queue)
            .field("node", self.node.state())
            .field("ended", &self.ended)
            .finish()
    }
}

impl fmt::Debug for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holding").field("tenure", &self.tenure).finish_non_exhaustive()
    }
}
