//! All watches of a client, on one stream.
//!
//! * *Near the head* of a queue a waiter subscribes to the queue's [`Feed`], which is prompt.
//! * *Far from it* it watches its predecessor's key, so that a departure wakes one client rather than all. The last such watch of a
//!   queue is kept a while too: names are used again, and where the same clients take turns so are neighbours. A new one that
//!   starts in the past is served at the server's next 100 ms sync. So in a mutex' queue the predecessor [says](crate::hand_on) that it leaves,
//!   in an *inbox*: all of a client's are watched together, for long.
//! * *Own nodes* are watched from their admission on, so that one that is removed by another is told promptly (NODE-GONE), and
//!   [looked at](crate::recheck) once a TTL. A waiter's is told by a feed, or by the re-check that ends every wait once a TTL.
//!
//! When the stream ends, whoever waits lists again, and own nodes are watched anew (RULES B4).

mod armed;
mod far;
mod served;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use latchwork_core::LostReason;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

pub(crate) use armed::Own;
use armed::{Armed, Mine, Of, Wait, queue_of};

use crate::feed::{Feed, Seen, SubscriberId, Until};
use crate::terms::{Only, Watch};

/// A hold that is over before this costs no watch. What happens meanwhile is not missed: the watch starts at the join.
pub(crate) const SHORT: Duration = Duration::from_millis(200);
/// How long a queue's feed is kept when nobody near the head waits.
const FEED_KEPT: Duration = Duration::from_secs(10);

/// The client's watches.
pub(crate) struct Watches {
    state: Mutex<State>,
    commands: mpsc::UnboundedSender<Command>,
}

/// For the task that owns the stream.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Command {
    Start(i64),
    Stop(i64),
    /// A timer was set.
    Timer,
}

#[derive(Default)]
struct State {
    last_id: i64,
    // Up to this one the last end of a stream has answered those that go on.
    resumed: i64,
    last_subscriber: SubscriberId,
    armed: HashMap<i64, Armed>,
    // By the prefix of a queue, or the key of a node.
    feeds: HashMap<String, i64>,
    // The feed of the last predecessor far from the head, by its queue.
    far: HashMap<String, i64>,
    // By its key, with the server's watch (zero: not asked for yet).
    own: HashMap<Mine, i64>,
    // Each with one constant delay, so that the first is always the next.
    own_due: VecDeque<(Instant, Arc<Own>)>,
    feed_due: VecDeque<(Instant, i64)>,
}

/// A wait for one event. Dropping it ends the wait.
pub(crate) struct Subscription {
    receiver: oneshot::Receiver<Seen>,
    watches: Arc<Watches>,
    watch: i64,
    subscriber: SubscriberId,
}

