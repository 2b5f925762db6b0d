use std::sync::Arc;

use latchwork_core::backend::ExpectedLimit;
use latchwork_core::{Address, Claim, Result};

use crate::client::Client;
use crate::error::only_read;
use crate::layout::QueueKeys;
use crate::scripts;

pub(crate) async fn limit(client: &Client, queue: &Address) -> Result<Option<u32>> {
    let queue = permits(queue)?;
    let (_, reply) = client.run(&scripts::limit(&queue)).await.map_err(only_read)?;
    scripts::stored_limit(reply)?.known()
}

pub(crate) async fn set_limit(
    client: &Arc<Client>,
    queue: &Address,
    expected: ExpectedLimit,
    limit: u32,
) -> Result<bool> {
    let queue = permits(queue)?;
    client.change(&queue, &scripts::set_limit(&queue, limit, expected)).await
}

fn permits(queue: &Address) -> Result<QueueKeys> {
    let queue = QueueKeys::of(queue)?;
    queue.check(Claim::Permits(1))?;
    Ok(queue)
}
