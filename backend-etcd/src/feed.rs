//! One long-lived watch: on a whole queue, shared by this client's waiters near its head, on one key of it, or on the inboxes in which
//! waiters are spoken to.
//!
//! etcd serves a watch that starts in the past, even by a race of a millisecond, only at its next 100 ms sync; one that
//! has lived for a while is prompt. So it is kept between waits, and remembers what left lately, for those who
//! listed the queue a moment ago and subscribe now.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use tokio::sync::oneshot;

/// What a waiter is told. It is told once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// What it watched has left, or was written (as this), after the revision of its listing.
    Event(Vec<u8>),
    /// It may have missed something: list again.
    Look,
}

/// What ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// One of the keys has left.
    Any,
    /// All of them have.
    All,
}

/// How many departures are remembered.
const REMEMBERED: usize = 256;

pub(crate) type SubscriberId = u64;

/// What a watch has told, as a pure state.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    // All events after this revision are seen here or in `came`; none before the watch is created.
    pub(crate) complete_after: Option<u64>,
    came: VecDeque<Came>,
    by_key: HashMap<Vec<u8>, Vec<SubscriberId>>,
    subscribers: HashMap<SubscriberId, Subscriber>,
    /// Since when nobody subscribes.
    pub(crate) idle_since: Option<Instant>,
    /// A look at its idleness is due some time.
    pub(crate) timer_set: bool,
}

/// An event of a key, at a revision; what was written, empty where the key has left.
#[derive(Debug)]
struct Came {
    at: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

#[derive(Debug)]
struct Subscriber {
    // Those that have not left yet.
    keys: Vec<Vec<u8>>,
    until: Until,
    after: u64,
    sender: oneshot::Sender<Seen>,
}

impl Feed {
    /// Of a watch that starts after this revision, whenever the server makes it.
    pub(crate) fn after(revision: u64) -> Self {
        Self { complete_after: Some(revision), ..Self::default() }
    }

    /// Tells `sender` when `keys` have left after the revision at which they were listed.
    pub(crate) fn subscribe(
        &mut self,
        id: SubscriberId,
        mut keys: Vec<Vec<u8>>,
        until: Until,
        after: u64,
        sender: oneshot::Sender<Seen>,
    ) {
        let seen = match self.complete_after {
            // Told when the watch is created.
            None => None,
            Some(start) if after < start => Some(Seen::Look),
            Some(_) => {
                let (mut over, mut value) = (keys.is_empty(), Vec::new());
                for came in self.came.iter().filter(|came| came.at > after) {
                    let listed = keys.len();
                    keys.retain(|key| *key != came.key);
                    if keys.len() < listed && (keys.is_empty() || until == Until::Any) {
                        (over, value) = (true, came.value.clone());
                    }
                }
                over.then_some(Seen::Event(value))
            }
        };
        if let Some(seen) = seen {
            // Nobody listens any more: its wait was dropped.
            let _ = sender.send(seen);
            return;
        }
        for key in &keys {
            self.by_key.entry(key.clone()).or_default().push(id);
        }
        self.subscribers.insert(id, Subscriber { keys, until, after, sender });
        self.idle_since = None;
    }

    pub(crate) fn unsubscribe(&mut self, id: SubscriberId) {
        self.take(id);
    }

    /// The server made the watch: one without a start of its own sends what happens after `revision`. Whoever listed before that
    /// lists again.
    pub(crate) fn created(&mut self, revision: u64) {
        if self.complete_after.is_some() {
            return;
        }
        self.complete_after = Some(revision);
        let early: Vec<_> = self
            .subscribers
            .iter()
            .filter(|(_, waiter)| waiter.after < revision)
            .map(|(&id, _)| id)
            .collect();
        for id in early {
            self.tell(id, Seen::Look);
        }
    }

    /// Something has happened to a key: it has left, or this was written.
    pub(crate) fn came(&mut self, key: &[u8], value: &[u8], revision: u64) {
        for id in self.by_key.get(key).cloned().unwrap_or_default() {
            // The key may have been made anew since: an earlier departure of its name says nothing.
            let Some(waiter) = self.subscribers.get_mut(&id).filter(|waiter| revision > waiter.after) else {
                continue;
            };
            if waiter.until == Until::Any || waiter.keys.len() == 1 {
                self.tell(id, Seen::Event(value.to_vec()));
                continue;
            }
            waiter.keys.retain(|other| other != key);
            self.no_more(key, id);
        }
        self.came.push_back(Came { at: revision, key: key.to_vec(), value: value.to_vec() });
        if self.came.len() > REMEMBERED {
            self.complete_after = self.came.pop_front().map(|came| came.at);
        }
    }

    /// Whether this key is known to have left after that revision.
    pub(crate) fn has_seen_leave(&self, key: &[u8], after: u64) -> bool {
        self.came.iter().rev().take_while(|came| came.at > after).any(|came| came.key == key)
    }

    /// The watch is over.
    pub(crate) fn end(mut self) {
        for (_, waiter) in self.subscribers.drain() {
            let _ = waiter.sender.send(Seen::Look);
        }
    }

    fn tell(&mut self, id: SubscriberId, seen: Seen) {
        if let Some(waiter) = self.take(id) {
            let _ = waiter.sender.send(seen);
        }
    }

    fn take(&mut self, id: SubscriberId) -> Option<Subscriber> {
        let waiter = self.subscribers.remove(&id)?;
        for key in &waiter.keys {
            self.no_more(key, id);
        }
        if self.subscribers.is_empty() {
            self.idle_since = Some(Instant::now());
        }
        Some(waiter)
    }

