//! One node of this client in a queue.

use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use tokio::sync::Notify;

use super::lease::{Lease, LeaseKeeper, LeaseState};
use crate::clock::Moment;
use crate::decide::given_back_at;
use crate::error::{LostReason, Result};

/// What this client knows of one of its nodes: read by the hold and all its `lost()` handles, written through its
/// [`NodeKeeper`], which only the backend has.
pub struct NodeState {
    lease: LeaseKeeper,
    sequence: u64,
    // The first reason that was told or found.
    gone: OnceLock<LostReason>,
    fixed_end: AtomicU64,
    kept_until: AtomicU64,
    going: AtomicBool,
    departed: OnceLock<Result<()>>,
    changed: Notify,
}

impl NodeState {
    fn new(lease: LeaseKeeper, sequence: u64) -> Self {
        Self {
            lease,
            sequence,
            gone: OnceLock::new(),
            fixed_end: AtomicU64::new(Moment::NEVER.as_nanos()),
            kept_until: AtomicU64::new(Moment::PAST.as_nanos()),
            going: AtomicBool::new(false),
            departed: OnceLock::new(),
            changed: Notify::new(),
        }
    }

    /// The lease that it hangs on.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Its sequence number: its place in the queue and, once admitted, the source of its token (NODE-ORDER, NODE-TOKEN).
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// It is lost. The first reason stays.
    pub(crate) fn gone(&self, reason: LostReason) {
        if self.lost().is_none() {
            let _ = self.gone.set(reason);
        }
        self.nudge();
    }

    /// Sets the instant at which the hold ends whatever the lease says (LEASE-FIXED). A backend that
    /// renews nodes one by one does not renew this one past it.
    pub(crate) fn end_at(&self, end: Moment) {
        self.fixed_end.fetch_min(end.as_nanos(), Ordering::AcqRel);
        self.nudge();
    }

    /// The instant at which the hold ends whatever the lease says; `Moment::NEVER` where none was asked for.
    pub fn fixed_end(&self) -> Moment {
        Moment::from_nanos(self.fixed_end.load(Ordering::Acquire))
    }

    /// Sets the instant before which the node is not given back, though its owner has let it go (`hold_at_least`).
    pub(crate) fn keep_until(&self, end: Moment) {
        self.kept_until.fetch_max(end.as_nanos(), Ordering::AcqRel);
    }

    /// The instant before which the node is not given back; `Moment::PAST` where none was asked for. A backend
    /// whose nodes expire one by one leaves such a node to its expiry when it is closed before.
    pub fn kept_until(&self) -> Moment {
        Moment::from_nanos(self.kept_until.load(Ordering::Acquire))
    }

    /// Core: it is to be left, as soon as there is room for that.
    pub(crate) fn let_go(&self) {
        self.going.store(true, Ordering::Release);
    }

    /// Whether core is about to leave it: a backend that renews nodes one by one renews it no more (RULES A16), or what was dropped
    /// by the thousand would take the time of what is held. It may run out before its leave.
    pub fn is_let_go(&self) -> bool {
        self.going.load(Ordering::Acquire)
    }

    /// Core: whether it is not to be given back yet.
    pub(crate) fn is_kept(&self) -> bool {
        self.lease.clock().now() < self.kept_until()
    }

    /// Core: taking it back came to its end, confirmed or not. The first outcome stays.
    pub(crate) fn depart(&self, outcome: Result<()>) {
        let _ = self.departed.set(outcome);
        self.nudge();
    }

    /// Core: whether its departure has an outcome.
    pub(crate) fn has_departed(&self) -> bool {
        self.departed.get().is_some()
    }

    /// Waits until its departure has an outcome.
    pub(crate) async fn departed(&self) -> Result<()> {
        self.until(|| self.departed.get().cloned()).await
    }

    /// Core: something that is told here has changed. One bell for all that is told of a node: who holds thousands has
    /// thousands of them.
    pub(crate) fn nudge(&self) {
        self.changed.notify_waiters();
    }

    /// Core: waits until this is found, which whoever brings it about tells by a nudge.
    pub(crate) async fn until<T>(&self, found: impl Fn() -> Option<T>) -> T {
        loop {
            if let Some(found) = found() {
                return found;
            }
            let notified = self.changed.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if let Some(found) = found() {
                return found;
            }
            notified.await;
        }
    }

