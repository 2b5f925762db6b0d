//! The tasks that the client crate starts, kept in hand: it has no way of its own to end a connection without closing
//! the session.

use std::future::{Future, poll_fn};
use std::pin::pin;

use asyncs::task::{Spawn, Task, enter};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

/// Tasks of one session.
#[derive(Debug, Default)]
pub(crate) struct Tasks(Mutex<Vec<JoinHandle<()>>>);

impl Spawn for Tasks {
    fn spawn(&self, task: Task) {
        self.0.lock().push(tokio::spawn(Box::into_pin(task.future)));
    }
}

impl Tasks {
    /// Runs `work` so that the tasks which it starts are kept here.
    pub(crate) async fn within<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            let _scope = enter(self);
            work.as_mut().poll(context)
        })
        .await
    }

    /// Ends the tasks, and waits until they have ended.
    pub(crate) async fn abort(&self) {
        let tasks = std::mem::take(&mut *self.0.lock());
        for task in &tasks {
            task.abort();
        }
        for task in tasks {
            // How it ended does not matter.
            let _ = task.await;
        }
    }
}
