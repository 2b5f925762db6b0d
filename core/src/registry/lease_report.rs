//! Reports the state of a client's lease to logs and metrics.

use crate::clock::Moment;
use crate::contracts::{Lease, LeaseState, Node};
use crate::error::LostReason;
use crate::seen::{self, ClientMeter};
use crate::shown::in_millis;

#[derive(Debug)]
pub(super) struct LeaseReport {
    backend: &'static str,
    meter: ClientMeter,
    // When the lease became suspended.
    suspended: Option<Moment>,
}

impl LeaseReport {
    pub(super) fn of(backend: &'static str) -> Self {
        Self { backend, meter: ClientMeter::new(backend), suspended: None }
    }

    pub(super) fn backend(&self) -> &'static str {
        self.backend
    }

    /// Follows the lease of a node until the node is lost.
    pub(super) async fn until_lost(&mut self, node: &dyn Node) -> LostReason {
        let (node, lease) = (node.state(), node.state().lease());
        let mut state = node.state();
        loop {
            match state {
                LeaseState::Live => self.resumed(lease),
                LeaseState::Suspended => self.suspended(lease),
                LeaseState::Lost(reason) => {
                    self.lost(lease);
                    return reason;
                }
            }
            state = node.changed(state).await;
        }
    }

    fn suspended(&mut self, lease: &Lease) {
        let now = lease.clock().now();
        let left = in_millis(lease.deadline().since(now));
        if self.suspended.replace(now).is_none() {
            if lease.is_late(now) {
                self.meter.late();
                seen::renewal_late(self.backend, left);
            }
            self.meter.suspended(1);
            seen::suspended(self.backend, left);
        }
    }

    fn resumed(&mut self, lease: &Lease) {
        if let Some(since) = self.end() {
            seen::resumed(self.backend, in_millis(lease.clock().now().since(since)));
        }
    }

    fn lost(&mut self, lease: &Lease) {
        self.end();
        if let Some(reason) = lease.lost().filter(|reason| *reason != LostReason::Closed) {
            seen::lease_lost(self.backend, reason);
        }
    }

    fn end(&mut self) -> Option<Moment> {
        let since = self.suspended.take()?;
        self.meter.suspended(-1);
        Some(since)
    }
}

impl Drop for LeaseReport {
    fn drop(&mut self) {
        self.end();
    }
}
