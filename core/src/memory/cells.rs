//! The watch of a cell.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use tokio::sync::Notify;

use super::client::MemoryClient;
use crate::address::Address;
use crate::contracts::CellWatch;
use crate::error::{Error, Result};

#[derive(Debug)]
pub(super) struct MemoryCellWatch {
    // Weak: a watch does not keep the client of a dead handle alive.
    client: Weak<MemoryClient>,
    cell: Address,
    // The store tells it of changes, once it is registered there.
    changed: Arc<Notify>,
    registered: bool,
}

impl MemoryCellWatch {
    pub(super) fn new(client: &Arc<MemoryClient>, cell: Address) -> Self {
        Self { client: Arc::downgrade(client), cell, changed: Arc::default(), registered: false }
    }
}

#[async_trait]
impl CellWatch for MemoryCellWatch {
    async fn changed(&mut self) -> Result<()> {
        let client = self.client.upgrade().ok_or_else(Error::closed)?;
        let link = client.link.clone();
        if !self.registered {
            let (store, cell) = (client.store.clone(), self.cell.clone());
            let changed = Arc::clone(&self.changed);
            link.request(move || store.watch_cell(&cell, &changed)).await?;
            self.registered = true;
            return Ok(());
        }
        drop(client);
        tokio::select! {
            () = self.changed.notified() => Ok(()),
            () = link.until_closed() => Err(Error::closed()),
        }
    }
}
