use std::sync::{Arc, Weak};

use super::client::MemoryClient;
use super::stored_node::LeaseId;
use crate::contracts::LeaseWriter;
use crate::decide::renewal_period;
use crate::error::{Error, LostReason, Result};

pub(super) fn start(client: &Arc<MemoryClient>) {
    let (id, lease) = client.current.lock().clone();
    let renewal = client.runtime.spawn(renew(Arc::downgrade(client), id, lease));
    client.link.set_renewal(renewal.abort_handle());
}

/// LEASE-REOPEN.
pub(super) fn reopen(client: &Arc<MemoryClient>) -> Result<()> {
    let mut current = client.current.lock();
    // A close takes this lock after it closes the link. So it ends the lease that is opened here, or none is
    // opened.
    if client.link.is_closed() {
        return Err(Error::closed());
    }
    if current.1.lost().is_none() {
        return Ok(());
    }
    let (old, clock) = (current.0, client.store.clock().clone());
    *current =
        (client.store.open_lease(client.ttl), LeaseWriter::new(clock.clone(), client.ttl, clock.now()));
    client.link.set_lease(current.0);
    drop(current);
    // LEASE-CLEAN-UP-AFTER-LOSS.
    client.store.end_lease(old, LostReason::Expired);
    start(client);
    Ok(())
}

async fn renew(client: Weak<MemoryClient>, id: LeaseId, lease: LeaseWriter) {
    let clock = lease.clock().clone();
    let period = renewal_period(lease.ttl());
    let mut next = clock.now() + period;
    while lease.lost().is_none() {
        clock.sleep_until(next).await;
        let Some(client) = client.upgrade() else { return };
        let sent = clock.now();
        next = sent + period;
        lease.awaiting(sent, next);
        let store = client.store.clone();
        match client.link.request("renew", move || store.renew(id)).await {
            Ok(Some(())) => {
                lease.proven(sent);
            }
            Ok(None) => lease.end(LostReason::Revoked),
            Err(error) if error.may_pass() => next = sent + period / 4,
            Err(_) => return,
        }
        lease.tick();
    }
    lease.tick();
}
