use std::fmt;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::bound::RegistrationBound;
use super::lease::{Lease, LeaseState, LeaseWriter};
use super::leave::Leave;
use crate::clock::Moment;
use crate::decide::life::{AfterTry, Failure, Life, Outcome, Phase, Seen};
use crate::decide::node_obsolete_at;
use crate::error::{Error, LostReason, Result};
use crate::seen::SeenHold;
use crate::support::or_pending;
use crate::token::Token;
use crate::until::until;

/// The state of one node, as its client knows it. The hold and all its `lost()` handles read it; only the
/// backend writes it, by its [`NodeWriter`](super::NodeWriter).
pub struct NodeState {
    lease: LeaseWriter,
    // On a server on which each node has its own lease.
    bound: OnceLock<Arc<RegistrationBound>>,
    sequence: u64,
    // The epoch of its token, from its admission.
    epoch: AtomicU16,
    // How many were ahead at the join; the highest number if that is unknown.
    ahead: AtomicU32,
    life: Mutex<Life>,
    why: OnceLock<Error>,
    // Reports the end of the hold. Boxed: most nodes of a client may be waiters.
    seen: OnceLock<Box<SeenHold>>,
    // One for every change, since a client holds thousands of nodes.
    changed: Notify,
}

impl NodeState {
    pub(super) fn new(lease: LeaseWriter, sequence: u64) -> Self {
        let (life, why, seen, changed) = (Mutex::default(), OnceLock::new(), OnceLock::new(), Notify::new());
        let (epoch, ahead) = (AtomicU16::default(), AtomicU32::new(u32::MAX));
        Self { lease, bound: OnceLock::new(), sequence, epoch, ahead, life, why, seen, changed }
    }

    pub(super) fn lease_writer(&self) -> &LeaseWriter {
        &self.lease
    }

    /// Returns the lease that keeps the node.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Core: the node is lost with the client's registration at the latest (CLIENT-HOLDS-REGISTERED).
    pub(crate) fn bound_by(&self, registration: &Arc<RegistrationBound>) {
        if !registration.is_on(&self.lease) {
            let _ = self.bound.set(Arc::clone(registration));
        }
    }

    /// Core: the instant at which the node is lost, unless contact is proven again.
    pub(crate) fn valid_until(&self) -> Moment {
        let bound = self.bound.get().map_or(Moment::NEVER, |bound| bound.deadline());
        self.lease.deadline().min(bound)
    }

    fn seen(&self) -> Seen {
        let seen = self.lease.seen();
        self.bound.get().map_or(seen, |bound| bound.add_to(seen))
    }

    /// Returns the sequence number: the node's place in the queue, and the source of its token (NODE-ORDER,
    /// NODE-TOKEN).
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns how many nodes were ahead when the node joined, or a higher number, because expired nodes may
    /// count. `None`: the backend does not know it.
    pub fn ahead(&self) -> Option<u32> {
        Some(self.ahead.load(Ordering::Acquire)).filter(|ahead| *ahead < u32::MAX)
    }

    pub(super) fn set_ahead(&self, ahead: usize) {
        self.ahead.store(u32::try_from(ahead).unwrap_or(u32::MAX), Ordering::Release);
    }

    pub(crate) fn token(&self) -> Token {
        Token::new(self.epoch.load(Ordering::Acquire), self.sequence).expect("checked at admission")
    }

    /// Admits the node with this token.
    pub(crate) fn admitted_as(&self, token: Token) {
        debug_assert_eq!(token.sequence(), self.sequence);
        self.epoch.store(token.epoch(), Ordering::Release);
    }

    /// Applies an event to the node's life, and notifies the waiters.
    pub(crate) fn change<T>(&self, event: impl FnOnce(&mut Life, Seen) -> T) -> T {
        let seen = self.seen();
        let (answer, lost) = {
            let mut life = self.life.lock();
            (event(&mut life, seen), life.was_lost())
        };
        self.report(lost, seen);
        self.notify();
        answer
    }

    /// Reports the end of this hold from now on.
    pub(crate) fn report_to(&self, hold: SeenHold) {
        let _ = self.seen.set(Box::new(hold));
        // The node may be lost already.
        self.lost();
    }

    /// The owner has ended the hold, in time unless it was lost before.
    pub(crate) fn ended(&self, lost: Option<LostReason>, now: Moment) {
        match (self.seen.get(), lost) {
            (Some(hold), Some(reason)) => hold.lost(self.token(), reason, now),
            (Some(hold), None) => hold.released(self.token(), now),
            (None, _) => {}
        }
    }

