use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::joint::Joint;
use super::{Lease, LeaseState, Part};
use crate::clock::{Clock, Moment};
use crate::decide::valid_until;
use crate::error::LostReason;

/// Writes and reads a [`Lease`]. The backend keeps the writer, and gives out the lease.
#[derive(Clone, Debug)]
pub struct LeaseWriter(Lease);

impl LeaseWriter {
    /// Creates a lease of `ttl` (as granted), proven by a request sent at `sent`.
    pub fn new(clock: Clock, ttl: Duration, sent: Moment) -> Self {
        Self(Lease::until(clock, ttl, sent, valid_until(sent, ttl)))
    }

    /// Creates the lease of a coordinator that connects lazily: suspended, and never lost by time.
    pub(crate) fn pending(clock: Clock, ttl: Duration) -> Self {
        let lease = Lease::until(clock, ttl, Moment::PAST, Moment::NEVER);
        lease.0.due.store(Moment::PAST.as_nanos(), Ordering::Release);
        Self(lease)
    }

    pub(crate) fn joint(clock: Clock, parts: Vec<Arc<dyn Part>>) -> Self {
        let opened = clock.now();
        let Ok(mut inner) = Arc::try_unwrap(Lease::until(clock, Duration::ZERO, opened, Moment::NEVER).0)
        else {
            unreachable!("it is not shared yet")
        };
        inner.joint = Some(Box::new(Joint::new(parts)));
        Self(Lease(Arc::new(inner)))
    }

    /// A lost part has ended the joint lease.
    pub(crate) fn set_parts(&self, parts: Vec<Arc<dyn Part>>) {
        let inner = self.inner();
        if let (Some(joint), LeaseState::Live | LeaseState::Suspended) = (&inner.joint, inner.state()) {
            joint.set_parts(parts);
            inner.changed.notify_waiters();
        }
    }

    /// Returns the lease, to read.
    pub fn lease(&self) -> &Lease {
        &self.0
    }

    /// Records a renewal that was sent at `sent` and is late unless it is answered by `due`. A second renewal
    /// does not defer the first one's `due`, and is not settled by the first one's answer.
    pub fn awaiting(&self, sent: Moment, due: Moment) {
        let inner = self.inner();
        let mut unanswered = inner.unanswered.lock();
        unanswered.add(sent, due);
        if inner.due.fetch_min(due.as_nanos(), Ordering::AcqRel) > due.as_nanos() {
            // The waiters' timers do not have this instant.
            inner.changed.notify_waiters();
        }
    }

    /// Suspends the lease until contact is proven again.
    pub fn suspend(&self) {
        let inner = self.inner();
        let _unanswered = inner.unanswered.lock();
        inner.due.fetch_min(inner.clock.now().as_nanos(), Ordering::AcqRel);
        inner.changed.notify_waiters();
    }

    /// Records that the reply to a request sent at `sent` proves the lease. Returns false, and changes
    /// nothing, if the lease is lost by now (QUEUE-LATE-REPLY-REVIVES-NOTHING, LEASE-LOST-IS-FINAL).
    pub fn proven(&self, sent: Moment) -> bool {
        self.proven_until(sent, valid_until(sent, self.ttl()))
    }

    /// Records a proof with another deadline (of ZooKeeper's [`ContactProof`](crate::decide::ContactProof)).
    /// A deadline never moves back.
    pub fn proven_until(&self, sent: Moment, deadline: Moment) -> bool {
        let inner = self.inner();
        let before = inner.state();
        if matches!(before, LeaseState::Lost(_)) {
            return false;
        }
        inner.deadline.fetch_max(deadline.as_nanos(), Ordering::AcqRel);
        let mut unanswered = inner.unanswered.lock();
        unanswered.answered(sent);
        inner.due.store(unanswered.due().as_nanos(), Ordering::Release);
        if before != LeaseState::Live {
            inner.changed.notify_waiters();
        }
        // If a reader has seen the old deadline pass since, the lease is lost.
        inner.ended.get().is_none()
    }

    /// Ends the lease, for a reason other than its deadline. The first reason stays.
    pub fn end(&self, reason: LostReason) {
        let inner = self.inner();
        if !matches!(inner.state(), LeaseState::Lost(_)) {
            let _ = inner.ended.set((reason, inner.clock.now()));
        }
        inner.changed.notify_waiters();
    }

    /// Wakes all waiters on this lease to read the clock again. Call it at every renewal: timers do not count
    /// a machine's sleep (LEASE-CLOCK-COUNTS-SLEEP).
    pub fn tick(&self) {
        let inner = self.inner();
        if inner.state() != LeaseState::Live {
            inner.changed.notify_waiters();
        }
    }
}

impl Deref for LeaseWriter {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.0
    }
}

impl From<LeaseWriter> for Lease {
    fn from(writer: LeaseWriter) -> Self {
        writer.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn lease() -> (Clock, LeaseWriter) {
        let clock = Clock::tokio();
        let lease = LeaseWriter::new(clock.clone(), TTL, clock.now());
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

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_began_before_ends_when_the_suspension_begins() {
        let (clock, lease) = lease();
        let sent = clock.now();
        let mut waiting = Box::pin(lease.changed(LeaseState::Live));
        assert!(futures_util::FutureExt::now_or_never(&mut waiting).is_none());
        lease.awaiting(sent, sent + TTL / 3);
        assert_eq!(waiting.await, LeaseState::Suspended);
        assert!(clock.now().since(sent) < TTL / 3 + Duration::from_millis(5));
    }

    /// The writer stops between its read of the clock and its write, and a holder sees the loss in between.
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
