mod joint;
mod state;
mod unanswered;
mod writer;

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use self::joint::{Joint, any_changed};
pub(crate) use self::joint::{Part, StateChange};
pub use self::state::LeaseState;
use self::unanswered::Unanswered;
pub use self::writer::LeaseWriter;
use crate::clock::{Clock, Moment};
use crate::decide::life::Seen;
use crate::decide::margin;
use crate::error::LostReason;

/// One lease, as this client sees it. Only the backend writes it, by its [`LeaseWriter`]. On Redis each node
/// has a separate lease; on other servers all nodes of a client share one. `docs/protocol/lease.md` has the
/// arithmetic and the argument.
///
/// * `LEASE-ALIVE`: the backend renews it in the background for all its nodes, before all other requests (see
///   [`Throttle`](crate::support::Throttle)).
/// * `LEASE-DEADLINE`: [`deadline`](Lease::deadline) is the SEND time of the request whose reply proves
///   contact, plus the granted TTL, less the margin. From then on the lease is lost, connected or not, and a
///   later reply does not revive it.
/// * `LEASE-STATE`, `LEASE-RENEWAL`: the state is a function of the clock at the call, not of a timer or
///   task. So the first call after a blocked runtime, a stopped process or a dead task shows the loss.
/// * `LEASE-TTL`: [`ttl`](Lease::ttl) is the TTL that the server granted. All arithmetic uses it.
///
/// Every program may read it:
///
/// ```
/// # use latchwork_core::{connect, Config, LeaseState, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let lease = coordinator.lease();
/// assert_eq!(lease.state(), LeaseState::Live);
/// assert!(lease.deadline() > lease.clock().now());
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
///
/// No user can move its deadline, suspend it or end it:
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
pub struct Lease(Arc<LeaseParts>);

struct LeaseParts {
    clock: Clock,
    ttl: Duration,
    opened: Moment,
    deadline: AtomicU64,
    // When the oldest renewal without an answer is late; NEVER without one.
    due: AtomicU64,
    // Locked while `due` is written.
    unanswered: Mutex<Unanswered>,
    ended: OnceLock<(LostReason, Moment)>,
    // Boxed: on some servers each node has a lease.
    joint: Option<Box<Joint>>,
    // The lease that replaced a placeholder.
    became: OnceLock<Lease>,
    changed: Notify,
}

impl LeaseParts {
    fn deadline(&self) -> Moment {
        match &self.joint {
            Some(joint) => joint.deadline(&self.clock),
            None => Moment::from_nanos(self.deadline.load(Ordering::Acquire)),
        }
    }

    fn due(&self) -> Moment {
        Moment::from_nanos(self.due.load(Ordering::Acquire))
    }

    fn state(&self) -> LeaseState {
        match self.ended.get() {
            Some(&(reason, _)) => LeaseState::Lost(reason),
            None => self.state_at(self.clock.now()),
        }
    }

    fn state_at(&self, now: Moment) -> LeaseState {
        if let Some(&(reason, _)) = self.ended.get() {
            return LeaseState::Lost(reason);
        }
        if let Some(joint) = &self.joint {
            return match joint.state() {
                LeaseState::Lost(reason) => LeaseState::Lost(self.ended.get_or_init(|| (reason, now)).0),
                state => state,
            };
        }
        if now >= self.deadline() {
            // Final even if a renewal is about to write (LEASE-LOST-IS-FINAL): the reader may open a new
            // lease.
            LeaseState::Lost(self.ended.get_or_init(|| (LostReason::Expired, self.deadline())).0)
        } else if now >= self.due() {
            LeaseState::Suspended
        } else {
            LeaseState::Live
        }
    }
}

impl Lease {
    /// All handles of the placeholder read `lease` from now on.
    pub(crate) fn becomes(&self, lease: Lease) {
        let _ = self.0.became.set(lease);
        self.0.changed.notify_waiters();
    }

    fn inner(&self) -> &LeaseParts {
        self.0.became.get().map_or(&self.0, Lease::inner)
    }

