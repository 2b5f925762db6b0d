use std::sync::{Arc, Weak};

use async_trait::async_trait;
use tokio::sync::Notify;

use super::client::MemoryClient;
use super::renewal;
use crate::address::Address;
use crate::contracts::{CellLife, CellWrite, CellWritten, ChangeWatch};
use crate::error::{Error, LostReason, Result};

/// Writes an ephemeral cell under a new lease if the old one is lost.
pub(super) async fn write(
    client: &Arc<MemoryClient>,
    cell: &Address,
    write: &CellWrite,
) -> Result<CellWritten> {
    loop {
        if write.life == CellLife::Lease && client.lease().lost().is_some() {
            let reopening = Arc::clone(client);
            client.link.request("renew", move || renewal::reopen(&reopening)).await??;
        }
        let (id, lease) = client.current.lock().clone();
        let (store, cell, write) = (client.store.clone(), cell.clone(), write.clone());
        match client.link.request("write", move || store.write_cell(id, &cell, &write)).await? {
            Some(written) => return Ok(written),
            None => lease.end(LostReason::Revoked),
        }
    }
}

#[derive(Debug)]
pub(super) struct MemoryWatch {
    // Weak, so that a watch does not keep a dropped client alive.
    client: Weak<MemoryClient>,
    address: Address,
    changed: Arc<Notify>,
    registered: bool,
}

impl MemoryWatch {
    pub(super) fn new(client: &Arc<MemoryClient>, address: Address) -> Self {
        Self { client: Arc::downgrade(client), address, changed: Arc::default(), registered: false }
    }
}

#[async_trait]
impl ChangeWatch for MemoryWatch {
    async fn changed(&mut self) -> Result<()> {
        let client = self.client.upgrade().ok_or_else(Error::closed)?;
        let (link, store) = (client.link.clone(), client.store.clone());
        drop(client);
        if !self.registered {
            let (watched, address, changed) =
                (store.clone(), self.address.clone(), Arc::clone(&self.changed));
            link.request("watch", move || watched.watch(&address, &changed)).await?;
            self.registered = true;
            return Ok(());
        }
        loop {
            // An expiry takes effect only when an operation reads the store.
            let look_at = store.next_expiry(&self.address);
            tokio::select! {
                () = self.changed.notified() => return Ok(()),
                () = link.until_closed() => return Err(Error::closed()),
                () = store.clock().sleep_until(look_at) => {
                    let pruned = store.clone();
                    link.request("watch", move || pruned.prune()).await?;
                }
            }
        }
    }
}
