//! The parameters of an acquisition.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::address::Address;
use crate::clock::Moment;
use crate::contracts::{Join, Limit, NodeId, Patience};
use crate::decide::Claim;

/// The parameters of one acquisition.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) queue: Address,
    pub(crate) claim: Claim,
    pub(crate) limit: Limit,
    pub(crate) label: Arc<str>,
    pub(crate) data: Arc<[u8]>,
    pub(crate) patience: Patience,
    /// The total deadline (for a try: of its answer); `Moment::NEVER` for none.
    pub(crate) deadline: Moment,
    /// The timeout of one request.
    pub(crate) request_timeout: Duration,
    /// Whether it gives up as soon as the coordinator does not answer.
    pub(crate) fail_fast: bool,
    /// A fixed end, counted from the send of an uncontended join, or from the admission.
    pub(crate) max_hold: Option<Duration>,
    /// How many replicas must confirm its admission; zero for none.
    pub(crate) min_replicas: Option<u32>,
    /// Called when it is not admitted at once.
    pub(crate) on_queue: Option<OnQueue>,
}

impl Request {
    /// Returns when to give up on a server that does not answer: one TTL after `now` without a deadline,
    /// otherwise only at the deadline.
    pub(super) fn give_up(&self, now: Moment, ttl: Duration) -> Moment {
        match self.deadline {
            Moment::NEVER => now + ttl,
            _ => Moment::NEVER,
        }
    }

    /// Makes the join of a new attempt.
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

/// A callback for an acquisition that waits in a queue.
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