    /// Why the node is lost, or `None` while it is not. A function of the clock at the call; the first reason that is found stays.
    pub fn lost(&self) -> Option<LostReason> {
        if let Some(&reason) = self.gone.get() {
            return Some(reason);
        }
        let end = self.fixed_end();
        // Whichever came first.
        let reason = match self.lease.ending() {
            Some((reason, at)) if at < end => reason,
            None if end == Moment::NEVER || self.lease.clock().now() < end => return None,
            _ => LostReason::MaxHold,
        };
        Some(*self.gone.get_or_init(|| reason))
    }

    /// Whether it is lost by this client's own doing, its fixed end or a close, and too short a time ago for others to come in
    /// (LEASE-FIXED, LEASE-CLOSE): what its holder was doing may not be over. Core gives such a node back a margin later; a backend
    /// that gives back by itself what is lost leaves it alone.
    pub fn lingers(&self) -> bool {
        match self.lost() {
            Some(LostReason::Closed) => true,
            Some(LostReason::MaxHold) => {
                self.lease.clock().now() < given_back_at(self.fixed_end(), self.lease.ttl())
            }
            _ => false,
        }
    }

    /// The state that a holder sees now.
    pub fn state(&self) -> LeaseState {
        match self.lost() {
            Some(reason) => LeaseState::Lost(reason),
            None => self.lease.state(),
        }
    }

    /// Waits until the state differs from `seen`, and answers the new one.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn changed(&self, seen: LeaseState) -> LeaseState {
        loop {
            let notified = self.changed.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            // Read before our own: a change in between must end the wait, or it would be slept through.
            let lease_seen = self.lease.state();
            let state = self.state();
            if state != seen {
                return state;
            }
            let end = match state {
                // It stays so, and a fixed end that has passed would be waited for in a tight loop.
                LeaseState::Lost(_) => Moment::NEVER,
                _ => self.fixed_end(),
            };
            tokio::select! {
                () = notified => {}
                _ = self.lease.changed(lease_seen) => {}
                () = self.lease.clock().sleep_until(end) => {}
            }
        }
    }

    /// Waits until the node is lost.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn until_lost(&self) -> LostReason {
        let mut state = self.state();
        loop {
            match state {
                LeaseState::Lost(reason) => return reason,
                seen => state = self.changed(seen).await,
            }
        }
    }
}

/// What writes a [`NodeState`]: the backend that made the node has it, and gives out the state. (Whoever has it reads the state too.)
pub struct NodeKeeper(NodeState);

impl NodeKeeper {
    /// The keeper of a node with its sequence number, that hangs on this keeper's lease.
    pub fn new(lease: LeaseKeeper, sequence: u64) -> Self {
        Self(NodeState::new(lease, sequence))
    }

    /// The node is gone from the server though we did not leave (NODE-GONE). The first reason stays.
    pub fn gone(&self, reason: LostReason) {
        self.0.gone(reason);
    }

    /// What writes the lease that it hangs on.
    pub fn lease_keeper(&self) -> &LeaseKeeper {
        &self.0.lease
    }
}

impl Deref for NodeKeeper {
    type Target = NodeState;

    fn deref(&self) -> &NodeState {
        &self.0
    }
}

impl fmt::Debug for NodeKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeState").field("sequence", &self.sequence).field("state", &self.state()).finish()
    }
}

/// What the server answers to a [`leave`](Node::leave).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// It was there until now: this leave has removed it, by this request, or by an earlier one where the backend knows that.
    Removed,
    /// It was not there when this request came, for this reason; `Revoked` where the backend does not know better. An earlier
    /// request of this leave may have removed it, whose reply was lost: core keeps count of those.
    Absent(LostReason),
}

impl Leave {
    /// The answer of a server that only says whether it was there: who was not, was removed by another's hand.
    pub fn of(was_there: bool) -> Self {
        if was_there { Leave::Removed } else { Leave::Absent(LostReason::Revoked) }
    }
}

/// A node that a join has made. Its owner gives it back with [`leave`](Node::leave); dropping it does not.
#[async_trait]
pub trait Node: fmt::Debug + Send + Sync {
    /// What this client knows of it.
    fn state(&self) -> &NodeState;

    /// Waits until the node is admitted (NODE-WAIT): driven by events, re-reading after each watch is
    /// armed, with a re-check in case the server or the network drops the wake-up (NODE-NO-LOST-WAKE).
    /// Returns at once when it is admitted already, and never when only an event, not the
    /// rule, says so. Transport errors are healed within (reconnect, list again, arm again).
    ///
    /// # Errors
    /// `Lost`, when the node is gone or its lease is lost (`NodeState::lost` says the same); `Misconfigured`
    /// when the admitted sequence does not fit a token; `Conflict` when the limit was set below its weight while it waited,
    /// so that it cannot be admitted any more (core takes the node back).
    ///
    /// # Cancel safety
    /// Cancel-safe: may be dropped and called again. The node stays until it is left.
    async fn admitted(&self) -> Result<()>;

