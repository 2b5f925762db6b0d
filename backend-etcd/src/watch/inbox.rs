//! Waits far from the head of a queue, on an inbox and the predecessor's key, for the [fast
//! path](crate::queue::fast_path).

use std::sync::Arc;

use super::queue_watch::{QueueWatch, Until};
use super::watches::{Subscription, Watches};
use crate::driver::EventKind;
use crate::layout::Inbox;

impl Watches {
    pub(crate) fn inbox(self: &Arc<Self>, inbox: &Inbox, after: u64) -> Subscription {
        let mut state = self.state.lock();
        let new = QueueWatch::default();
        let id = self.shared(&mut state, &inbox.prefix, true, EventKind::Puts, new);
        self.subscribe(&mut state, id, vec![inbox.key.clone().into_bytes()], Until::All, after)
    }

    /// Waits for the departure of one key, which was listed at revision `after`. The last such watch of a
    /// queue is kept: if the same clients take turns, the same names return.
    pub(crate) fn departure_of_key(self: &Arc<Self>, prefix: &str, key: &[u8], after: u64) -> Subscription {
        let Ok(name) = std::str::from_utf8(key) else {
            return self.key(key.to_vec(), EventKind::Deletes, after);
        };
        let mut state = self.state.lock();
        let new = QueueWatch::after(after);
        let id = self.shared(&mut state, name, false, EventKind::Deletes, new);
        if state.queue_watch(id).and_then(|watch| watch.complete_after) > Some(after) {
            // Another waiter's watch, which started later.
            drop(state);
            return self.key(key.to_vec(), EventKind::Deletes, after);
        }
        if let Some(last) = state.far.insert(prefix.to_owned(), id).filter(|last| *last != id) {
            self.drop_if_idle(&mut state, last);
        }
        self.subscribe(&mut state, id, vec![key.to_vec()], Until::All, after)
    }

    /// Drops the watch on the whole queue if it has no subscriber.
    pub(crate) fn far_from_head(&self, prefix: &str) {
        let mut state = self.state.lock();
        if let Some(&id) = state.shared.get(prefix) {
            self.drop_if_idle(&mut state, id);
        }
    }
}