    /// This subscriber does not wait for this key.
    fn no_more(&mut self, key: &[u8], id: SubscriberId) {
        if let Some(ids) = self.by_key.get_mut(key) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_key.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left() -> Seen {
        Seen::Event(Vec::new())
    }

    fn subscribe(feed: &mut Feed, id: SubscriberId, key: &str, after: u64) -> oneshot::Receiver<Seen> {
        let (sender, receiver) = oneshot::channel();
        feed.subscribe(id, vec![key.into()], Until::All, after, sender);
        receiver
    }

    #[test]
    fn a_departure_after_the_listing_is_told_once_and_to_its_waiter_only() {
        let mut feed = Feed::default();
        feed.created(10);
        let (mut a, mut b) = (subscribe(&mut feed, 1, "a", 12), subscribe(&mut feed, 2, "b", 12));
        feed.came(b"a", b"", 12);
        assert!(a.try_recv().is_err(), "an earlier incarnation of the name");
        feed.came(b"a", b"", 13);
        assert_eq!(a.try_recv().unwrap(), left());
        assert!(b.try_recv().is_err() && feed.idle_since.is_none());
        feed.unsubscribe(2);
        assert!(feed.idle_since.is_some() && feed.by_key.is_empty());
    }

    #[test]
    fn a_departure_between_listing_and_subscription_is_remembered() {
        let mut feed = Feed::default();
        feed.created(10);
        feed.came(b"a", b"", 13);
        assert_eq!(subscribe(&mut feed, 1, "a", 12).try_recv().unwrap(), left());
        assert!(subscribe(&mut feed, 2, "a", 13).try_recv().is_err());
    }

    #[test]
    fn whoever_listed_before_the_watch_began_lists_again() {
        let mut feed = Feed::default();
        let (mut early, mut late) = (subscribe(&mut feed, 1, "a", 9), subscribe(&mut feed, 2, "a", 10));
        feed.created(10);
        assert_eq!(early.try_recv().unwrap(), Seen::Look);
        assert!(late.try_recv().is_err());
        assert_eq!(subscribe(&mut feed, 3, "a", 9).try_recv().unwrap(), Seen::Look);
    }

    #[test]
    fn a_watch_that_starts_by_itself_is_complete_from_there() {
        let mut feed = Feed::after(20);
        feed.created(12);
        assert_eq!(feed.complete_after, Some(20));
        assert_eq!(subscribe(&mut feed, 1, "a", 19).try_recv().unwrap(), Seen::Look);
        let mut waiter = subscribe(&mut feed, 2, "a", 20);
        feed.came(b"a", b"", 21);
        assert_eq!(waiter.try_recv().unwrap(), left());
    }

    #[test]
    fn what_was_written_is_told_and_remembered() {
        let mut feed = Feed::default();
        feed.created(10);
        let mut waiter = subscribe(&mut feed, 1, "a", 10);
        feed.came(b"a", b"one", 12);
        assert_eq!(waiter.try_recv().unwrap(), Seen::Event(b"one".to_vec()));
        assert_eq!(subscribe(&mut feed, 2, "a", 11).try_recv().unwrap(), Seen::Event(b"one".to_vec()));
        assert!(subscribe(&mut feed, 3, "a", 12).try_recv().is_err());
    }

    #[test]
    fn what_is_forgotten_is_not_missed() {
        let mut feed = Feed::default();
        feed.created(0);
        for at in 1..=REMEMBERED as u64 + 1 {
            feed.came(b"x", b"", at);
        }
        assert_eq!(subscribe(&mut feed, 1, "a", 0).try_recv().unwrap(), Seen::Look);
        assert!(subscribe(&mut feed, 2, "a", 1).try_recv().is_err());
    }

    #[test]
    fn one_departure_ends_the_wait_for_any_and_the_last_that_for_all() {
        let mut feed = Feed::default();
        feed.created(10);
        feed.came(b"a", b"", 12);
        let keys = || vec![b"a".to_vec(), b"b".to_vec(), b"c".to_vec()];
        let mut wait = |id, until, after| {
            let (sender, receiver) = oneshot::channel();
            feed.subscribe(id, keys(), until, after, sender);
            receiver
        };
        assert_eq!(wait(1, Until::Any, 11).try_recv().unwrap(), left());
        let (mut any, mut all, mut later) =
            (wait(2, Until::Any, 12), wait(3, Until::All, 11), wait(4, Until::All, 12));
        feed.came(b"c", b"", 13);
        assert_eq!(any.try_recv().unwrap(), left());
        assert!(all.try_recv().is_err());
        feed.came(b"c", b"", 14);
        assert!(all.try_recv().is_err(), "another node of that name");
        feed.came(b"b", b"", 15);
        assert_eq!(all.try_recv().unwrap(), left());
        assert!(later.try_recv().is_err());
        feed.came(b"a", b"", 16);
        assert_eq!(later.try_recv().unwrap(), left());
        assert!(feed.by_key.is_empty() && feed.subscribers.is_empty());
    }

    #[test]
    fn the_end_of_the_watch_is_told() {
        let mut feed = Feed::default();
        let mut waiter = subscribe(&mut feed, 1, "a", 5);
        feed.end();
        assert_eq!(waiter.try_recv().unwrap(), Seen::Look);
    }
}
