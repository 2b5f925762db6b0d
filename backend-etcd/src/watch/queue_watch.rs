//! One long-lived watch that several waiters of this client share: on a whole queue, on one key of it, or on
//! the inboxes of its nodes. It stores the last events for a waiter that has just listed.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use tokio::sync::oneshot;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notified {
    /// A deletion, or a write of this value, after the revision of the waiter's listing.
    Event(Vec<u8>),
    /// The waiter may have missed an event, and must list again.
    Missed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    Any,
    All,
}

const REMEMBERED: usize = 256;

pub(super) type SubscriberId = u64;

#[derive(Debug, Default)]
pub(super) struct QueueWatch {
    // Every event after this revision arrives here or is in `past`. `None` until the server has created the
    // watch.
    pub(super) complete_after: Option<u64>,
    past: VecDeque<PastEvent>,
    by_key: HashMap<Vec<u8>, Vec<SubscriberId>>,
    subscribers: HashMap<SubscriberId, Subscriber>,
    /// Without a subscriber since then.
    pub(super) idle_since: Option<Instant>,
    pub(super) timer_set: bool,
}

/// An empty value: the key was deleted.
#[derive(Debug)]
struct PastEvent {
    at: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Subscriber {
    keys: Vec<Vec<u8>>,
    until: Until,
    after: u64,
    sender: oneshot::Sender<Notified>,
}

impl QueueWatch {
    pub(super) fn after(revision: u64) -> Self {
        Self { complete_after: Some(revision), ..Self::default() }
    }

    /// `keys` were listed at revision `after`.
    pub(super) fn subscribe(
        &mut self,
        id: SubscriberId,
        mut keys: Vec<Vec<u8>>,
        until: Until,
        after: u64,
        sender: oneshot::Sender<Notified>,
    ) {
        let notified = match self.complete_after {
            None => None,
            Some(start) if after < start => Some(Notified::Missed),
            Some(_) => {
                let (mut over, mut value) = (keys.is_empty(), Vec::new());
                for past in self.past.iter().filter(|past| past.at > after) {
                    let listed = keys.len();
                    keys.retain(|key| *key != past.key);
                    if keys.len() < listed && (keys.is_empty() || until == Until::Any) {
                        (over, value) = (true, past.value.clone());
                    }
                }
                over.then_some(Notified::Event(value))
            }
        };
        if let Some(notified) = notified {
            let _ = sender.send(notified);
            return;
        }
        for key in &keys {
            self.by_key.entry(key.clone()).or_default().push(id);
        }
        self.subscribers.insert(id, Subscriber { keys, until, after, sender });
        self.idle_since = None;
    }

    /// A watch without its own start sends events after `revision`, so a subscriber that listed before that
    /// may have missed one.
    pub(super) fn created(&mut self, revision: u64) {
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
            self.notify(id, Notified::Missed);
        }
    }

    pub(super) fn event(&mut self, key: &[u8], value: &[u8], revision: u64) {
        for id in self.by_key.get(key).cloned().unwrap_or_default() {
            // An earlier event is of an earlier node of this name.
            let Some(waiter) = self.subscribers.get_mut(&id).filter(|waiter| revision > waiter.after) else {
                continue;
            };
            if waiter.until == Until::Any || waiter.keys.len() == 1 {
                self.notify(id, Notified::Event(value.to_vec()));
                continue;
            }
            waiter.keys.retain(|other| other != key);
            self.unwatch(key, id);
        }
        self.past.push_back(PastEvent { at: revision, key: key.to_vec(), value: value.to_vec() });
        if self.past.len() > REMEMBERED {
            self.complete_after = self.past.pop_front().map(|past| past.at);
        }
    }

    pub(super) fn has_left(&self, key: &[u8], after: u64) -> bool {
        self.past.iter().rev().take_while(|past| past.at > after).any(|past| past.key == key)
    }

    pub(super) fn end(mut self) {
        for (_, waiter) in self.subscribers.drain() {
            let _ = waiter.sender.send(Notified::Missed);
        }
    }

    fn notify(&mut self, id: SubscriberId, notified: Notified) {
        if let Some(waiter) = self.take(id) {
            let _ = waiter.sender.send(notified);
        }
    }

    pub(super) fn take(&mut self, id: SubscriberId) -> Option<Subscriber> {
        let waiter = self.subscribers.remove(&id)?;
        for key in &waiter.keys {
            self.unwatch(key, id);
        }
        if self.subscribers.is_empty() {
            self.idle_since = Some(Instant::now());
        }
        Some(waiter)
    }

