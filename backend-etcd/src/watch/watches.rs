use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use latchwork_core::LostReason;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::armed::{ArmedWatch, Notify, Waiters};
use super::own_node::{ByKey, OwnNode};
use super::queue_watch::{Notified, QueueWatch, SubscriberId, Until};
use super::state::State;
use crate::driver::{EventKind, Watch};

/// A shorter hold needs no watch. From the revision of the join on, it misses no event.
pub(crate) const SHORT_HOLD: Duration = Duration::from_millis(200);
pub(super) const IDLE_KEPT: Duration = Duration::from_secs(10);

pub(crate) struct Watches {
    pub(super) state: Mutex<State>,
    commands: mpsc::UnboundedSender<Command>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Command {
    Start(i64),
    Stop(i64),
    Timer,
}

pub(crate) struct Subscription {
    receiver: oneshot::Receiver<Notified>,
    watches: Arc<Watches>,
    watch: i64,
    subscriber: SubscriberId,
}

impl Subscription {
    pub(crate) async fn notified(&mut self) -> Notified {
        (&mut self.receiver).await.unwrap_or(Notified::Missed)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.watches.unsubscribe(self.watch, self.subscriber);
    }
}

impl Watches {
    pub(crate) fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<Command>) {
        let (commands, receiver) = mpsc::unbounded_channel();
        (Arc::new(Self { state: Mutex::default(), commands }), receiver)
    }

    pub(crate) fn departure(
        self: &Arc<Self>,
        prefix: &str,
        keys: Vec<Vec<u8>>,
        until: Until,
        after: u64,
    ) -> Subscription {
        let mut state = self.state.lock();
        // A start in the past is served late. A waiter that listed before the server created the watch lists
        // again.
        let new = QueueWatch::default();
        let id = self.shared(&mut state, prefix, true, EventKind::Deletes, new);
        self.subscribe(&mut state, id, keys, until, after)
    }

    /// The first event after revision `after`. It is prompt if the server creates the watch before that
    /// revision, and otherwise comes with the next sync.
    pub(crate) fn key(self: &Arc<Self>, key: Vec<u8>, only: EventKind, after: u64) -> Subscription {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        let watch = state.watch(key.into(), false, after + 1, only);
        let id = self.arm(&mut state, watch, Notify::One(sender));
        Subscription { receiver, watches: Arc::clone(self), watch: id, subscriber: 0 }
    }

    pub(super) fn shared(
        &self,
        state: &mut State,
        name: &str,
        prefix: bool,
        only: EventKind,
        new: QueueWatch,
    ) -> i64 {
        if let Some(&id) = state.shared.get(name) {
            return id;
        }
        let from = new.complete_after.map_or(0, |after| after + 1);
        let watch = state.watch(name.as_bytes().into(), prefix, from, only);
        state.shared.insert(name.to_owned(), watch.id);
        self.arm(state, watch, Notify::Shared(name.to_owned(), new))
    }

    pub(super) fn arm(&self, state: &mut State, watch: Watch, notify: Notify) -> i64 {
        let id = watch.id;
        state.armed.insert(id, ArmedWatch::Waiters(Box::new(Waiters { watch, notify })));
        self.command(Command::Start(id));
        id
    }

    pub(super) fn subscribe(
        self: &Arc<Self>,
        state: &mut State,
        watch: i64,
        keys: Vec<Vec<u8>>,
        until: Until,
        after: u64,
    ) -> Subscription {
        let (sender, receiver) = oneshot::channel();
        state.last_subscriber += 1;
        let subscriber = state.last_subscriber;
        if let Some(queue_watch) = state.queue_watch(watch) {
            queue_watch.subscribe(subscriber, keys, until, after, sender);
        }
        Subscription { receiver, watches: Arc::clone(self), watch, subscriber }
    }

    /// An event that removes the node ends its hold, until it is [forgotten](Watches::forget). An event that
    /// overtook the answer to the join counts too, so a later departure of another node proves that this one
    /// exists.
    pub(crate) fn register(&self, node: Arc<OwnNode>) {
        let mut state = self.state.lock();
        let name = std::str::from_utf8(&node.key).unwrap_or_default();
        let has_left = [node.queue(), name].into_iter().any(|name| {
            let watch = state.shared.get(name).copied().and_then(|id| state.queue_watch(id));
            watch.is_some_and(|watch| watch.has_left(&node.key, node.state.sequence()))
        });
        if has_left {
            node.state.gone(LostReason::Revoked);
            return;
        }
        // An insertion would keep the map's key, and so the old node.
        self.forget_key(&mut state, &node.key);
        state.own.insert(ByKey(node), 0);
    }

    pub(crate) fn watch_own(&self, node: &Arc<OwnNode>) {
        let mut state = self.state.lock();
        let first = state.own_due.is_empty();
        state.own_due.push_back((Instant::now() + SHORT_HOLD, Arc::clone(node)));
        if first {
            self.command(Command::Timer);
        }
    }

    pub(crate) fn forget(&self, node: &OwnNode) {
        let mut state = self.state.lock();
        if state.is_own(node) {
            self.forget_key(&mut state, &node.key);
        }
    }

    pub(super) fn forget_key(&self, state: &mut State, key: &[u8]) {
        let Some((ByKey(node), watch)) = state.own.remove_entry(key) else { return };
        if let Some(left) = &node.left {
            left.cancel();
        }
        if watch != 0 {
            state.armed.remove(&watch);
            self.command(Command::Stop(watch));
        }
    }

    pub(crate) fn is_own(&self, node: &OwnNode) -> bool {
        self.state.lock().is_own(node)
    }

    /// Does nothing if the client has left with the node.
    pub(crate) fn removed(&self, node: &OwnNode, why: LostReason) {
        let mut state = self.state.lock();
        if state.is_own(node) {
            node.state.gone(why);
            self.forget_key(&mut state, &node.key);
        }
    }

    pub(super) fn unsubscribe(&self, watch: i64, subscriber: SubscriberId) {
        let mut state = self.state.lock();
        match state.notify(watch) {
            Some(Notify::Shared(_, queue_watch)) => {
                queue_watch.take(subscriber);
                if queue_watch.idle_since.is_some() && !queue_watch.timer_set {
                    queue_watch.timer_set = true;
                    let first = state.idle_due.is_empty();
                    state.idle_due.push_back((Instant::now() + IDLE_KEPT, watch));
                    if first {
                        self.command(Command::Timer);
                    }
                }
            }
            Some(Notify::One(_) | Notify::Change(_)) => {
                state.armed.remove(&watch);
                self.command(Command::Stop(watch));
            }
            None => {}
        }
    }

    pub(super) fn drop_if_idle(&self, state: &mut State, id: i64) {
        self.drop_if(state, id, |queue_watch| queue_watch.idle_since.is_some());
    }

    pub(super) fn drop_if(&self, state: &mut State, id: i64, due: impl Fn(&QueueWatch) -> bool) {
        if !state.queue_watch(id).is_some_and(|queue_watch| due(queue_watch)) {
            return;
        }
        if let Some(ArmedWatch::Waiters(waiters)) = state.armed.remove(&id) {
            state.end(id, waiters.notify);
            self.command(Command::Stop(id));
        }
    }

    pub(super) fn command(&self, command: Command) {
        let _ = self.commands.send(command);
    }
}

impl fmt::Debug for Watches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Watches").field("armed", &state.armed.len()).field("own", &state.own.len()).finish()
    }
}
