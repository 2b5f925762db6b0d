use latchwork_core::Claim;

use super::birth::Birth;
use crate::driver::Stat;
use crate::layout::{Contenders, QueuePaths, sequence};
use crate::queue::session::Session;
use crate::queue::zk_node::ZkNode;

/// With at least this many nodes ahead, a waiter remembers its predecessor.
const FAR_FROM_HEAD: usize = 4;

pub(crate) fn created(session: &Session, queue: &QueuePaths, claim: Claim, path: &str, stat: &Stat) {
    if let (Claim::Exclusive, Some(history)) = (claim, session.fast_path.history())
        && let Some(birth) = Birth::of(queue.kind, path, sequence(stat.czxid))
    {
        history.made(queue.kind, &queue.directory, birth);
    }
}

pub(crate) fn listed(node: &ZkNode, children: usize) {
    // Half of the distance, so that a queue of about that length does not alternate.
    if children <= FAR_FROM_HEAD / 2
        && let Some(history) = node.session.fast_path.history()
    {
        history.forget_neighbour(node.queue());
    }
}

pub(crate) fn learn_position(node: &ZkNode, contenders: &Contenders, at: usize) {
    let (Claim::Exclusive, Some(history)) = (node.claim, node.session.fast_path.history()) else { return };
    match contenders.right_before(at).filter(|_| at >= FAR_FROM_HEAD) {
        Some(prefix) => history.far(node.kind, node.queue(), prefix),
        None => history.forget_neighbour(node.queue()),
    }
}

/// The node of a lost hold says nothing about the nodes before it.
pub(crate) fn left(node: &ZkNode) {
    if node.claim == Claim::Exclusive
        && node.has_entered()
        && node.state.lost().is_none()
        && let Some(history) = node.session.fast_path.history()
        && let Some(birth) = Birth::of(node.kind, node.name(), node.state.sequence())
    {
        history.left(node.kind, node.queue(), birth, node.state.lease().clock().now());
    }
}
