//! The Lease contract: how long the coordinator counts on a client.

use std::fmt;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::{Clock, Moment};
use crate::decide::{margin, valid_until};
use crate::error::LostReason;

/// What a lease's holder may count on (LEASE-STATE).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaseState {
    /// Renewed in time.
    Live,
    /// A renewal was not answered within its period; the deadline is not reached. Holds stay held, new acquisitions wait.
    Suspended,
    /// Final: another client may hold what hung on this lease.
    Lost(LostReason),
}

/// One lease, as this client sees it: read by every hold that hangs on it, written through its [`LeaseKeeper`], which only the
/// backend has. On Redis each node has a lease of its own, elsewhere all nodes of a client share one.
///
/// * `LEASE-ALIVE`: the backend renews it in the background for all that hangs on it, before whatever else is queued
///   (as [`Turns`](super::Turns) see to).
/// * `LEASE-DEADLINE`: [`deadline`](Lease::deadline) is the SEND time of the request whose reply proves
///   contact, plus the granted TTL, less the margin. From then on the lease is lost, connected or not, and a later reply
///   does not revive it.
/// * `LEASE-STATE`, `LEASE-KEEPER`: the state is a function of the clock at the call, not of a timer or of
///   a task: a blocked runtime, a stopped process or a dead task shows at the first call after.
/// * `LEASE-TTL`: [`ttl`](Lease::ttl) is what the server granted, and rules all arithmetic.
///
/// Everybody may read it:
///
/// ```
/// # use latchwork_core::{connect, Config, contracts::LeaseState, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let lease = coordinator.lease();
/// assert_eq!(lease.state(), LeaseState::Live);
/// assert!(lease.deadline() > lease.clock().now());
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
///
/// No user of it can move its deadline, suspend it or end it:
///
/// ```compile_fail,E0599
/// # use latchwork_core::{connect, Config, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// coordinator.lease().proven_until(coordinator.lease().opened(), coordinator.lease().deadline());
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
///
/// ```compile_fail,E0599
/// # use latchwork_core::{connect, Config, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// coordinator.lease().suspend();
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
///
/// ```compile_fail,E0599
/// # use latchwork_core::{connect, Config, LostReason, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// coordinator.lease().end(LostReason::Revoked);
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Lease(Arc<Inner>);

struct Inner {
    clock: Clock,
    ttl: Duration,
    opened: Moment,
    deadline: AtomicU64,
    // The instant by which the oldest outstanding renewal must be answered; NEVER when none is outstanding.
    due: AtomicU64,
    // What is outstanding. Held while `due` is written.
    asked: Mutex<Asked>,
    // Why it is over, and since when.
    ended: OnceLock<(LostReason, Moment)>,
    // Of a stand-in: what it stood in for.
    became: OnceLock<Lease>,
    changed: Notify,
}

/// Requests without an answer, by when they were sent and when they are due. A lease is renewed three times in its TTL; what is more
/// than that counts as one with the last.
#[derive(Debug)]
struct Asked([(Moment, Moment); 3]);

const ANSWERED: (Moment, Moment) = (Moment::NEVER, Moment::NEVER);

impl Default for Asked {
    fn default() -> Self {
        Self([ANSWERED; 3])
    }
}

impl Asked {
    fn add(&mut self, sent: Moment, due: Moment) {
        let free = self.0.iter().position(|&slot| slot == ANSWERED);
        let (slot, before) = match free {
            Some(free) => (&mut self.0[free], Moment::NEVER),
            None => {
                let last = self.0.iter_mut().max_by_key(|slot| slot.0).expect("three");
                let before = last.1;
                (last, before)
            }
        };
        *slot = (sent, due.min(before));
    }

    /// A request sent at `sent` was answered: so late, the ones before it are not waited for any more.
    fn answered(&mut self, sent: Moment) {
        for slot in self.0.iter_mut().filter(|slot| slot.0 <= sent) {
            *slot = ANSWERED;
        }
    }

    /// When the oldest is due.
    fn due(&self) -> Moment {
        self.0.iter().map(|slot| slot.1).min().expect("three")
    }
}

