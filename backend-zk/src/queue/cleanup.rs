use std::sync::atomic::Ordering;

use latchwork_core::backend::{Join, Leave, NodeId};
use latchwork_core::{Error, ErrorKind, Result};

use super::fast_path;
use super::session::Session;
use super::zk_node::ZkNode;
use crate::error::{Answer, Fault};
use crate::layout::{QueuePaths, counter, has_id, id_of};

impl ZkNode {
    pub(super) async fn leave_queue(&self) -> Result<Leave> {
        // Another node may have this path: ids are reused, and a new directory starts a new counter.
        if let Some(left) = self.left.get() {
            return Ok(*left);
        }
        // Before the send: otherwise the deletion looks like a removal by another client. Before the paths
        // are read: a later downgrade must see it.
        self.set_leaving();
        let paths = self.paths();
        let id = self.frees_id.swap(false, Ordering::AcqRel).then(|| id_of(self.name())).flatten();
        let left = match fast_path::announce_release(self).await {
            Ok(true) => Ok(true),
            // The leave may have been carried out. Core repeats it.
            Err(fault) if fault.is_transient() || matches!(fault, Fault::SessionOver) => Err(fault),
            // The node leaves without an announcement, and the next node lists.
            Ok(false) | Err(_) => self.session.driver.delete_all(&paths).await,
        };
        match left {
            Ok(was_there) => {
                let left = *self.left.get_or_init(|| Leave::of(was_there));
                if let Some(id) = id {
                    self.session.names.free(self.queue(), id);
                }
                fast_path::left(self);
                Ok(left)
            }
            Err(Fault::SessionOver) => self.session.lease.over().map(Leave::Absent).ok_or_else(Error::closed),
            Err(fault) => Err(fault.error("leave")),
        }
    }

    /// If the removal is not confirmed, the outcome of the join is unknown, and the id is not freed, because
    /// the attempt may be repeated.
    pub(super) async fn take_back(&self) -> Result<()> {
        self.frees_id.store(false, Ordering::Release);
        self.leave_queue().await.map(drop).map_err(|error| {
            self.session.unsettled.doom(&self.path);
            Error::new(ErrorKind::OutcomeUnknown, "could not remove the node that this join created")
                .because(error)
        })
    }
}

/// The listing follows all requests of the attempt so far (CHAIN-SYNC-AFTER-UNKNOWN-CREATE), except those
/// that arrive [late](super::late).
pub(crate) async fn abandon(session: &Session, join: &Join) -> Result<()> {
    let queue = QueuePaths::of(&join.queue)?;
    let name = session.names.of(join.id);
    let answer = match delete_all_of(session, &queue, name, None).await {
        Ok(()) => {
            session.unsettled.over(name).await;
            Ok(())
        }
        Err(Fault::SessionOver) => session.lease.over().map(drop).ok_or_else(Error::closed),
        Err(fault) => return Err(session.error(fault, "remove the node of an abandoned join")),
    };
    session.names.settle(join.id);
    answer
}

/// Spares the node with this counter.
pub(super) async fn delete_all_of(
    session: &Session,
    queue: &QueuePaths,
    name: NodeId,
    spared: Option<i32>,
) -> Answer<()> {
    let children = session.lease.children_by_majority(&queue.directory).await?;
    let is_spared = |child: &str| spared.is_some() && counter(queue.kind, child) == spared;
    for child in has_id(&children, name).filter(|child| !is_spared(child)) {
        session.driver.delete(&queue.node(child)).await?;
    }
    Ok(())
}
