//! Waiting far from the head of a queue.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::armed::{Armed, Of, Wait};
use super::{Own, State, Subscription, Watches};
use crate::count::Count;
use crate::feed::{Feed, Until};
use crate::terms::Only;

pub(super) struct Far {
    pub(super) feed: i64,
    // Its key was watched before: it may be ahead again.
    pub(super) again: bool,
}

/// A wait for what is told of releases. Dropping it ends the wait.
pub(crate) struct Telling {
    receiver: mpsc::UnboundedReceiver<Count>,
    watches: Arc<Watches>,
    watch: i64,
}

impl Telling {
    /// The next count. Never, when the server has ended the watch. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Count {
        match self.receiver.recv().await {
            Some(count) => count,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.watches.unsubscribe(self.watch, 0);
    }
}

impl Watches {
    /// Waits, far from the head, for the departure of one key that was listed at revision `after`, and will leave at the
    /// earliest `before_it` revisions later, if it leaves in its turn. Answers too whether it would be told of any other departure.
    /// `may_come_again`: it is the predecessor of an exclusive node, and so may be that of the next.
    pub(crate) fn departure_in_turn(
        self: &Arc<Self>,
        prefix: &str,
        key: &[u8],
        may_come_again: bool,
        after: u64,
        before_it: u64,
    ) -> (Subscription, bool) {
        let Ok(name) = std::str::from_utf8(key) else {
            return (self.key(key.to_vec(), Only::Deletes, after), true);
        };
        let mut state = self.state.lock();
        let id = self.feed_of_key(&mut state, name, after + before_it);
        let again = state.far.get(prefix).is_some_and(|last| last.feed == id);
        let far = Far { feed: id, again: again && may_come_again };
        if let Some(last) = state.far.insert(prefix.to_owned(), far).filter(|_| !again) {
            self.drop_idle_feed(&mut state, last.feed);
        }
        self.departure_of_key(&mut state, id, key, after)
    }

    /// Waits for what is told of releases at a key, from this revision on: served promptly where that lies ahead of the server.
    pub(crate) fn told(self: &Arc<Self>, key: String, from: u64) -> Telling {
        let mut state = self.state.lock();
        let watch = state.watch(key.into_bytes().into(), false, from, Only::Puts);
        let (sender, receiver) = mpsc::unbounded_channel();
        let id = self.arm(&mut state, watch, Of::Told(sender));
        Telling { receiver, watches: Arc::clone(self), watch: id }
    }

    /// Watches an own node far from the head, which will leave after this revision if it leaves in its turn. Answers too whether the
    /// watch has lasted since before the join, so that a removal is told as promptly as what happens later: one that is new has not, but is kept a
    /// while, since names come again.
    pub(crate) fn own_far(self: &Arc<Self>, own: &Own, after: u64) -> Option<(Subscription, bool)> {
        let (joined, name) = (own.state.sequence(), std::str::from_utf8(&own.key).ok()?);
        let mut state = self.state.lock();
        let id = self.feed_of_key(&mut state, name, after);
        let in_order = state.feed(id).is_some_and(|feed| feed.is_prompt_after(joined));
        let (subscription, _) = self.departure_of_key(&mut state, id, &own.key, joined);
        Some((subscription, in_order))
    }

    /// The feed of one key. A new one begins after this revision: in the future, or it would be served late.
    fn feed_of_key(&self, state: &mut State, name: &str, after: u64) -> i64 {
        // In a queue that goes round its names come again: such a watch is prompt, and costs no request.
        self.feed_of(state, name, false, Feed::after(after))
    }

    /// Waits for the departure that a feed of one key tells after this revision. Answers too whether it tells of all since then.
    fn departure_of_key(
        self: &Arc<Self>,
        state: &mut State,
        id: i64,
        key: &[u8],
        after: u64,
    ) -> (Subscription, bool) {
        let complete_after = state.feed(id).and_then(|feed| feed.complete_after);
        let begins = complete_after.map_or(after, |begins| begins.max(after));
        (self.subscribe(state, id, vec![key.to_vec()], Until::All, begins), begins == after)
    }

    /// Who will be the predecessor far from the head of this queue, if it is who it was the last two times. Watched already; told
    /// to one who asks, and to the next when that one has waited for it: others of this client would be woken with it.
    pub(crate) fn neighbour(&self, prefix: &str) -> Option<Arc<[u8]>> {
        let mut state = self.state.lock();
        let State { far, armed, .. } = &mut *state;
        let far = far.get_mut(prefix).filter(|far| far.again)?;
        let Armed::Wait(wait) = armed.get(&far.feed)? else { return None };
        let Wait { watch, of: Of::Feed(_, feed) } = &**wait else { return None };
        feed.idle_since?;
        far.again = false;
        Some(Arc::clone(&watch.key))
    }

    /// This client waits far from the head of this queue: a feed that nobody reads is not kept.
    pub(crate) fn far_from_head(&self, prefix: &str) {
        let mut state = self.state.lock();
        if let Some(&id) = state.feeds.get(prefix) {
            self.drop_idle_feed(&mut state, id);
        }
    }

    /// Whether this client was far from the head of this queue when it waited last.
    pub(crate) fn is_far_from_head(&self, prefix: &str) -> bool {
        self.state.lock().far.contains_key(prefix)
    }

    /// Who was its neighbour is not who is right ahead of it now.
    pub(crate) fn forget_neighbour(&self, prefix: &str) {
        if let Some(far) = self.state.lock().far.get_mut(prefix) {
            far.again = false;
        }
    }

    /// This client waits near the head of this queue: who was its neighbour far from it is not worth asking for.
    pub(crate) fn near_head(&self, prefix: &str) {
        let mut state = self.state.lock();
        if let Some(last) = state.far.remove(prefix) {
            self.drop_idle_feed(&mut state, last.feed);
        }
    }
}
