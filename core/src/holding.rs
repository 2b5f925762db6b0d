//! One held node, and its way back: by a release, by a drop, or at its fixed end.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tracing::Span;

use crate::address::Address;
use crate::clock::Moment;
use crate::contracts::{LeaseState, Leave, Node};
use crate::coordinator::Coordinator;
use crate::decide::given_back_at;
use crate::departures::{Departure, is_over, settle};
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::hold::Release;
use crate::loss::Ended;
use crate::token::Token;

/// One node, and its way back: what the guards of one hold, or all guards of one owner, have inside.
pub(crate) struct Holding {
    coordinator: Coordinator,
    pub(crate) tenure: Arc<Tenure>,
    pub(crate) node: Arc<dyn Node>,
    // The server has confirmed a downgrade; one goes on in the background.
    turned: AtomicBool,
    turns: AtomicBool,
    // Where somebody listens, until its end.
    span: Mutex<Option<Box<Span>>>,
}

/// One guard's time: what it shares with its `lost()` handles and state streams. Ended by its own release, whoever
/// else holds the node. From then on a handle keeps neither the node nor its client alive.
#[doc(hidden)]
pub struct Tenure {
    pub(crate) queue: Address,
    // Until its end.
    node: Mutex<Option<Arc<dyn Node>>>,
    // How the hold ended by its owner's hand, once it did. Set before the node goes, whose state tells whoever waits for it.
    ended: OnceLock<Release>,
}

impl Tenure {
    fn new(queue: Address, node: Arc<dyn Node>) -> Arc<Self> {
        Arc::new(Self { queue, node: Mutex::new(Some(node)), ended: OnceLock::new() })
    }

    /// The node, until its owner ends it.
    pub(crate) fn node(&self) -> Option<Arc<dyn Node>> {
        self.node.lock().clone()
    }

    pub(crate) fn check(&self) -> Result<()> {
        Err(match self.ended() {
            None => return Ok(()),
            Some(Ended::Lost(reason)) => Error::lost(reason),
            Some(Ended::Released) => Error::new(ErrorKind::NotHeld, "it was released"),
        }
        .on(self.queue.name()))
    }

    /// How it ended, by the clock at this call; `None` while it is held.
    pub(crate) fn ended(&self) -> Option<Ended> {
        match self.node() {
            Some(node) => node.state().lost().map(Ended::Lost),
            None => self.by_its_owner().map(|release| match release {
                Release::Released => Ended::Released,
                Release::AlreadyLost(reason) => Ended::Lost(reason),
            }),
        }
    }

    /// The state now; `None` once it was released in time.
    pub(crate) fn state(&self) -> Option<LeaseState> {
        match self.node() {
            Some(node) => Some(node.state().state()),
            None => match self.by_its_owner() {
                Some(Release::AlreadyLost(reason)) => Some(LeaseState::Lost(reason)),
                _ => None,
            },
        }
    }

    /// How much of it is left: nothing once it is lost or released.
    pub(crate) fn remaining(&self) -> Duration {
        let Some(node) = self.node() else { return Duration::ZERO };
        let (state, now) = (node.state(), node.state().lease().clock().now());
        match state.lost() {
            None => state.lease().deadline().min(state.fixed_end()).since(now),
            Some(_) => Duration::ZERO,
        }
    }

    /// How it ended by its owner's hand, once it did.
    pub(crate) fn by_its_owner(&self) -> Option<Release> {
        self.ended.get().copied()
    }

    /// The owner ends it: the first call counts. Answers whether this was it.
    pub(crate) fn end(&self) -> bool {
        let Some(node) = self.node() else { return false };
        let release = node.state().lost().map_or(Release::Released, Release::AlreadyLost);
        let first = self.ended.set(release).is_ok();
        self.node.lock().take();
        node.state().nudge();
        first
    }