impl Inner {
    fn deadline(&self) -> Moment {
        Moment::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    fn due(&self) -> Moment {
        Moment::from_nanos(self.due.load(Ordering::Acquire))
    }

    fn state(&self) -> LeaseState {
        if let Some(&(reason, _)) = self.ended.get() {
            return LeaseState::Lost(reason);
        }
        let now = self.clock.now();
        if now >= self.deadline() {
            // Final from the first look that sees it, whatever a keeper is about to write (RULES C5): a new
            // lease may be opened by it.
            LeaseState::Lost(self.ended.get_or_init(|| (LostReason::Expired, self.deadline())).0)
        } else if now >= self.due() {
            LeaseState::Suspended
        } else {
            LeaseState::Live
        }
    }
}

impl Lease {
    /// The lease that it stood in for is there: every handle of the stand-in is one of that lease from now on.
    pub(crate) fn becomes(&self, lease: Lease) {
        let _ = self.0.became.set(lease);
        self.0.changed.notify_waiters();
    }

    fn inner(&self) -> &Inner {
        self.0.became.get().map_or(&self.0, Lease::inner)
    }

    fn until(clock: Clock, ttl: Duration, opened: Moment, deadline: Moment) -> Self {
        Self(Arc::new(Inner {
            clock,
            ttl,
            opened,
            deadline: AtomicU64::new(deadline.as_nanos()),
            due: AtomicU64::new(Moment::NEVER.as_nanos()),
            asked: Mutex::default(),
            ended: OnceLock::new(),
            became: OnceLock::new(),
            changed: Notify::new(),
        }))
    }

    /// The clock that it is counted by.
    pub fn clock(&self) -> &Clock {
        &self.inner().clock
    }

    /// The TTL that the server granted.
    pub fn ttl(&self) -> Duration {
        self.inner().ttl
    }

    /// The SEND time of the request that opened it: no node hangs on it that was asked for before.
    pub fn opened(&self) -> Moment {
        self.inner().opened
    }

    /// Why it is lost and since when, or `None` while it is not.
    pub(crate) fn ending(&self) -> Option<(LostReason, Moment)> {
        let inner = self.inner();
        // Looked at, so that a deadline that has passed is one.
        inner.state();
        inner.ended.get().copied()
    }

    /// What this client gives up earlier than the server.
    pub fn margin(&self) -> Duration {
        margin(self.ttl())
    }

    /// The instant at which it counts itself lost unless it is proven again.
    pub fn deadline(&self) -> Moment {
        self.inner().deadline()
    }

    /// The state now.
    pub fn state(&self) -> LeaseState {
        self.inner().state()
    }

    /// Why it is lost, or `None` while it is not.
    pub fn lost(&self) -> Option<LostReason> {
        match self.state() {
            LeaseState::Lost(reason) => Some(reason),
            _ => None,
        }
    }

    /// Waits until the state differs from `seen`, and answers the new one.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn changed(&self, seen: LeaseState) -> LeaseState {
        loop {
            let inner = self.inner();
            let notified = inner.changed.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if !ptr::eq(inner, self.inner()) {
                // A stand-in that became another meanwhile, which tells its changes itself.
                continue;
            }
            let state = inner.state();
            if state != seen {
                return state;
            }
            let next = match state {
                LeaseState::Live => inner.deadline().min(inner.due()),
                LeaseState::Suspended => inner.deadline(),
                LeaseState::Lost(_) => Moment::NEVER,
            };
            tokio::select! {
                () = notified => {}
                () = inner.clock.sleep_until(next) => {}
            }
        }
    }

    /// Waits until it is lost.
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

    /// Whether two handles are of one lease.
    pub fn same_as(&self, other: &Lease) -> bool {
        ptr::eq(self.inner(), other.inner())
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("ttl", &self.ttl()).field("state", &self.state()).finish()
    }
}

/// What writes a [`Lease`]: the backend that renews it has one, and gives out the lease. (Whoever has it reads the lease too.)
#[derive(Clone)]
pub struct LeaseKeeper(Lease);

