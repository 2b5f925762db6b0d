//! What others see of a queue on a real server: the data of its nodes, the watch of it, and which
//! queues there are.

mod data;
mod queues;
mod watch;

use std::sync::Arc;

use latchwork_core::backend::{Backend, EntryPage, Join, QueueEntry};
use latchwork_core::{Address, Claim};

use crate::common::join;

const ALL: EntryPage = EntryPage::new(0, 100);

/// ZooKeeper's number of a transaction.
const MULTI: i32 = 14;

fn with_data(queue: &Address, claim: Claim, data: &[u8]) -> Join {
    Join { data: data.into(), ..join(queue, claim) }
}

async fn entries(backend: &Arc<dyn Backend>, queue: &Address) -> Vec<QueueEntry> {
    backend.list(queue, ALL).await.unwrap()
}

/// The data of all nodes of a queue.
async fn data(backend: &Arc<dyn Backend>, queue: &Address) -> Vec<Arc<[u8]>> {
    entries(backend, queue).await.into_iter().map(|entry| entry.data).collect()
}

fn texts(texts: &[&str]) -> Vec<Arc<[u8]>> {
    texts.iter().map(|text| text.as_bytes().into()).collect()
}