    /// Removes this one incarnation and nothing newer (NODE-LEAVE-OWN), and wakes those that it admits. One try,
    /// bounded by the request timeout. Whether it was there is the server's to say, and what the release answers. Core retries
    /// what fails, until it is confirmed or the lease is lost.
    ///
    /// The node is taken out of renewal before the request is sent (RULES A16). Where a request of its join
    /// had an unknown outcome (`Join::repeated`), the leave leaves a tombstone, as an abandon does: the
    /// lost request may still be on its way, and would make a ghost after the leave (RULES A11, B9).
    ///
    /// Another leave may come while one is under way (a release at the hold's fixed end), and is answered for itself.
    ///
    /// # Errors
    /// `Unavailable` when the request was surely not carried out; `Unknown` when its reply was lost.
    ///
    /// # Cancel safety
    /// A dropped leave may or may not have been carried out; leaving again is harmless.
    async fn leave(&self) -> Result<Leave>;

    /// Turns this exclusive node of a read/write lock, which is admitted, into a shared one (RULES B12): it keeps its
    /// place and its sequence number, and the readers up to the next writer behind it are admitted and woken. One try, bounded
    /// by the request timeout; harmless to repeat, also when it was carried out before. Core retries what fails, until
    /// it is confirmed or the lease is lost.
    ///
    /// A [`leave`](Node::leave) may come while one is under way, or after one with an unknown outcome: it removes the node
    /// whichever of the two it is, and a downgrade that lands later makes nothing. So may another downgrade: the node is turned
    /// once.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the request or its reply was lost; `Lost` when the node is gone.
    ///
    /// # Cancel safety
    /// A dropped downgrade may or may not have been carried out; downgrading again is harmless.
    async fn downgrade(&self) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;
    use crate::clock::Clock;

    #[tokio::test(start_paused = true)]
    async fn the_reason_of_a_loss_stays_when_the_fixed_end_comes_after_it() {
        for (reason, looked) in [LostReason::Closed, LostReason::Expired]
            .into_iter()
            .flat_map(|reason| [(reason, true), (reason, false)])
        {
            let (clock, hold) = (Clock::tokio(), Duration::from_secs(5));
            let node = NodeKeeper::new(LeaseKeeper::new(clock.clone(), 2 * hold, clock.now()), 1);
            node.end_at(clock.now() + hold);
            node.lease_keeper().end(reason);
            if looked {
                assert_eq!(node.lost(), Some(reason));
            }
            clock.jump(hold);
            assert_eq!(node.lost(), Some(reason), "looked: {looked}");
        }
    }

    #[test]
    fn whoever_waits_behind_a_loss_by_the_fixed_end_waits_and_does_not_spin() {
        let (yielded, answer) = mpsc::channel();
        // On a thread of its own, which a wait that never yields keeps.
        thread::spawn(move || {
            let clock = Clock::system();
            let node = NodeKeeper::new(LeaseKeeper::new(clock.clone(), Duration::ZERO, clock.now()), 1);
            node.end_at(Moment::PAST);
            let seen = node.state();
            yielded.send((seen, node.changed(seen).now_or_never()))
        });
        let waits = answer.recv_timeout(Duration::from_secs(10));
        assert_eq!(waits, Ok((LeaseState::Lost(LostReason::MaxHold), None)));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_begins_to_wait_as_the_loss_happens_is_told() {
        const TTL: Duration = Duration::from_secs(10);
        for reading in 0..8 {
            let clock = Clock::tokio();
            let node = NodeKeeper::new(LeaseKeeper::new(clock.clone(), TTL, clock.now()), 1);
            let slept = clock.clone();
            clock.meanwhile(reading, move || slept.jump(TTL));
            let mut waiting = Box::pin(node.until_lost());
            let told = (&mut waiting).now_or_never();
            // By now at the latest, should the wait have read the clock less often.
            (0..=reading).for_each(|_| {
                clock.now();
            });
            node.lease_keeper().tick();
            let told = told.or_else(|| waiting.now_or_never());
            assert_eq!(told, Some(LostReason::Expired), "after reading {reading}");
        }
    }
}