    fn unwatch(&mut self, key: &[u8], id: SubscriberId) {
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

    fn left() -> Notified {
        Notified::Event(Vec::new())
    }

    fn subscribe(
        watch: &mut QueueWatch,
        id: SubscriberId,
        key: &str,
        after: u64,
    ) -> oneshot::Receiver<Notified> {
        let (sender, receiver) = oneshot::channel();
        watch.subscribe(id, vec![key.into()], Until::All, after, sender);
        receiver
    }

    #[test]
    fn a_departure_after_the_listing_notifies_its_waiter_only_and_once() {
        let mut watch = QueueWatch::default();
        watch.created(10);
        let (mut a, mut b) = (subscribe(&mut watch, 1, "a", 12), subscribe(&mut watch, 2, "b", 12));
        watch.event(b"a", b"", 12);
        assert!(a.try_recv().is_err(), "the event is of an earlier node of this name");
        watch.event(b"a", b"", 13);
        assert_eq!(a.try_recv().unwrap(), left());
        assert!(b.try_recv().is_err() && watch.idle_since.is_none());
        watch.take(2);
        assert!(watch.idle_since.is_some() && watch.by_key.is_empty());
    }

    #[test]
    fn a_departure_between_listing_and_subscription_is_remembered() {
        let mut watch = QueueWatch::default();
        watch.created(10);
        watch.event(b"a", b"", 13);
        assert_eq!(subscribe(&mut watch, 1, "a", 12).try_recv().unwrap(), left());
        assert!(subscribe(&mut watch, 2, "a", 13).try_recv().is_err());
    }

    #[test]
    fn a_waiter_that_listed_before_the_watch_began_may_have_missed_an_event() {
        let mut watch = QueueWatch::default();
        let (mut early, mut late) = (subscribe(&mut watch, 1, "a", 9), subscribe(&mut watch, 2, "a", 10));
        watch.created(10);
        assert_eq!(early.try_recv().unwrap(), Notified::Missed);
        assert!(late.try_recv().is_err());
        assert_eq!(subscribe(&mut watch, 3, "a", 9).try_recv().unwrap(), Notified::Missed);
    }

    #[test]
    fn watch_after_a_revision_is_complete_from_that_revision() {
        let mut watch = QueueWatch::after(20);
        watch.created(12);
        assert_eq!(watch.complete_after, Some(20));
        assert_eq!(subscribe(&mut watch, 1, "a", 19).try_recv().unwrap(), Notified::Missed);
        let mut waiter = subscribe(&mut watch, 2, "a", 20);
        watch.event(b"a", b"", 21);
        assert_eq!(waiter.try_recv().unwrap(), left());
    }

    #[test]
    fn a_write_notifies_and_is_remembered() {
        let mut watch = QueueWatch::default();
        watch.created(10);
        let mut waiter = subscribe(&mut watch, 1, "a", 10);
        watch.event(b"a", b"one", 12);
        assert_eq!(waiter.try_recv().unwrap(), Notified::Event(b"one".to_vec()));
        assert_eq!(subscribe(&mut watch, 2, "a", 11).try_recv().unwrap(), Notified::Event(b"one".to_vec()));
        assert!(subscribe(&mut watch, 3, "a", 12).try_recv().is_err());
    }

    #[test]
    fn a_waiter_from_before_the_oldest_event_may_have_missed_one() {
        let mut watch = QueueWatch::default();
        watch.created(0);
        for at in 1..=REMEMBERED as u64 + 1 {
            watch.event(b"x", b"", at);
        }
        assert_eq!(subscribe(&mut watch, 1, "a", 0).try_recv().unwrap(), Notified::Missed);
        assert!(subscribe(&mut watch, 2, "a", 1).try_recv().is_err());
    }

    #[test]
    fn one_departure_ends_the_wait_for_any_and_the_last_that_for_all() {
        let mut watch = QueueWatch::default();
        watch.created(10);
        watch.event(b"a", b"", 12);
        let keys = || vec![b"a".to_vec(), b"b".to_vec(), b"c".to_vec()];
        let mut wait = |id, until, after| {
            let (sender, receiver) = oneshot::channel();
            watch.subscribe(id, keys(), until, after, sender);
            receiver
        };
        assert_eq!(wait(1, Until::Any, 11).try_recv().unwrap(), left());
        let (mut any, mut all, mut later) =
            (wait(2, Until::Any, 12), wait(3, Until::All, 11), wait(4, Until::All, 12));
        watch.event(b"c", b"", 13);
        assert_eq!(any.try_recv().unwrap(), left());
        assert!(all.try_recv().is_err());
        watch.event(b"c", b"", 14);
        assert!(all.try_recv().is_err(), "the event is of another node of this name");
        watch.event(b"b", b"", 15);
        assert_eq!(all.try_recv().unwrap(), left());
        assert!(later.try_recv().is_err());
        watch.event(b"a", b"", 16);
        assert_eq!(later.try_recv().unwrap(), left());
        assert!(watch.by_key.is_empty() && watch.subscribers.is_empty());
    }

    #[test]
    fn the_end_of_the_watch_notifies() {
        let mut watch = QueueWatch::default();
        let mut waiter = subscribe(&mut watch, 1, "a", 5);
        watch.end();
        assert_eq!(waiter.try_recv().unwrap(), Notified::Missed);
    }
}
