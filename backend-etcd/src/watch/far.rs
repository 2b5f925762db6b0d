//! Waiting far from the head of a queue.

use std::sync::Arc;

use super::{Subscription, Watches};
use crate::feed::{Feed, Until};
use crate::keys::Inbox;
use crate::terms::Only;

impl Watches {
    /// Waits for what is said in an inbox after this revision.
    pub(crate) fn inbox(self: &Arc<Self>, inbox: &Inbox, after: u64) -> Subscription {
        let mut state = self.state.lock();
        // From now on, as a queue's.
        let id = self.feed_of(&mut state, &inbox.prefix, true, Only::Puts, Feed::default());
        self.subscribe(&mut state, id, vec![inbox.key.clone().into_bytes()], Until::All, after)
    }

    /// Waits, far from the head, for the departure of one key that was listed at revision `after`.
    pub(crate) fn departure_of_key(self: &Arc<Self>, prefix: &str, key: &[u8], after: u64) -> Subscription {
        let Ok(name) = std::str::from_utf8(key) else {
            return self.key(key.to_vec(), Only::Deletes, after);
        };
        let mut state = self.state.lock();
        // In a queue that goes round its names come again: such a watch is prompt, and costs no request.
        let id = self.feed_of(&mut state, name, false, Only::Deletes, Feed::after(after));
        if state.feed(id).and_then(|feed| feed.complete_after) > Some(after) {
            // Another's, that began later.
            drop(state);
            return self.key(key.to_vec(), Only::Deletes, after);
        }
        if let Some(last) = state.far.insert(prefix.to_owned(), id).filter(|last| *last != id) {
            self.drop_idle_feed(&mut state, last);
        }
        self.subscribe(&mut state, id, vec![key.to_vec()], Until::All, after)
    }

    /// This client waits far from the head of this queue: a feed that nobody reads is not kept.
    pub(crate) fn far_from_head(&self, prefix: &str) {
        let mut state = self.state.lock();
        if let Some(&id) = state.feeds.get(prefix) {
            self.drop_idle_feed(&mut state, id);
        }
    }
}
