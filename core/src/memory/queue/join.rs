use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::node::MemoryNode;
use crate::contracts::{Join, Joined, NodeWriter};
use crate::decide::queue::{Answer, QueueJoin};
use crate::error::{Error, LostReason, Result};
use crate::memory::client::MemoryClient;
use crate::memory::renewal;
use crate::memory::stored_node::StoredNode;

pub(in crate::memory) async fn join(client: &Arc<MemoryClient>, join: &Join) -> Result<Joined> {
    if client.lease().lost().is_some() {
        // An unreachable store grants no lease, so this is a request too.
        let reopening = Arc::clone(client);
        client.link.request("renew", move || renewal::reopen(&reopening)).await??;
    }
    let (id, lease) = client.current.lock().clone();
    let ask = QueueJoin {
        id: join.id,
        claim: join.claim,
        limit: join.limit,
        ttl: u64::try_from(lease.ttl().as_micros()).expect("a TTL is at most an hour"),
        patience: join.patience,
    };
    let (store, asked, node_lease) = (client.store.clone(), join.clone(), lease.clone());
    let request = move || {
        store.join(id, &asked.queue, &ask, |sequence, ahead| {
            let state = NodeWriter::new(node_lease, sequence);
            state.joined_behind(ahead);
            Arc::new(StoredNode::new(&asked, id, state))
        })
    };
    let answered = client.link.request("join", request).await?;
    if let Some((_, Some(stored))) = &answered {
        stored.repeated.fetch_or(join.repeated, Ordering::AcqRel);
    }
    let node = |stored| Arc::new(MemoryNode::new(stored, join.claim, Arc::downgrade(client)));
    match answered {
        Some((Answer::Admitted { .. }, Some(stored))) => Ok(Joined::Admitted(node(stored))),
        Some((Answer::Waiting { .. }, Some(stored))) => Ok(Joined::Waiting(node(stored))),
        Some((Answer::Refused, _)) => Ok(Joined::Refused),
        Some((Answer::Conflict { stored }, _)) => Err(join.conflict(&stored.into())),
        // The lease was ended from outside.
        None => {
            lease.end(LostReason::Revoked);
            Err(Error::lost(LostReason::Expired))
        }
        // The attempt was abandoned, or its node is on a lost lease.
        Some(_) => Err(Error::lost(LostReason::Expired)),
    }
}
