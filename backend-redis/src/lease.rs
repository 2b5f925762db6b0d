use std::time::Duration;

use latchwork_core::backend::LeaseWriter;
use latchwork_core::{Clock, Lease, LeaseState, LostReason, Moment};
use parking_lot::Mutex;

/// Each node has a separate lease. The client's lease is live while every node and ephemeral cell is renewed
/// in time (without any: while the server answers), and lost after the deadlines of all. Ephemeral cells end
/// with it.
#[derive(Debug)]
pub(crate) struct ClientLease {
    clock: Clock,
    ttl: Duration,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    lease: LeaseWriter,
    // The beginning of the running round, and when it must end.
    round: Option<(Moment, Moment)>,
    closed: bool,
}

impl ClientLease {
    pub(crate) fn new(clock: Clock, ttl: Duration, sent: Moment) -> Self {
        let lease = LeaseWriter::new(clock.clone(), ttl, sent);
        Self { clock, ttl, current: Mutex::new(Current { lease, round: None, closed: false }) }
    }

    pub(crate) fn current(&self) -> Lease {
        self.current.lock().lease.lease().clone()
    }

    /// The request was sent at `sent`. After a loss this opens a new lease (LEASE-REOPEN).
    pub(crate) fn joined(&self, sent: Moment) {
        let mut current = self.current.lock();
        if !current.closed && current.lease.lost() == Some(LostReason::Expired) {
            (current.lease, current.round) = (LeaseWriter::new(self.clock.clone(), self.ttl, sent), None);
        } else {
            current.extend(sent);
        }
    }

    /// From now on, the reply to a late join opens no lease.
    pub(crate) fn close(&self) {
        let mut current = self.current.lock();
        current.closed = true;
        current.lease.end(LostReason::Closed);
    }

    pub(crate) fn awaiting(&self, sent: Moment, due: Moment) {
        let mut current = self.current.lock();
        current.lease.awaiting(sent, due);
        current.round.get_or_insert((sent, due));
    }

    pub(crate) fn suspend(&self) {
        let mut current = self.current.lock();
        current.lease.suspend();
        let now = self.clock.now();
        current.round = Some(current.round.map_or((now, now), |(sent, due)| (sent, due.min(now))));
    }

    /// Requests since `sent` have renewed all nodes and cells.
    pub(crate) fn proven(&self, sent: Moment) {
        let mut current = self.current.lock();
        current.lease.proven(sent);
        current.round = None;
    }

    /// Only some nodes: the lease continues, but remains late.
    pub(crate) fn partly_proven(&self, sent: Moment) {
        self.current.lock().extend(sent);
    }
}

impl Current {
    fn extend(&self, sent: Moment) {
        let suspended = self.lease.state() == LeaseState::Suspended;
        if self.lease.proven(sent) {
            if suspended {
                self.lease.suspend();
            } else if let Some((asked, due)) = self.round {
                self.lease.awaiting(asked, due);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clients_lease_stays_suspended_until_every_node_was_renewed() {
        let (clock, ttl) = (Clock::tokio(), Duration::from_secs(10));
        let lease = ClientLease::new(clock.clone(), ttl, clock.now());
        lease.awaiting(clock.now(), clock.now() + Duration::from_secs(3));
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(lease.current().state(), LeaseState::Suspended);
        lease.partly_proven(clock.now());
        assert_eq!(lease.current().state(), LeaseState::Suspended);
        lease.proven(clock.now());
        assert_eq!(lease.current().state(), LeaseState::Live);
        tokio::time::advance(ttl).await;
        let old = lease.current();
        assert_eq!(old.state(), LeaseState::Lost(LostReason::Expired));
        lease.joined(clock.now());
        assert_eq!((lease.current().state(), old.lost()), (LeaseState::Live, Some(LostReason::Expired)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_join_that_is_answered_after_the_close_opens_no_lease() {
        let (clock, ttl) = (Clock::tokio(), Duration::from_secs(10));
        let lease = ClientLease::new(clock.clone(), ttl, clock.now());
        tokio::time::advance(ttl).await;
        lease.close();
        lease.joined(clock.now());
        assert_eq!(lease.current().state(), LeaseState::Lost(LostReason::Expired));
    }
}