impl LeaseKeeper {
    /// The keeper of a lease of `ttl` (as granted) that is proven by a request sent at `sent`.
    pub fn new(clock: Clock, ttl: Duration, sent: Moment) -> Self {
        Self(Lease::until(clock, ttl, sent, valid_until(sent, ttl)))
    }

    /// A stand-in for a lease that is not established yet: suspended, and never lost by time. For a coordinator that
    /// connects lazily.
    pub(crate) fn pending(clock: Clock, ttl: Duration) -> Self {
        let lease = Lease::until(clock, ttl, Moment::PAST, Moment::NEVER);
        lease.0.due.store(Moment::PAST.as_nanos(), Ordering::Release);
        Self(lease)
    }

    /// The lease, to be read.
    pub fn lease(&self) -> &Lease {
        &self.0
    }

    /// A renewal was sent at `sent`, and is late unless it is answered by `due`. A second one that goes out while the first is
    /// unanswered does not put the instant off, and stays outstanding when the first is answered.
    pub fn awaiting(&self, sent: Moment, due: Moment) {
        let inner = self.inner();
        let mut asked = inner.asked.lock();
        asked.add(sent, due);
        if inner.due.fetch_min(due.as_nanos(), Ordering::AcqRel) > due.as_nanos() {
            // Whoever waits for a change set a timer without it.
            inner.changed.notify_waiters();
        }
    }

    /// Contact is lost, so the lease is suspended from now on, until it is proven.
    pub fn suspend(&self) {
        let inner = self.inner();
        let _asked = inner.asked.lock();
        inner.due.fetch_min(inner.clock.now().as_nanos(), Ordering::AcqRel);
        inner.changed.notify_waiters();
    }

    /// The reply to a request sent at `sent` proves the lease. Answers false, and changes nothing, when the lease was lost by
    /// the time the reply is processed (RULES A5, C5).
    pub fn proven(&self, sent: Moment) -> bool {
        self.proven_until(sent, valid_until(sent, self.ttl()))
    }

    /// As [`proven`](LeaseKeeper::proven), with a deadline that was computed otherwise (ZooKeeper's
    /// [`ContactProof`](crate::decide::ContactProof)). A deadline never moves back.
    pub fn proven_until(&self, sent: Moment, deadline: Moment) -> bool {
        let inner = self.inner();
        let before = inner.state();
        if matches!(before, LeaseState::Lost(_)) {
            return false;
        }
        inner.deadline.fetch_max(deadline.as_nanos(), Ordering::AcqRel);
        let mut asked = inner.asked.lock();
        asked.answered(sent);
        inner.due.store(asked.due().as_nanos(), Ordering::Release);
        if before != LeaseState::Live {
            inner.changed.notify_waiters();
        }
        // Another may have seen the old deadline pass since: then it is lost, and the new one means nothing.
        inner.ended.get().is_none()
    }

    /// The lease is over, for a reason other than its deadline. The first reason stays.
    pub fn end(&self, reason: LostReason) {
        let inner = self.inner();
        if !matches!(inner.state(), LeaseState::Lost(_)) {
            let _ = inner.ended.set((reason, inner.clock.now()));
        }
        inner.changed.notify_waiters();
    }

    /// Wakes all who wait on this lease, to read the clock again. To be called at every renewal tick, since timers do not count a
    /// machine's sleep (RULES C2).
    pub fn tick(&self) {
        let inner = self.inner();
        if inner.state() != LeaseState::Live {
            inner.changed.notify_waiters();
        }
    }
}

impl Deref for LeaseKeeper {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.0
    }
}

impl From<LeaseKeeper> for Lease {
    fn from(keeper: LeaseKeeper) -> Self {
        keeper.0
    }
}

