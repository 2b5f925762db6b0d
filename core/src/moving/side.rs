use std::sync::Arc;

use crate::address::{Address, Namespace, QueuePrefix};
use crate::attempt::{self, Request};
use crate::client::Client;
use crate::clock::{Clock, Moment};
use crate::config::Config;
use crate::contracts::{LeaseState, Limit, Node, Part, StateChange};
use crate::decide::moving::Side;
use crate::error::Result;
use crate::held_node::HeldNode;

/// One side of a participant: its client, and the addresses there.
#[derive(Debug)]
pub(crate) struct SideClient {
    pub(crate) client: Arc<Client>,
    namespace: Namespace,
}

impl SideClient {
    pub(crate) fn new(client: Client, config: &Config) -> Self {
        let client = Arc::new(client);
        Self { client, namespace: Namespace::new(&config.namespace) }
    }

    pub(super) fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    pub(super) fn address(&self, of: &Address) -> Address {
        of.moved_to(&self.namespace)
    }

    pub(super) fn prefix(&self, of: &QueuePrefix) -> QueuePrefix {
        of.moved_to(&self.namespace)
    }

    /// Joins, waits if it may, and holds a node here; `None` for a refused try. The request's deadline is on
    /// `clock`: each side may have its own.
    pub(super) async fn join(
        &self,
        clock: &Clock,
        request: &Request,
        limit: Limit,
    ) -> Result<Option<HeldNode>> {
        let own = self.client.clock();
        let deadline = match request.deadline {
            Moment::NEVER => Moment::NEVER,
            deadline => own.now() + deadline.since(clock.now()),
        };
        let queue = self.address(&request.queue);
        // The hold over both sides has the bounds, and its guard the work.
        let request = Request {
            queue: queue.clone(),
            limit,
            deadline,
            request_timeout: self.client.request_timeout,
            max_hold: None,
            ..request.clone()
        };
        let admitted = attempt::acquire(&self.client, &request).await?;
        Ok(admitted.map(|admitted| HeldNode::without_work(Arc::clone(&self.client), queue, admitted.node)))
    }
}

/// The sides, as shown by [`Loss::lost_on`](crate::Loss::lost_on).
pub(super) const ON_SIDE: [(Side, &str); 2] = [(Side::Old, "the old side"), (Side::New, "the new side")];

/// A node on one side, as part of a hold.
pub(super) struct NodePart {
    pub(super) node: Arc<dyn Node>,
    pub(super) place: (&'static str, &'static str),
}

impl Part for NodePart {
    fn state(&self) -> LeaseState {
        self.node.state().state()
    }

    fn left(&self) -> std::time::Duration {
        let state = self.node.state();
        state.valid_until().since(state.lease().clock().now())
    }

    fn ttl(&self) -> std::time::Duration {
        self.node.state().lease().ttl()
    }

    fn changed(&self, seen: LeaseState) -> StateChange<'_> {
        Box::pin(self.node.state().changed(seen))
    }

    fn place(&self) -> String {
        let (what, backend) = self.place;
        format!("{what}, {backend}")
    }
}
