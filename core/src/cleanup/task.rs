use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::late_join::{LateJoin, Remains};
use crate::address::Address;
use crate::clock::Moment;
use crate::contracts::{Backend, Join, Leave, Node};
use crate::decide::life::{AfterTry, Failure};
use crate::decide::node_obsolete_at;
use crate::error::{Error, Result};
use crate::support::{Backoff, Pauses};

#[derive(Clone)]
pub(crate) enum Task {
    Leave {
        queue: Address,
        node: Arc<dyn Node>,
    },
    /// Downgrades at once, or after the `min_hold` of the node.
    Downgrade {
        queue: Address,
        node: Arc<dyn Node>,
        at_once: bool,
    },
    /// Abandons an attempt with an unknown outcome. At `obsolete_at` the end of the lease has removed its
    /// node.
    Abandon {
        join: Join,
        obsolete_at: Moment,
    },
    Late(LateJoin),
}

impl Task {
    pub(crate) fn leave(queue: &Address, node: &Arc<dyn Node>) -> Self {
        Task::Leave { queue: queue.clone(), node: Arc::clone(node) }
    }

    pub(crate) fn downgrade(queue: &Address, node: &Arc<dyn Node>, at_once: bool) -> Self {
        Task::Downgrade { queue: queue.clone(), node: Arc::clone(node), at_once }
    }

    pub(super) fn queue(&self) -> &Address {
        match self {
            Task::Leave { queue, .. } | Task::Downgrade { queue, .. } => queue,
            Task::Abandon { join, .. } => &join.queue,
            Task::Late(late) => &late.join.queue,
        }
    }

    /// Returns whether the end of the lease has removed the node.
    pub(super) fn is_obsolete(&self, now: Moment) -> bool {
        match self {
            Task::Leave { node, .. } | Task::Downgrade { node, .. } => {
                let lease = node.state().lease();
                now >= node_obsolete_at(lease.deadline(), lease.ttl())
            }
            Task::Abandon { obsolete_at, .. } | Task::Late(LateJoin { obsolete_at, .. }) => {
                now >= *obsolete_at
            }
        }
    }

    /// Returns `Lost` if the node does not exist.
    pub(super) async fn attempt(&self, backend: &dyn Backend) -> (AfterTry, Result<()>) {
        let answer = match self {
            Task::Leave { node, .. } => return leave(&**node).await,
            Task::Downgrade { node, .. } => node.downgrade().await,
            Task::Abandon { join, .. } => backend.abandon(join).await,
            Task::Late(late) => match late.remains.clone().await {
                Remains::Nothing => return (AfterTry::Done, Ok(())),
                Remains::Node(node) => return leave(&*node).await,
                Remains::Unknown => backend.abandon(&late.join).await,
            },
        };
        let failure = answer.as_ref().err().map(Failure::from);
        let now = backend.lease().clock().now();
        (AfterTry::of(failure, self.is_obsolete(now)), answer)
    }

    /// Returns the node if its `min_hold` still runs.
    pub(super) fn kept(&self) -> Option<Arc<dyn Node>> {
        match self {
            Task::Leave { node, .. } | Task::Downgrade { node, at_once: false, .. } => {
                let state = node.state();
                (state.is_kept() && state.lost().is_none()).then(|| Arc::clone(node))
            }
            _ => None,
        }
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Task::Leave { queue, node } => write!(f, "Leave({queue:?}, {node:?})"),
            Task::Downgrade { queue, node, .. } => write!(f, "Downgrade({queue:?}, {node:?})"),
            Task::Abandon { join, .. } => write!(f, "Abandon({:?}, {})", join.queue, join.id),
            Task::Late(late) => late.fmt(f),
        }
    }
}

pub(super) async fn kept_out(node: &dyn Node) {
    let state = node.state();
    tokio::select! {
        () = state.lease().clock().sleep_until(state.kept_until()) => {}
        _ = state.until_lost() => {}
    }
}

/// Returns `Lost` if the node does not exist.
pub(crate) async fn leave(node: &dyn Node) -> (AfterTry, Result<()>) {
    let state = node.state();
    state.change(|life, _| life.leave_sent());
    let answer = node.leave().await;
    let outcome = match &answer {
        Ok(Leave::Removed) => Ok(()),
        Ok(Leave::Absent(reason)) => Err(Error::lost(*reason)),
        Err(error) => Err(error.clone()),
    };
    (state.left(answer), outcome)
}

/// A try may wait for the task, so a pause takes at most half of its time limit, with jitter.
pub(super) fn pauses(request_timeout: Duration) -> Backoff {
    Backoff::new(Pauses::OUTAGE.up_to(request_timeout / 4))
}

pub(crate) async fn settle(
    backend: &dyn Backend,
    task: &Task,
    request_timeout: Duration,
) -> (AfterTry, Result<()>) {
    let mut backoff = pauses(request_timeout);
    loop {
        let (next, answer) = task.attempt(backend).await;
        if next != AfterTry::Again {
            if let (AfterTry::Insist, Err(error)) = (next, &answer) {
                tracing::debug!(?task, %error, "the server refused a clean-up, or did not confirm it within the lease");
            }
            return (next, answer);
        }
        backoff.wait(backend.lease().clock()).await;
    }
}