impl fmt::Debug for LeaseKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn lease() -> (Clock, LeaseKeeper) {
        let clock = Clock::tokio();
        let lease = LeaseKeeper::new(clock.clone(), TTL, clock.now());
        (clock, lease)
    }

    #[tokio::test(start_paused = true)]
    async fn lost_at_the_deadline_and_no_later_reply_revives_it() {
        let (clock, lease) = lease();
        let sent = clock.now();
        tokio::time::advance(Duration::from_millis(8_999)).await;
        assert_eq!(lease.state(), LeaseState::Live);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(lease.state(), LeaseState::Lost(LostReason::Expired));
        assert!(!lease.proven(sent + Duration::from_secs(5)));
        assert_eq!(lease.lost(), Some(LostReason::Expired));
    }

    #[tokio::test(start_paused = true)]
    async fn suspended_from_the_first_late_renewal_and_live_again_when_it_is_answered() {
        let (clock, lease) = lease();
        let period = TTL / 3;
        let sent = clock.now();
        lease.awaiting(sent, sent + period);
        lease.awaiting(sent + period, sent + 2 * period);
        assert_eq!(lease.changed(LeaseState::Live).await, LeaseState::Suspended);
        assert!(clock.now().since(sent) < period + Duration::from_millis(5));
        assert!(lease.proven(clock.now()));
        assert_eq!(lease.state(), LeaseState::Live);
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_answer_leaves_the_later_request_due() {
        let (clock, lease) = lease();
        let (sent, period) = (clock.now(), TTL / 3);
        for round in 0..3 {
            lease.awaiting(sent + round * period, sent + (round + 1) * period);
        }
        tokio::time::advance(period / 2).await;
        assert!(lease.proven(sent));
        assert_eq!(lease.state(), LeaseState::Live);
        tokio::time::advance(period).await;
        assert_eq!(lease.state(), LeaseState::Live);
        tokio::time::advance(period / 2 + Duration::from_millis(1)).await;
        assert_eq!(lease.state(), LeaseState::Suspended, "the second is late");
        assert!(lease.proven(sent + period));
        assert_eq!(lease.state(), LeaseState::Live);
        assert!(lease.proven(sent + 2 * period), "and so is the last, which was answered early");
        tokio::time::advance(period).await;
        assert_eq!(lease.state(), LeaseState::Live, "nothing is outstanding");
    }

    #[test]
    fn more_requests_than_are_counted_are_due_with_the_last() {
        let (mut asked, at) = (Asked::default(), Moment::from_nanos);
        for sent in 1..=5 {
            asked.add(at(sent), at(10 * sent));
        }
        assert_eq!(asked.due(), at(10));
        asked.answered(at(2));
        assert_eq!(asked.due(), at(30));
        asked.answered(at(4));
        assert_eq!(asked.due(), at(30), "the fifth is out, and counts from the third");
        asked.answered(at(5));
        assert_eq!(asked.due(), Moment::NEVER);
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_waits_already_hears_of_the_suspension_when_it_begins() {
        let (clock, lease) = lease();
        let sent = clock.now();
        let mut waiting = Box::pin(lease.changed(LeaseState::Live));
        assert!(futures_util::FutureExt::now_or_never(&mut waiting).is_none());
        lease.awaiting(sent, sent + TTL / 3);
        assert_eq!(waiting.await, LeaseState::Suspended);
        assert!(clock.now().since(sent) < TTL / 3 + Duration::from_millis(5));
    }

    /// The keeper is stopped between its look at the clock and its word; a holder has seen the loss meanwhile.
    #[tokio::test(start_paused = true)]
    async fn a_loss_that_was_seen_is_final_though_a_proof_is_being_processed() {
        let (clock, lease) = lease();
        let (holder, next) = (lease.clone(), clock.now() + 2 * TTL);
        clock.meanwhile(0, move || {
            holder.clock().jump(TTL);
            assert_eq!(holder.lost(), Some(LostReason::Expired));
        });
        assert!(!lease.proven_until(next, next));
        assert_eq!(lease.lost(), Some(LostReason::Expired));
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_of_the_machine_shows_at_the_first_call() {
        let (clock, lease) = lease();
        clock.jump(TTL);
        assert_eq!(lease.lost(), Some(LostReason::Expired));
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_reason_stays() {
        let (_clock, lease) = lease();
        lease.end(LostReason::Closed);
        lease.end(LostReason::Revoked);
        assert_eq!(lease.until_lost().await, LostReason::Closed);
    }
}