    /// Waits until its owner has ended it.
    pub(crate) async fn until_ended(&self) {
        if let Some(node) = self.node() {
            node.state().until(|| self.by_its_owner().map(drop)).await;
        }
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
        let tenure = Tenure::new(queue, Arc::clone(&node));
        coordinator.live().add(&tenure);
        let holding = Self {
            coordinator,
            tenure,
            node,
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

    /// Another guard's time, on the same node.
    pub(crate) fn beside(&self) -> Arc<Tenure> {
        Tenure::new(self.tenure.queue.clone(), Arc::clone(&self.node))
    }

    /// Its owner's hand ends it: the first call counts. Answers whether this was it.
    fn end(&self) -> bool {
        let first = self.tenure.end();
        let span = self.span.lock().take();
        let (key, token) = (self.tenure.queue.name(), self.token());
        if first && self.tenure.by_its_owner() == Some(Release::Released) {
            tracing::debug!(key, %token, "released");
        }
        if first && let Some(Release::AlreadyLost(reason)) = self.tenure.by_its_owner() {
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
        Token::new(0, self.node.state().sequence()).expect("checked at admission")
    }

    /// The server must be told of a fixed end even when nobody looks, and one margin later: what the holder was doing when
    /// it counted itself lost is over by then as it is at an expiry (LEASE-FIXED).
    fn leave_at_fixed_end(&self) {
        let end = self.node.state().fixed_end();
        if end == Moment::NEVER {
            return;
        }
        let (clock, departures) = (self.coordinator.clock(), self.coordinator.departures().clone());
        let live = self.coordinator.live().clone();
        let (tenure, node, departure) = (Arc::clone(&self.tenure), Arc::clone(&self.node), self.departure());
        self.coordinator.departures().beside(async move {
            tokio::select! {
                biased;
                () = tenure.until_ended() => {}
                () = clock.sleep_until(end) => {}
            }
            let state = node.state();
            // Its owner gave it back in time, or a close does.
            if tenure.by_its_owner() == Some(Release::Released) || state.lost() != Some(LostReason::MaxHold) {
                return;
            }
            clock.sleep_until(given_back_at(end, state.lease().ttl())).await;
            if !state.has_departed() {
                departures.push(departure);
            }
            // One that was dropped is waited for until here.
            if tenure.by_its_owner().is_some() {
                live.remove(&tenure);
            }
        });
    }

    fn departure(&self) -> Departure {
        let (queue, node) = (self.tenure.queue.clone(), Arc::clone(&self.node));
        Departure::Leave { queue, node, asked: false }
    }

    /// Gives it back, as [`Hold::release`](crate::Hold::release).
    pub(crate) async fn release(&self) -> Result<Release> {
        self.give_back().await.map_err(|error| error.in_operation("release").on(self.tenure.queue.name()))
    }

    async fn give_back(&self) -> Result<Release> {
        let node = &self.node;
        let lease = node.state().lease();
        let departing = self.end().then(|| {
            self.coordinator.live().remove(&self.tenure);
            Departing { holding: self, asked: false, confirmed: false }
        });
        let release = self.tenure.by_its_owner().expect("ended above, if not before");
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
        let late =
            || Error::new(ErrorKind::Unknown, "the release was not confirmed before the hold's deadline");
        let confirmed = async {
            tokio::select! {
                biased;
                departed = self.depart(departing) => match departed.map_err(|error| (error.lost_reason(), error)) {
                    Ok(()) => Ok(release),
                    // The server's word: it was not there at the first try. Later it may be the end of our own lease that says so.
                    Err((Some(reason), _)) if lease.clock().now() < lease.deadline() => Ok(Release::AlreadyLost(reason)),
                    Err((Some(_), _)) => Err(late()),
                    Err((None, error)) => Err(Error::new(ErrorKind::Unknown, "the release was not confirmed").because(error)),
                },
                () = lease.clock().sleep_until(lease.deadline()) => Err(late()),
            }
        };
        self.coordinator.serve(confirmed).await
    }

    /// Leaves, or waits for the leave of an earlier call or of the background.
    async fn depart(&self, departing: Option<Departing<'_>>) -> Result<()> {
        let (queue, node) = (&self.tenure.queue, &self.node);
        if let Some(mut departing) = departing {
            // Until an answer says otherwise, and where this future is dropped meanwhile.
            departing.asked = true;
            match node.leave().await {
                Ok(Leave::Removed) => departing.confirm(Ok(())),
                Ok(Leave::Absent(reason)) => {
                    tracing::warn!(
                        key = queue.name(), token = %departing.holding.token(), %reason,
                        "a hold was lost before it was given back"
                    );
                    departing.confirm(Err(Error::lost(reason)));
                }
                Err(error) => {
                    tracing::debug!(%error, key = queue.name(), "a release is tried again");
                    departing.asked = error.kind() != &ErrorKind::Unavailable;
                }
            }
        }
        node.state().departed().await
    }
}

/// A leave under way: dropped before it is confirmed, it goes on in the background.
struct Departing<'a> {
    holding: &'a Holding,
    // A request was sent, whose answer is not known.
    asked: bool,
    confirmed: bool,
}

impl Departing<'_> {
    fn confirm(mut self, outcome: Result<()>) {
        self.confirmed = true;
        self.holding.node.state().depart(outcome);
    }

    /// In the background, once the least time of the hold is over.
    fn later(self) {}
}

impl Drop for Departing<'_> {
    fn drop(&mut self) {
        if !self.confirmed {
            let (queue, node) = (self.holding.tenure.queue.clone(), Arc::clone(&self.holding.node));
            self.holding.coordinator.departures().push(Departure::Leave { queue, node, asked: self.asked });
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
        let lease = self.node.state().lease();
        let (mut turn, turning) = (self.turn(true), Turning { holding: self, over: false });
        let confirmed = async {
            tokio::select! {
                biased;
                turned = settle(&**self.coordinator.backend(), &mut turn, self.coordinator.request_timeout()) => {
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
        };
        self.coordinator.serve(confirmed).await
    }

    /// As [`downgrade`](Holding::downgrade), in the background, and not before its least time is over.
    pub(crate) fn downgrade_later(&self) {
        self.coordinator.departures().push(self.turn(false));
    }

    fn turn(&self, at_once: bool) -> Departure {
        let (queue, node) = (self.tenure.queue.clone(), Arc::clone(&self.node));
        Departure::Downgrade { queue, node, at_once }
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
        // What was lost at its fixed end or by a close is given back a margin later, by whoever waits for that: what ran under the
        // guard may go on beyond it. A close in between waits for it too.
        if self.end() && !self.node.state().lingers() {
            self.coordinator.live().remove(&self.tenure);
            self.coordinator.departures().push(self.departure());
        }
    }

    /// Its owner has released it, though it was lost before: nobody waits for that.
    pub(crate) fn give_back_lost(&self) {
        if self.end() {
            self.coordinator.live().remove(&self.tenure);
            self.coordinator.departures().push(self.departure());
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
            .field("node", &self.node().map(|node| format!("{:?}", node.state())))
            .field("ended", &self.ended)
            .finish()
    }
}

impl fmt::Debug for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holding").field("tenure", &self.tenure).finish_non_exhaustive()
    }
}
