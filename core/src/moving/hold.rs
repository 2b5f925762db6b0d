//! The move's own holds: the membership, and the hold for writing values.

use std::sync::Arc;

use crate::address::Address;
use crate::attempt::{self, Request};
use crate::client::Client;
use crate::clock::Moment;
use crate::contracts::{Limit, Patience};
use crate::decide::Claim;
use crate::error::Result;
use crate::held_node::HeldNode;

/// Waits without a limit until this client holds a node in a queue of the move.
///
/// # Cancel safety
/// A dropped call gives its place back.
pub(super) async fn hold(
    client: &Arc<Client>,
    queue: Address,
    claim: Claim,
    data: Arc<[u8]>,
) -> Result<HeldNode> {
    let request = Request {
        queue,
        claim,
        limit: Limit::Stored,
        label: Arc::clone(&client.label),
        data,
        patience: Patience::Wait,
        deadline: Moment::NEVER,
        request_timeout: client.request_timeout,
        fail_fast: false,
        max_hold: None,
        min_replicas: Some(0),
        on_queue: None,
    };
    let admitted = attempt::acquire(client, &request).await?.expect("only a try is refused");
    Ok(HeldNode::without_work(Arc::clone(client), request.queue, admitted.node))
}
