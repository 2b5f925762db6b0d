mod downgrade;
mod limit;
mod revoke;

use std::sync::Arc;

use latchwork_core::backend::{Backend, QueueEntry};
use latchwork_core::{Address, Claim, Config, Kind};
use zookeeper_client::{Client, Error};

use crate::common::ALL;

async fn listed(backend: &Arc<dyn Backend>, queue: &Address) -> Vec<(u64, Claim, bool)> {
    let entries = backend.list(queue, ALL).await.unwrap();
    entries.iter().map(|&QueueEntry { sequence, claim, admitted, .. }| (sequence, claim, admitted)).collect()
}

async fn names(stranger: &Client, config: &Config, kind: Kind) -> Vec<String> {
    let queue = format!("/{}/{}/a", config.namespace, kind.as_str());
    stranger.sync(&queue).await.unwrap();
    match stranger.list_children(&queue).await {
        Err(Error::NoNode) => Vec::new(),
        names => names.unwrap(),
    }
}
