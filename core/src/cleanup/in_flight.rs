use std::sync::Arc;

use super::pending::Pending;
use super::task::{Task, kept_out};

/// A task that counts as pending until it is dropped, even by a panic in a driver or the end of its runtime.
/// So every wait for it ends.
pub(super) struct InFlight {
    pub(super) task: Task,
    pending: Arc<Pending>,
    // `None` while the `min_hold` of its node runs.
    pub(super) number: Option<u64>,
}

impl InFlight {
    pub(super) fn new(task: Task, pending: Arc<Pending>) -> Self {
        let kept = task.kept().is_some();
        let mut in_flight = Self { task, pending, number: None };
        if !kept {
            in_flight.count();
        }
        in_flight
    }

    fn count(&mut self) {
        if self.number.is_none() {
            self.number = Some(self.pending.add(self.task.queue()));
            if let Task::Leave { node, .. } = &self.task {
                node.state().change(|life, _| life.begin_end());
            }
        }
    }

    pub(super) async fn due(&mut self) {
        if let Some(node) = self.task.kept() {
            kept_out(&*node).await;
        }
        self.count();
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.pending.done(self.task.queue(), number);
        }
    }
}
