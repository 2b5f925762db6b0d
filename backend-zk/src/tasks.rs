//! The tasks that the client crate starts, kept in hand: it has no way of its own to end a connection without closing
//! the session.

use std::future::{Future, poll_fn};
use std::pin::pin;

use asyncs::task::{Spawn, Task, enter};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Tasks of one session, on the runtime of its client, whoever opens it.
#[derive(Debug)]
pub(crate) struct Tasks {
    pub(crate) runtime: Handle,
    started: Mutex<Vec<JoinHandle<()>>>,
    /// Whether they were aborted, or are about to be.
    pub(crate) aborted: watch::Sender<bool>,
}

impl Spawn for Tasks {
    fn spawn(&self, task: Task) {
        self.started.lock().push(self.runtime.spawn(Box::into_pin(task.future)));
    }
}

impl Tasks {
    pub(crate) fn on(runtime: &Handle) -> Self {
        Self { runtime: runtime.clone(), started: Mutex::default(), aborted: watch::Sender::default() }
    }

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
        self.aborted.send_replace(true);
        let tasks = std::mem::take(&mut *self.started.lock());
        for task in &tasks {
            task.abort();
        }
        for task in tasks {
            // How it ended does not matter.
            let _ = task.await;
        }
    }
}
