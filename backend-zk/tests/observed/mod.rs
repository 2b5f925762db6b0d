mod data;
mod queues;

use std::sync::Arc;

use latchwork_core::backend::{Backend, Join, QueueEntry};
use latchwork_core::{Address, Claim};

use crate::common::{ALL, join};

pub(crate) fn with_data(queue: &Address, claim: Claim, data: &[u8]) -> Join {
    Join { data: data.into(), ..join(queue, claim) }
}

async fn entries(backend: &Arc<dyn Backend>, queue: &Address) -> Vec<QueueEntry> {
    backend.list(queue, ALL).await.unwrap()
}

pub(crate) async fn data(backend: &Arc<dyn Backend>, queue: &Address) -> Vec<Arc<[u8]>> {
    entries(backend, queue).await.into_iter().map(|entry| entry.data).collect()
}

pub(crate) fn texts(texts: &[&str]) -> Vec<Arc<[u8]>> {
    texts.iter().map(|text| text.as_bytes().into()).collect()
}
