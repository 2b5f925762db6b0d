use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::address::Address;
use crate::clock::Moment;
use crate::contracts::{Join, Limit, NodeId, Patience};
use crate::decide::Claim;

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) queue: Address,
    pub(crate) claim: Claim,
    pub(crate) limit: Limit,
    pub(crate) label: Arc<str>,
    pub(crate) data: Arc<[u8]>,
    pub(crate) patience: Patience,
    /// For a try, the deadline of its answer; `Moment::NEVER` for none.
    pub(crate) deadline: Moment,
    pub(crate) request_timeout: Duration,
    pub(crate) fail_fast: bool,
    /// Counts from the send of an uncontended join, or from the admission.
    pub(crate) max_hold: Option<Duration>,
    pub(crate) min_replicas: Option<u32>,
    /// Called when the node is not admitted at once.
    pub(crate) on_queue: Option<OnQueue>,
}

impl Request {
    /// One TTL after `now` without a deadline.
    pub(super) fn give_up(&self, now: Moment, ttl: Duration) -> Moment {
        match self.deadline {
            Moment::NEVER => now + ttl,
            _ => Moment::NEVER,
        }
    }

    pub(super) fn join(&self) -> Join {
        Join {
            queue: self.queue.clone(),
            id: NodeId::random(),
            claim: self.claim,
            limit: self.limit,
            label: Arc::clone(&self.label),
            data: Arc::clone(&self.data),
            patience: self.patience,
            repeated: false,
        }
    }
}

#[derive(Clone)]
pub(crate) struct OnQueue(Arc<dyn Fn() + Send + Sync>);

impl OnQueue {
    pub(crate) fn new(notify: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(notify))
    }

    pub(super) fn notify(&self) {
        (self.0)();
    }
}

impl fmt::Debug for OnQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnQueue")
    }
}