impl Subscription {
    /// What it was told. Cancel-safe.
    pub(crate) async fn seen(&mut self) -> Seen {
        (&mut self.receiver).await.unwrap_or(Seen::Look)
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

    /// Waits for departures from a queue in which `keys` were listed at revision `after`.
    pub(crate) fn departure(
        self: &Arc<Self>,
        prefix: &str,
        keys: Vec<Vec<u8>>,
        until: Until,
        after: u64,
    ) -> Subscription {
        let mut state = self.state.lock();
        // From now on, not from the listing: a start in the past would be served late. What the gap may hide, `Feed::created` has
        // listed again.
        let id = self.feed_of(&mut state, prefix, true, Only::Deletes, Feed::default());
        self.subscribe(&mut state, id, keys, until, after)
    }

    /// Waits for the first event of one kind on one key after revision `after`: served promptly where that lies ahead of the
    /// server when it makes the watch, else from its next sync on.
    pub(crate) fn key(self: &Arc<Self>, key: Vec<u8>, only: Only, after: u64) -> Subscription {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        let watch = state.watch(key.into(), false, after + 1, only);
        let id = self.arm(&mut state, watch, Of::Key(sender));
        Subscription { receiver, watches: Arc::clone(self), watch: id, subscriber: 0 }
    }

    /// The feed of this name: the one that there is, or this new one, of a watch that begins where it does.
    fn feed_of(&self, state: &mut State, name: &str, prefix: bool, only: Only, new: Feed) -> i64 {
        if let Some(&id) = state.feeds.get(name) {
            return id;
        }
        let from = new.complete_after.map_or(0, |after| after + 1);
        let watch = state.watch(name.as_bytes().into(), prefix, from, only);
        state.feeds.insert(name.to_owned(), watch.id);
        self.arm(state, watch, Of::Feed(name.to_owned(), new))
    }

    /// Has the server asked for a watch.
    fn arm(&self, state: &mut State, watch: Watch, of: Of) -> i64 {
        let id = watch.id;
        state.armed.insert(id, Armed::Wait(Box::new(Wait { watch, of })));
        self.command(Command::Start(id));
        id
    }

    /// Waits for the events of `keys` that a feed tells after this revision.
    fn subscribe(
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
        if let Some(feed) = state.feed(watch) {
            feed.subscribe(subscriber, keys, until, after, sender);
        }
        Subscription { receiver, watches: Arc::clone(self), watch, subscriber }
    }

    /// A feed that sees an own node removed tells it so, until it is [forgotten](Watches::forget). What the queue's feed
    /// has seen before the join was answered counts too: later departures there are to mean that the node is still in it.
    pub(crate) fn register(&self, node: Arc<Own>) {
        let mut state = self.state.lock();
        let name = std::str::from_utf8(&node.key).unwrap_or_default();
        let seen = [node.queue(), name].into_iter().any(|name| {
            let feed = state.feeds.get(name).copied().and_then(|id| state.feed(id));
            feed.is_some_and(|feed| feed.has_seen_leave(&node.key, node.state.sequence()))
        });
        if seen {
            node.state.gone(LostReason::Revoked);
            return;
        }
        // An insertion would keep the key, and so the node, that is there.
        self.forget_in(&mut state, &node.key);
        state.own.insert(Mine(node), 0);
    }

    /// Watches an own node too, unless it is forgotten soon.
    pub(crate) fn keep_watch(&self, node: &Arc<Own>) {
        let mut state = self.state.lock();
        let first = state.own_due.is_empty();
        state.own_due.push_back((Instant::now() + SHORT, Arc::clone(node)));
        if first {
            self.command(Command::Timer);
        }
    }

    /// The node is given back: what happens to its key is no news.
    pub(crate) fn forget(&self, node: &Own) {
        let mut state = self.state.lock();
        // The key may be a later node's by now.
        if state.is_own(node) {
            self.forget_in(&mut state, &node.key);
        }
    }

    fn forget_in(&self, state: &mut State, key: &[u8]) {
        let Some((Mine(node), watch)) = state.own.remove_entry(key) else { return };
        if let Some(left) = &node.left {
            left.notify_one();
        }
        if watch != 0 {
            state.armed.remove(&watch);
            self.command(Command::Stop(watch));
        }
    }

    fn unsubscribe(&self, watch: i64, subscriber: SubscriberId) {
        let mut state = self.state.lock();
        match state.waiting(watch) {
            Some(Of::Feed(_, feed)) => {
                feed.unsubscribe(subscriber);
                if feed.idle_since.is_some() && !feed.timer_set {
                    feed.timer_set = true;
                    let first = state.feed_due.is_empty();
                    state.feed_due.push_back((Instant::now() + FEED_KEPT, watch));
                    if first {
                        self.command(Command::Timer);
                    }
                }
            }
            Some(Of::Key(_)) => {
                state.armed.remove(&watch);
                self.command(Command::Stop(watch));
            }
            None => {}
        }
    }

    fn drop_idle_feed(&self, state: &mut State, id: i64) {
        self.drop_feed_if(state, id, |feed| feed.idle_since.is_some());
    }

    fn drop_feed_if(&self, state: &mut State, id: i64, due: impl Fn(&Feed) -> bool) {
        if !state.feed(id).is_some_and(|feed| due(feed)) {
            return;
        }
        if let Some(Armed::Wait(wait)) = state.armed.remove(&id) {
            state.end(id, wait.of);
            self.command(Command::Stop(id));
        }
    }

    // A failed send: the task is gone with the client, and all waits with it.
    fn command(&self, command: Command) {
        let _ = self.commands.send(command);
    }
}

impl State {
    fn waiting(&mut self, id: i64) -> Option<&mut Of> {
        match self.armed.get_mut(&id)? {
            Armed::Wait(wait) => Some(&mut wait.of),
            Armed::Own(..) => None,
        }
    }

    fn feed(&mut self, id: i64) -> Option<&mut Feed> {
        match self.waiting(id)? {
            Of::Feed(_, feed) => Some(feed),
            Of::Key(_) => None,
        }
    }

    /// This wait's watch is over.
    fn end(&mut self, id: i64, of: Of) {
        if let Of::Feed(name, _) = &of {
            self.feeds.remove(name);
            if let Some(queue) = queue_of(name)
                && self.far.get(queue) == Some(&id)
            {
                self.far.remove(queue);
            }
        }
        of.end();
    }

    /// The node of this client that bears this key.
    fn own(&self, key: &[u8]) -> Option<&Arc<Own>> {
        self.own.get_key_value(key).map(|(Mine(node), _)| node)
    }

    /// Whether this very node is still to be told of its removal: its key may have become another's.
    fn is_own(&self, node: &Own) -> bool {
        self.own(&node.key).is_some_and(|own| own.state.sequence() == node.state.sequence())
    }

    fn watch(&mut self, key: Arc<[u8]>, prefix: bool, from: u64, only: Only) -> Watch {
        self.last_id += 1;
        Watch { id: self.last_id, key, prefix, from, only }
    }
}

impl fmt::Debug for Watches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Watches").field("armed", &state.armed.len()).field("own", &state.own.len()).finish()
    }
}
