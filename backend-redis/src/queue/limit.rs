//! The stored limit of a semaphore.

use std::sync::Arc;

use latchwork_core::decide::Claim;
use latchwork_core::{Address, Result};

use crate::client::Client;
use crate::error::only_read;
use crate::layout::QueueKeys;
use crate::scripts;

pub(crate) async fn limit(client: &Client, queue: &Address) -> Result<Option<u32>> {
    let queue = permits(queue)?;
    let (_, reply) = client.run(&scripts::limit(&queue)).await.map_err(only_read)?;
    scripts::stored_limit(reply)?.known()
}

pub(crate) async fn set_limit(client: &Arc<Client>, queue: &Address, limit: u32) -> Result<()> {
    let queue = permits(queue)?;
    let (_, reply) = client.run(&scripts::set_limit(&queue, limit, None)).await?;
    client.act_on(scripts::limit_set(reply)?, &queue);
    Ok(())
}

fn permits(queue: &Address) -> Result<QueueKeys> {
    let queue = QueueKeys::of(queue)?;
    queue.check(Claim::Permits(1))?;
    Ok(queue)
}
