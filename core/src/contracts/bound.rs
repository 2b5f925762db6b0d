//! The bound that a client's registration sets on its nodes.

use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use tokio::sync::Notify;

use super::lease::{Lease, LeaseState};
use crate::clock::Moment;
use crate::decide::life::Seen;
use crate::error::LostReason;

/// The time for which a client is registered without a gap (CLIENT-HOLDS-REGISTERED). A node that was joined
/// for during this time is lost at its end at the latest.
///
/// It matters if each node has its own lease: the registration, which was renewed earlier, then expires first.
#[derive(Debug)]
pub(crate) struct RegistrationBound {
    // The lease of the current registration.
    lease: RwLock<Lease>,
    // Final, also if a renewal is about to be recorded.
    ended: OnceLock<Moment>,
    changed: Notify,
}

impl RegistrationBound {
    pub(crate) fn new(lease: &Lease) -> Arc<Self> {
        Arc::new(Self { lease: RwLock::new(lease.clone()), ended: OnceLock::new(), changed: Notify::new() })
    }

    /// Continues with the lease of the next registration. Returns false if there was a gap before it.
    pub(crate) fn continues(&self, next: &Lease) -> bool {
        let mut lease = self.lease.write();
        let gapless = self.end_of(&lease).is_none();
        if gapless {
            *lease = next.clone();
            self.changed.notify_waiters();
        }
        gapless
    }

    /// Returns whether a node on this lease needs no bound, because the registration is on the same lease.
    pub(super) fn is_on(&self, lease: &Lease) -> bool {
        self.lease.read().same_as(lease)
    }

    pub(super) fn deadline(&self) -> Moment {
        self.lease.read().deadline()
    }

    pub(super) fn state(&self) -> LeaseState {
        let lease = self.lease.read();
        match self.end_of(&lease) {
            Some(_) => LeaseState::Lost(LostReason::Expired),
            // A registration that was removed counts until its deadline: the client registers again.
            None if lease.state() == LeaseState::Live => LeaseState::Live,
            None => LeaseState::Suspended,
        }
    }

    /// Adds this end to the knowledge of a node's lease. The earlier end counts.
    pub(super) fn add_to(&self, seen: Seen) -> Seen {
        let ended = self.end_of(&self.lease.read()).map(|at| (LostReason::Expired, at));
        let lease = [seen.lease, ended].into_iter().flatten().min_by_key(|(_, at)| *at);
        Seen { lease, ..seen }
    }

    /// By the lease's own end, which this look makes final.
    fn end_of(&self, lease: &Lease) -> Option<Moment> {
        if self.ended.get().is_none() {
            let seen = lease.seen();
            let ended = match seen.lease? {
                (LostReason::Expired, at) => at,
                _ => Some(lease.deadline()).filter(|deadline| *deadline <= seen.now)?,
            };
            let _ = self.ended.set(ended);
        }
        self.ended.get().copied()
    }

    /// Waits until the state differs from `seen`.
    pub(super) async fn changed(&self, seen: LeaseState) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let lease = self.lease.read().clone();
            let of_lease = lease.state();
            if self.state() != seen {
                return;
            }
            let end = match seen {
                // Final.
                LeaseState::Lost(_) => Moment::NEVER,
                _ => lease.deadline(),
            };
            tokio::select! {
                () = changed => {}
                _ = lease.changed(of_lease) => {}
                () = lease.clock().sleep_until(end) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::super::{LeaseWriter, NodeWriter};
    use super::*;
    use crate::clock::Clock;

    const TTL: Duration = Duration::from_secs(9);

    /// A registration, and a node that was joined for a period later, each on its own lease.
    struct Client {
        clock: Clock,
        registration: LeaseWriter,
        bound: Arc<RegistrationBound>,
        node: NodeWriter,
    }

    impl Client {
        fn new() -> Self {
            let clock = Clock::tokio();
            let registration = LeaseWriter::new(clock.clone(), TTL, clock.now());
            clock.jump(TTL / 3);
            let node = NodeWriter::new(LeaseWriter::new(clock.clone(), TTL, clock.now()), 1);
            let bound = RegistrationBound::new(&registration);
            node.bound_by(&bound);
            Self { clock, registration, bound, node }
        }

        fn goes_to(&self, instant: Moment) {
            self.clock.jump(instant.since(self.clock.now()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn node_of_a_client_that_is_cut_off_is_lost_with_the_registration() {
        let client = Client::new();
        let mut lost = Box::pin(client.node.until_lost());
        assert_eq!((&mut lost).now_or_never(), None);
        let end = client.registration.deadline();
        assert_eq!(client.node.valid_until(), end);
        assert!(end < client.node.lease().deadline());
        assert_eq!(lost.await, LostReason::Expired);
        assert!(client.clock.now() < client.node.lease().deadline());
        assert_eq!(client.node.state(), LeaseState::Lost(LostReason::Expired));
    }

    #[tokio::test(start_paused = true)]
    async fn node_lives_as_long_as_both_leases_are_renewed() {
        let client = Client::new();
        for _ in 0..5 {
            client.clock.jump(TTL / 3);
            assert!(client.registration.proven(client.clock.now()));
            assert!(client.node.lease_writer().proven(client.clock.now()));
            assert_eq!(client.node.state(), LeaseState::Live);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn registration_after_a_gap_revives_no_node() {
        for looked in [true, false] {
            let client = Client::new();
            client.goes_to(client.registration.deadline());
            if looked {
                assert_eq!(client.node.lost(), Some(LostReason::Expired));
            }
            let again = LeaseWriter::new(client.clock.clone(), TTL, client.clock.now());
            assert!(!client.bound.continues(&again));
            assert_eq!(client.node.lost(), Some(LostReason::Expired));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn registration_that_was_removed_and_made_again_in_time_keeps_the_node() {
        let client = Client::new();
        client.registration.end(LostReason::Revoked);
        assert_eq!(client.node.state(), LeaseState::Suspended);
        let mut changed = Box::pin(client.node.changed(LeaseState::Suspended));
        assert_eq!((&mut changed).now_or_never(), None);
        let again = LeaseWriter::new(client.clock.clone(), TTL, client.clock.now());
        assert!(client.bound.continues(&again));
        assert_eq!(changed.await, LeaseState::Live);
        client.goes_to(client.registration.deadline());
        assert_eq!(client.node.lost(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn registration_that_is_late_suspends_the_node() {
        let client = Client::new();
        let mut changed = Box::pin(client.node.changed(LeaseState::Live));
        assert_eq!((&mut changed).now_or_never(), None);
        client.registration.suspend();
        assert_eq!(changed.await, LeaseState::Suspended);
        assert!(client.registration.proven(client.clock.now()));
        assert_eq!(client.node.changed(LeaseState::Suspended).await, LeaseState::Live);
    }
}
