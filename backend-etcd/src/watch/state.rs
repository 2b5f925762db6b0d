use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::armed::{ArmedWatch, Notify};
use super::own_node::{ByKey, OwnNode, queue_of};
use super::queue_watch::{QueueWatch, SubscriberId};
use crate::driver::{EventKind, Watch};

#[derive(Default)]
pub(super) struct State {
    pub(super) last_id: i64,
    // Watches up to this id continue from the stream before.
    pub(super) resumed: i64,
    pub(super) last_subscriber: SubscriberId,
    pub(super) armed: HashMap<i64, ArmedWatch>,
    pub(super) shared: HashMap<String, i64>,
    // The watch on the last predecessor far from the head, by queue.
    pub(super) far: HashMap<String, i64>,
    pub(super) own: HashMap<ByKey, i64>,
    // All have the same delay, so the first is the next.
    pub(super) own_due: VecDeque<(Instant, Arc<OwnNode>)>,
    pub(super) idle_due: VecDeque<(Instant, i64)>,
}

impl State {
    pub(super) fn notify(&mut self, id: i64) -> Option<&mut Notify> {
        match self.armed.get_mut(&id)? {
            ArmedWatch::Waiters(waiters) => Some(&mut waiters.notify),
            ArmedWatch::OwnNode(..) => None,
        }
    }

    pub(super) fn queue_watch(&mut self, id: i64) -> Option<&mut QueueWatch> {
        match self.notify(id)? {
            Notify::Shared(_, queue_watch) => Some(queue_watch),
            Notify::One(_) | Notify::Change(_) => None,
        }
    }

    pub(super) fn end(&mut self, id: i64, notify: Notify) {
        if let Notify::Shared(name, _) = &notify {
            self.shared.remove(name);
            if let Some(queue) = queue_of(name)
                && self.far.get(queue) == Some(&id)
            {
                self.far.remove(queue);
            }
        }
        notify.end();
    }

    pub(super) fn own(&self, key: &[u8]) -> Option<&Arc<OwnNode>> {
        self.own.get_key_value(key).map(|(ByKey(node), _)| node)
    }

    /// A later node may have the key.
    pub(super) fn is_own(&self, node: &OwnNode) -> bool {
        self.own(&node.key).is_some_and(|own| own.state.sequence() == node.state.sequence())
    }

    pub(super) fn watch(&mut self, key: Arc<[u8]>, prefix: bool, from: u64, only: EventKind) -> Watch {
        self.last_id += 1;
        Watch { id: self.last_id, key, prefix, from, only }
    }
}
