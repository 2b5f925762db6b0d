use super::{HeldNode, unknown};
use crate::cleanup::{Task, settle};
use crate::decide::life::{AfterTry, Life};
use crate::error::Result;
use crate::when_dropped::WhenDropped;

impl HeldNode {
    /// Retries until the deadline of the hold. A dropped or refused downgrade continues in the background.
    pub(crate) async fn downgrade(&self) -> Result<()> {
        let state = self.node.state();
        if state.look(Life::is_downgraded) {
            // The reader may be lost by now.
            return Ok(());
        }
        self.tenure.check()?;
        let lease = state.lease();
        let in_background = WhenDropped::new(|| self.go_on_downgrading());
        let confirmed = async {
            let task = Task::downgrade(self.queue(), &self.node, true);
            tokio::select! {
                biased;
                (next, answer) = settle(&*self.client.backend, &task, self.client.request_timeout) => {
                    if answer.is_ok() {
                        state.change(|life, _| life.downgraded());
                    }
                    if next == AfterTry::Done {
                        in_background.disarm();
                    }
                    // Otherwise the downgrade continues, because readers wait for it.
                    answer
                }
                () = lease.clock().sleep_until(lease.deadline()) => {
                    Err(unknown("the server did not confirm the downgrade before the deadline of the hold"))
                }
            }
        };
        self.client.serve(confirmed).await
    }

    fn go_on_downgrading(&self) {
        if self.node.state().change(|life, _| life.downgrade_later()) {
            self.client.cleanup.push(Task::downgrade(self.queue(), &self.node, true));
        }
    }

    /// Waits for the shortest time first.
    pub(crate) fn downgrade_later(&self) {
        self.client.cleanup.push(Task::downgrade(self.queue(), &self.node, false));
    }
}
