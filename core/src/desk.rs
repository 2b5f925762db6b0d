//! Wants of many tasks, which one background task serves in turns.
//!
//! *Why.* Work in the future of a caller stops while the caller does not poll it, and a lock that the caller
//! holds then blocks all other tasks. So callers leave a want, and a task of the client's runtime serves all
//! wants (COUNT-IN-BACKGROUND). It ends when no want is left.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::sync::oneshot::{self, error::TryRecvError};

use crate::cleanup::{Cleanup, TASK_DIED};
use crate::error::{Error, ErrorKind, Result};
use crate::support::SingleFlight;

#[derive(Debug)]
pub(crate) struct Desk<W> {
    waiting: Mutex<VecDeque<W>>,
    serving: SingleFlight<()>,
}

impl<W> Default for Desk<W> {
    fn default() -> Self {
        Self { waiting: Mutex::default(), serving: SingleFlight::default() }
    }
}

impl<W> Desk<W> {
    pub(crate) fn leave(&self, want: W) {
        self.waiting.lock().push_back(want);
    }

    /// Lets the serving task change or take the wants that wait.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut VecDeque<W>) -> T) -> T {
        look(&mut self.waiting.lock())
    }

    /// Waits for the answer to a want. Starts `serve`, which serves wants until none is left, unless it runs
    /// already.
    ///
    /// # Errors
    /// * The answer.
    /// * `OutcomeUnknown`: the task panicked while it served the want.
    /// * `Unavailable`: the task panicked before.
    /// * `RuntimeGone`.
    ///
    /// # Cancel safety
    /// The task may still serve the want.
    pub(crate) async fn served<T, F>(
        &self,
        cleanup: &Cleanup,
        mut answer: oneshot::Receiver<Result<T>>,
        serve: impl Fn() -> F,
    ) -> Result<T>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let served = async {
            loop {
                let task = cleanup.share(&self.serving, &serve);
                let ended = tokio::select! {
                    biased;
                    answer = &mut answer => return answer.unwrap_or_else(|_| Err(died(ErrorKind::OutcomeUnknown))),
                    ended = task.wait() => ended,
                };
                match answer.try_recv() {
                    Ok(answer) => return answer,
                    Err(TryRecvError::Closed) => return Err(died(ErrorKind::OutcomeUnknown)),
                    // The task had ended its last look before this want was left.
                    Err(TryRecvError::Empty) if ended.is_some() => {}
                    Err(TryRecvError::Empty) => return Err(died(ErrorKind::Unavailable)),
                }
            }
        };
        cleanup.home.serve(served).await
    }
}

fn died(kind: ErrorKind) -> Error {
    Error::new(kind, TASK_DIED)
}