    fn report(&self, lost: Option<LostReason>, seen: Seen) {
        if let (Some(reason), Some(hold)) = (lost, self.seen.get()) {
            hold.lost(self.token(), reason, seen.now);
        }
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&Life) -> T) -> T {
        look(&self.life.lock())
    }

    /// Returns the instant at which the hold ends even if the lease is live (LEASE-FIXED), or
    /// `Moment::NEVER`. A backend that renews nodes one by one must not renew this node past it.
    pub fn fixed_end(&self) -> Moment {
        self.look(Life::fixed_end)
    }

    /// Returns the instant before which the node is not released (`min_hold`), or `Moment::PAST`. When a
    /// backend whose nodes expire one by one is closed before this instant, it leaves the node to its expiry.
    pub fn kept_until(&self) -> Moment {
        self.look(Life::kept_until)
    }

    /// Returns whether core is about to leave the node. A backend that renews nodes one by one stops renewing
    /// it (QUEUE-STOP-RENEWAL-BEFORE-LEAVE): thousands of dropped nodes would delay the renewal of held ones.
    pub fn is_leaving(&self) -> bool {
        matches!(self.look(Life::phase), Phase::Ending | Phase::Gone(_))
    }

    pub(crate) fn is_kept(&self) -> bool {
        let now = self.lease.clock().now();
        self.look(|life| life.is_kept(now))
    }

    /// Records the answer to a leave, and returns the next step.
    pub(crate) fn left(&self, answer: Result<Leave>) -> AfterTry {
        let (answered, why) = match answer {
            Ok(Leave::Removed) => (Ok(None), None),
            Ok(Leave::Absent(reason)) => (Ok(Some(reason)), None),
            Err(error) => (Err(Failure::from(&error)), Some(error)),
        };
        let obsolete_at = node_obsolete_at(self.lease.deadline(), self.lease.ttl());
        let next = self.change(|life, seen| {
            let next = life.left(answered, seen.now >= obsolete_at);
            if let (true, Some(error)) = (next != AfterTry::Again, why) {
                let _ = self.why.set(error);
            }
            next
        });
        // Only before the deadline: after it, the node may be absent because the own lease ended.
        if let (Some(Outcome::Absent(reason)), Some(hold)) = (self.look(Life::outcome), self.seen.get())
            && self.lease.clock().now() < self.lease.deadline()
        {
            hold.was_lost(self.token(), reason);
        }
        next
    }

    /// Returns how the node's removal ended, with the error that explains it.
    pub(crate) fn outcome(&self) -> Option<(Outcome, Option<Error>)> {
        let outcome = self.look(Life::outcome)?;
        Some((outcome, self.why.get().cloned()))
    }

    pub(crate) fn notify(&self) {
        self.changed.notify_waiters();
    }

    /// Waits until `found` finds something. A notification must follow each change that it reads.
    pub(crate) async fn until<T>(&self, found: impl Fn() -> Option<T>) -> T {
        until(&self.changed, found).await
    }

    /// Returns why the node is lost, by the clock at the call. The first reason stays.
    pub fn lost(&self) -> Option<LostReason> {
        let seen = self.seen();
        let lost = self.life.lock().lost(seen);
        self.report(lost, seen);
        lost
    }

    /// Returns whether this client has ended the hold, by a fixed end or a close, within the last margin, so
    /// that its work may still run (LEASE-FIXED, LEASE-CLOSE). Core releases such a node a margin later; a
    /// backend that removes lost nodes itself must not remove it.
    pub fn lingers(&self) -> bool {
        let seen = self.seen();
        self.lost();
        self.look(|life| life.lingers(seen.now, self.lease.ttl()))
    }

    /// Returns the state that a holder sees now.
    pub fn state(&self) -> LeaseState {
        match self.lost() {
            Some(reason) => LeaseState::Lost(reason),
            None => match self.bound.get().map(|bound| bound.state()) {
                Some(LeaseState::Suspended) => LeaseState::Suspended,
                _ => self.lease.state(),
            },
        }
    }

    /// Waits until the state differs from `seen`. Returns the new state.
    pub async fn changed(&self, seen: LeaseState) -> LeaseState {
        loop {
            let notified = self.changed.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            // Read before the node's own state: otherwise a change in between would be missed.
            let lease_seen = self.lease.state();
            let bound_changes = self.bound.get().map(|bound| bound.changed(bound.state()));
            let state = self.state();
            if state != seen {
                return state;
            }
            let end = match state {
                // Final. A fixed end that has passed would make the loop spin.
                LeaseState::Lost(_) => Moment::NEVER,
                _ => self.fixed_end(),
            };
            tokio::select! {
                () = notified => {}
                _ = self.lease.changed(lease_seen) => {}
                () = or_pending(bound_changes) => {}
                () = self.lease.clock().sleep_until(end) => {}
            }
        }
    }

    /// Waits until the node is lost.
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

impl fmt::Debug for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeState").field("sequence", &self.sequence).field("state", &self.state()).finish()
    }
}
