use std::ops::Deref;

use super::lease::LeaseWriter;
use super::node_state::NodeState;
use crate::error::LostReason;

/// Writes and reads a [`NodeState`]. The backend that made the node keeps the writer, and gives out the
/// state.
#[derive(Debug)]
pub struct NodeWriter(NodeState);

impl NodeWriter {
    /// Creates the state of a node with its sequence number, on this writer's lease.
    pub fn new(lease: LeaseWriter, sequence: u64) -> Self {
        Self(NodeState::new(lease, sequence))
    }

    /// Records how many nodes were ahead ([`NodeState::ahead`]), before the backend answers the join.
    pub fn joined_behind(&self, ahead: usize) {
        self.0.set_ahead(ahead);
    }

    /// Records that the node is gone from the server although this client did not leave (NODE-GONE). The
    /// first reason stays.
    pub fn gone(&self, reason: LostReason) {
        self.change(|life, seen| life.lose(reason, seen));
    }

    /// Returns the writer of the node's lease.
    pub fn lease_writer(&self) -> &LeaseWriter {
        self.0.lease_writer()
    }
}

impl Deref for NodeWriter {
    type Target = NodeState;

    fn deref(&self) -> &NodeState {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;
    use crate::clock::{Clock, Moment};
    use crate::contracts::LeaseState;

    #[tokio::test(start_paused = true)]
    async fn the_reason_of_a_loss_stays_when_the_fixed_end_comes_after_it() {
        for (reason, looked) in [LostReason::Closed, LostReason::Expired]
            .into_iter()
            .flat_map(|reason| [(reason, true), (reason, false)])
        {
            let (clock, hold) = (Clock::tokio(), Duration::from_secs(5));
            let node = NodeWriter::new(LeaseWriter::new(clock.clone(), 2 * hold, clock.now()), 1);
            let _ = node.change(|life, seen| life.hold(seen.now, Some(hold), seen));
            node.lease_writer().end(reason);
            if looked {
                assert_eq!(node.lost(), Some(reason));
            }
            clock.jump(hold);
            assert_eq!(node.lost(), Some(reason), "looked: {looked}");
        }
    }

    #[test]
    fn waiter_after_a_max_hold_loss_does_not_spin() {
        let (yielded, answer) = mpsc::channel();
        // On a separate thread, because a wait that never yields would keep the test's thread.
        thread::spawn(move || {
            let clock = Clock::system();
            let node = NodeWriter::new(LeaseWriter::new(clock.clone(), Duration::ZERO, clock.now()), 1);
            let _ = node.change(|life, seen| life.hold(Moment::PAST, Some(Duration::ZERO), seen));
            let seen = node.state();
            yielded.send((seen, node.changed(seen).now_or_never()))
        });
        let waits = answer.recv_timeout(Duration::from_secs(10));
        assert_eq!(waits, Ok((LeaseState::Lost(LostReason::MaxHold), None)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_begins_as_the_loss_happens_ends() {
        const TTL: Duration = Duration::from_secs(10);
        for reading in 0..8 {
            let clock = Clock::tokio();
            let node = NodeWriter::new(LeaseWriter::new(clock.clone(), TTL, clock.now()), 1);
            let slept = clock.clone();
            clock.meanwhile(reading, move || slept.jump(TTL));
            let mut waiting = Box::pin(node.until_lost());
            let lost = (&mut waiting).now_or_never();
            // The node must be lost now, even if the wait read the clock less often.
            (0..=reading).for_each(|_| {
                clock.now();
            });
            node.lease_writer().tick();
            let lost = lost.or_else(|| waiting.now_or_never());
            assert_eq!(lost, Some(LostReason::Expired), "after reading {reading}");
        }
    }
}
