use std::sync::Weak;

use latchwork_core::{LostReason, seen};

use crate::config::NAME;
use crate::queue::zk_node::ZkNode;

/// If the node is not the first, the release was forged: the hold is lost as revoked, and the node is
/// removed. The listing follows a `sync`, because a server that lags still shows nodes that have left.
pub(crate) async fn verify_admission(node: Weak<ZkNode>) {
    while let Some(held) = node.upgrade().filter(|held| !held.is_leaving() && held.state.lost().is_none()) {
        match held.driver().sync_children(held.queue()).await {
            Ok(children) => match held.contenders(children).position(held.name()) {
                Some(0) | None => return,
                Some(_) => {
                    seen::intruder(NAME, &held.path);
                    held.state.gone(LostReason::Revoked);
                    // The node must not block other clients.
                    while held.leave_queue().await.is_err() && held.driver().recovered().await.is_ok() {}
                    return;
                }
            },
            Err(fault) if fault.is_transient() && held.driver().recovered().await.is_ok() => {}
            Err(_) => return,
        }
    }
}
