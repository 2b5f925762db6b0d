//! A departure on its way, for those that wait for it.

use std::sync::Arc;

use super::departure::{Departure, kept_out};
use super::pending::Pending;

/// A departure that counts as pending until it is dropped: settled, or lost with its task (a panic in a
/// driver) or its runtime. Whoever waits for it must not wait for ever.
pub(super) struct Underway {
    pub(super) departure: Departure,
    pending: Arc<Pending>,
    // Since it counts.
    pub(super) number: Option<u64>,
}

impl Underway {
    pub(super) fn new(departure: Departure, pending: Arc<Pending>) -> Self {
        let kept = departure.kept().is_some();
        let mut underway = Self { departure, pending, number: None };
        if !kept {
            underway.count();
        }
        underway
    }

    fn count(&mut self) {
        if self.number.is_none() {
            self.number = Some(self.pending.add(self.departure.queue()));
            if let Departure::Leave { node, .. } = &self.departure {
                node.state().let_go();
            }
        }
    }

    /// Waits out the least time that its node is kept for.
    pub(super) async fn due(&mut self) {
        if let Some(node) = self.departure.kept() {
            kept_out(&*node).await;
        }
        self.count();
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.pending.done(self.departure.queue(), number);
        }
    }
}