    fn until(clock: Clock, ttl: Duration, opened: Moment, deadline: Moment) -> Self {
        Self(Arc::new(LeaseParts {
            clock,
            ttl,
            opened,
            deadline: AtomicU64::new(deadline.as_nanos()),
            due: AtomicU64::new(Moment::NEVER.as_nanos()),
            unanswered: Mutex::default(),
            ended: OnceLock::new(),
            joint: None,
            became: OnceLock::new(),
            changed: Notify::new(),
        }))
    }

    /// Returns the clock that counts the lease.
    pub fn clock(&self) -> &Clock {
        &self.inner().clock
    }

    /// Returns the TTL that the server granted.
    pub fn ttl(&self) -> Duration {
        let inner = self.inner();
        inner.joint.as_ref().and_then(|joint| joint.ttl()).unwrap_or(inner.ttl)
    }

    pub(crate) fn lost_on(&self) -> Option<&str> {
        self.lost()?;
        self.inner().joint.as_ref()?.lost_on()
    }

    /// Returns the SEND time of the request that opened the lease. A node that was requested earlier is not
    /// on it.
    pub fn opened(&self) -> Moment {
        self.inner().opened
    }

    pub(crate) fn seen(&self) -> Seen {
        let inner = self.inner();
        let now = inner.clock.now();
        inner.state_at(now);
        Seen { now, lease: inner.ended.get().copied() }
    }

    /// Returns how much earlier this client gives up than the server.
    pub fn margin(&self) -> Duration {
        margin(self.ttl())
    }

    /// Returns the instant at which the client counts the lease lost, unless contact is proven again.
    pub fn deadline(&self) -> Moment {
        self.inner().deadline()
    }

    pub(crate) fn is_late(&self, now: Moment) -> bool {
        self.inner().unanswered.lock().due() <= now
    }

    /// Returns the state, by the clock at this call.
    pub fn state(&self) -> LeaseState {
        self.inner().state()
    }

    /// Returns why the lease is lost, or `None` while it is not.
    pub fn lost(&self) -> Option<LostReason> {
        match self.state() {
            LeaseState::Lost(reason) => Some(reason),
            _ => None,
        }
    }

    /// Waits until the state differs from `seen`. Returns the new state.
    pub async fn changed(&self, seen: LeaseState) -> LeaseState {
        loop {
            let inner = self.inner();
            let notified = inner.changed.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if !ptr::eq(inner, self.inner()) {
                // The new lease has another notification.
                continue;
            }
            // Each part is read before the whole: otherwise a change in between would be missed.
            let parts = inner.joint.as_ref().map(|joint| joint.parts()).unwrap_or_default();
            let parts: Vec<_> = parts.into_iter().map(|part| (Arc::clone(&part), part.state())).collect();
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
                () = any_changed(&parts) => {}
                () = inner.clock.sleep_until(next) => {}
            }
        }
    }

    /// Waits until it is lost.
    pub async fn until_lost(&self) -> LostReason {
        let mut state = self.state();
        loop {
            match state {
                LeaseState::Lost(reason) => return reason,
                seen => state = self.changed(seen).await,
            }
        }
    }

    /// Returns whether two handles read the same lease.
    pub fn same_as(&self, other: &Lease) -> bool {
        ptr::eq(self.inner(), other.inner())
    }
}

impl Part for Lease {
    fn state(&self) -> LeaseState {
        Lease::state(self)
    }

    fn left(&self) -> Duration {
        // A placeholder has no deadline yet.
        self.deadline().since(self.clock().now())
    }

    fn ttl(&self) -> Duration {
        Lease::ttl(self)
    }

    fn changed(&self, seen: LeaseState) -> StateChange<'_> {
        Box::pin(Lease::changed(self, seen))
    }

    fn place(&self) -> String {
        "one of the two coordinators".to_owned()
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("ttl", &self.ttl()).field("state", &self.state()).finish()
    }
}
