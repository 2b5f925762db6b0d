//! Leaving a queue.
//!
//! A leave deletes the node under its create revision, because a later node may have the same name. The first
//! leave needs no condition: the name is used again only after its answer. If an earlier request of the join
//! may be under way, the leave also writes a tombstone, and that name is never used again.

use latchwork_core::backend::{Join, Leave};
use latchwork_core::{Error, LostReason, Result};

use super::context::NodeContext;
use super::data;
use super::node::{EtcdNode, NodeName};
use crate::driver::{Op, Txn};
use crate::error::{Answer, Failure};
use crate::layout::Queue;

pub(crate) async fn leave(node: &EtcdNode) -> Result<Leave> {
    node.context.watches.forget(&node.own);
    if node.context.leases.is_closed() {
        return Err(Error::closed());
    }
    // A second leave may arrive when another node has the name.
    let lent = {
        let mut name = node.name.lock();
        match *name {
            NodeName::Lent(lent) => {
                *name = NodeName::Left;
                Some(lent)
            }
            NodeName::Left | NodeName::Repeated(_) => None,
        }
    };
    match delete(node, lent.is_some()).await {
        Ok(was_there) => {
            if let Some(name) = lent {
                node.context.names.free(node.own.queue(), name);
            }
            Ok(if was_there { Leave::Removed } else { Leave::Absent(node.why_gone().await) })
        }
        // Without the lease, neither this node nor a late one exists.
        Err(Failure::LeaseGone) => {
            Ok(Leave::Absent(node.own.state.lease().lost().unwrap_or(LostReason::Revoked)))
        }
        Err(failure) => Err(failure.into()),
    }
}

/// `first`: no other node has its name yet.
async fn delete(node: &EtcdNode, first: bool) -> Answer<bool> {
    let context = &node.context;
    let handed_over = match node.handover() {
        Some(handover) => handover.leave(&context.driver, &node.own, first).await?,
        None => None,
    };
    let name = *node.name.lock();
    match (name, handed_over) {
        (NodeName::Repeated(attempt), _) => {
            let was_there = context.tombstones.abandon(node.lease, attempt, node.keys()).await?;
            Ok(was_there || handed_over == Some(true))
        }
        (_, Some(was_there)) => Ok(was_there),
        (_, None) if first => context.driver.delete_each(&node.keys()).await,
        (_, None) => {
            let deletes = node.keys().into_iter().map(Op::Delete).collect();
            Ok(context.driver.txn(Txn::when(node.own.exists(), deletes)).await?.succeeded)
        }
    }
}

pub(crate) async fn abandon(context: &NodeContext, queue: &Queue, join: &Join) -> Result<()> {
    let session = context.leases.current();
    // Without the lease, neither a node nor a late one exists, and a lost lease is revoked.
    let mut lease_gone = false;
    if session.lease.lost().is_none() {
        let node = queue.node(session.id, context.names.of(join.id), join.claim);
        let keys = data::keys(node.as_bytes(), data::is_beside(queue.data_place(join.claim), &join.data));
        match context.tombstones.abandon(session.id, join.id, keys).await {
            Ok(_) => {}
            Err(Failure::LeaseGone) => lease_gone = true,
            Err(failure) => return Err(failure.into()),
        }
    }
    context.names.settle(join.id);
    if lease_gone {
        session.gone(&context.driver).await;
    }
    Ok(())
}
