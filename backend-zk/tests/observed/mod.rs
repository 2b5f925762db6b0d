//! What others see of a queue on a real server: the data of its nodes, the watch of it, and which
//! queues there are.

mod data;
mod queues;
mod watch;

use std::sync::Arc;

use latchwork_core::Address;
use latchwork_core::contracts::{Backend, Entry, Join, Page};
use latchwork_core::decide::Claim;

use crate::common::join;

const ALL: Page = Page::new(0, 100);

/// ZooKeeper's number of a transaction.
const MULTI: i32 = 14;

fn with_data(queue: &Address, claim: Claim, data: &[u8]) -> Join {
    Join { data: data.into(), ..join(queue, claim) }
}

async fn entries(backend: &Arc<dyn Backend>, queue: &Address) -> Vec<Entry> {
    backend.list(queue, ALL).await.unwrap()
}

/// The data of all nodes of a queue.
async fn data(backend: &Arc<dyn Backend>, queue: &Address) -> Vec<Arc<[u8]>> {
    entries(backend, queue).await.into_iter().map(|entry| entry.data).collect()
}

fn texts(texts: &[&str]) -> Vec<Arc<[u8]>> {
    texts.iter().map(|text| text.as_bytes().into()).collect()
}
