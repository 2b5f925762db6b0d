use std::future::{Future, poll_fn};
use std::pin::pin;

use asyncs::task::{Spawn, Task, enter};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The crate's tasks, always on the client's runtime.
#[derive(Debug)]
pub(super) struct Tasks {
    pub(super) runtime: Handle,
    started: TaskTracker,
    pub(super) killed: CancellationToken,
}

impl Spawn for Tasks {
    fn spawn(&self, task: Task) {
        let task = self.killed.clone().run_until_cancelled_owned(Box::into_pin(task.future));
        self.started.spawn_on(task, &self.runtime);
    }
}

impl Tasks {
    pub(super) fn on(runtime: &Handle) -> Self {
        Self { runtime: runtime.clone(), started: TaskTracker::new(), killed: CancellationToken::new() }
    }

    /// Keeps the tasks that `work` starts.
    pub(super) async fn within<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            let _scope = enter(self);
            work.as_mut().poll(context)
        })
        .await
    }

    pub(super) async fn kill(&self) {
        self.killed.cancel();
        self.started.close();
        self.started.wait().await;
    }
}
