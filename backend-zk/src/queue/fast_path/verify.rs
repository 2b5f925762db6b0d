//! The check after an admission by an announced release.

use std::sync::Weak;

use latchwork_core::{LostReason, seen};

use crate::config::NAME;
use crate::queue::zk_node::ZkNode;

/// Checks that the node is the first in its queue. Otherwise the release was forged by another
/// client: the hold is lost as if it was revoked, and its node is removed, which admits no node.
/// The listing follows a `sync`, because a server that lags still shows nodes that have left.
pub(crate) async fn verify_admission(node: Weak<ZkNode>) {
    while let Some(held) = node.upgrade().filter(|held| !held.is_leaving() && held.state.lost().is_none()) {
        match held.driver().sync_children(held.queue()).await {
            Ok(children) => match held.contenders(children).position(held.name()) {
                // If the node is gone, its watch reports it.
                Some(0) | None => return,
                Some(_) => {
                    seen::intruder(NAME, &held.path);
                    held.state.gone(LostReason::Revoked);
                    // A node that is not held any more must not block other clients.
                    while held.leave_queue().await.is_err() && held.driver().recovered().await.is_ok() {}
                    return;
                }
            },
            Err(fault) if fault.is_transient() && held.driver().recovered().await.is_ok() => {}
            Err(_) => return,
        }
    }
}
