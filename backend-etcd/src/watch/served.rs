//! What the task that owns the stream asks of the watches, and tells them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use latchwork_core::LostReason;

use super::armed::{Armed, Mine, Of};
use super::{Command, FEED_KEPT, Own, State, Watches};
use crate::feed::{Feed, Seen};
use crate::terms::{Change, Ended, Notice, Only, Watch};

impl Watches {
    /// The watch that the server refused, if it is wanted.
    pub(crate) fn refused(&self, notice: &Notice) -> Option<i64> {
        match notice {
            Notice::Ended { id, why: Ended::Refused(_) } => {
                self.state.lock().armed.contains_key(id).then_some(*id)
            }
            _ => None,
        }
    }

    /// What is to be watched under an id, unless that is over.
    pub(crate) fn armed(&self, id: i64) -> Option<Watch> {
        self.state.lock().armed.get(&id).map(|armed| armed.watch(id))
    }

    /// What the server said. Answers an own node whose watch the server ended: it must be looked for.
    pub(crate) fn apply(&self, notice: Notice) -> Option<Arc<Own>> {
        let mut state = self.state.lock();
        match notice {
            Notice::Created { id, revision } => {
                if let Some(feed) = state.feed(id) {
                    feed.created(revision);
                }
            }
            // Named by its place among the starts before it comes here.
            Notice::Refused(_) => {}
            Notice::Changed { id, revision, changes } => self.changed(&mut state, id, revision, &changes),
            Notice::Ended { id, why } => {
                let armed = state.armed.remove(&id)?;
                let key = armed.watch(id).key;
                tracing::debug!(?why, key = %String::from_utf8_lossy(&key), "etcd ended a watch");
                match armed {
                    Armed::Own(node, _) => return Some(node),
                    Armed::Wait(wait) => state.end(id, wait.of),
                }
            }
        }
        None
    }

    fn changed(&self, state: &mut State, id: i64, revision: u64, changes: &[Change]) {
        let Some(armed) = state.armed.get_mut(&id) else { return };
        if changes.is_empty() {
            // A sign that all up to here was sent: a new stream need not begin further back.
            let from = match armed {
                Armed::Own(_, from) => from,
                Armed::Wait(wait) => &mut wait.watch.from,
            };
            *from = (*from).max(revision + 1);
            return;
        }
        let of_deletes = match armed {
            Armed::Own(..) => true,
            Armed::Wait(wait) => wait.watch.only == Only::Deletes,
        };
        if of_deletes {
            // Own nodes first: a waiter whose own node left before what it waits for must hear that first.
            for Change { key, revision, .. } in changes {
                if let Some(node) = state.own(key)
                    && *revision > node.state.sequence()
                {
                    node.state.gone(LostReason::Revoked);
                    self.forget_in(state, key);
                }
            }
        }
        match state.waiting(id) {
            Some(Of::Feed(_, feed)) => {
                changes.iter().for_each(|change| feed.came(&change.key, &change.value, change.revision));
            }
            Some(Of::Key(_)) => {
                if let Some(Armed::Wait(wait)) = state.armed.remove(&id)
                    && let Of::Key(sender) = wait.of
                {
                    let _ = sender.send(Seen::Event(Vec::new()));
                    self.command(Command::Stop(id));
                }
            }
            None => {}
        }
    }

    /// The stream is over. Answers the watches that go on in the next one.
    pub(crate) fn stream_ended(&self) -> VecDeque<i64> {
        let mut state = self.state.lock();
        let over: Vec<_> = state.armed.extract_if(|_, armed| matches!(armed, Armed::Wait(_))).collect();
        state.feeds.clear();
        state.far.clear();
        for (_, armed) in over {
            if let Armed::Wait(wait) = armed {
                wait.of.end();
            }
        }
        state.resumed = state.last_id;
        state.armed.keys().copied().collect()
    }

    /// Whether a command to start this watch still says something. One that the end of a stream overtook does not: its watch
    /// goes on in the next stream, where a second start under the same id would be refused, or is over.
    pub(crate) fn is_to_start(&self, id: i64) -> bool {
        id > self.state.lock().resumed
    }

    /// The own node was there at `revision`; watch it on from there.
    pub(crate) fn watch_own_from(&self, node: &Arc<Own>, revision: u64) {
        let mut state = self.state.lock();
        if !state.is_own(node) {
            return;
        }
        state.last_id += 1;
        let id = state.last_id;
        state.armed.insert(id, Armed::Own(Arc::clone(node), revision + 1));
        if let Some(watch) = state.own.get_mut(&*node.key) {
            *watch = id;
        }
        self.command(Command::Start(id));
    }

    /// The own nodes that are watched.
    pub(crate) fn held(&self) -> Vec<Arc<Own>> {
        let state = self.state.lock();
        let watched = state.own.iter().filter(|(_, watch)| **watch != 0);
        watched.map(|(Mine(node), _)| Arc::clone(node)).collect()
    }

    /// Somebody else has removed an own node, unless it was given back meanwhile.
    pub(crate) fn removed(&self, node: &Own, why: LostReason) {
        let mut state = self.state.lock();
        if state.is_own(node) {
            node.state.gone(why);
            self.forget_in(&mut state, &node.key);
        }
    }

    /// Whether a node is still to be watched.
    pub(crate) fn is_own(&self, node: &Own) -> bool {
        self.state.lock().is_own(node)
    }

    /// When the next timer is due.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        let state = self.state.lock();
        let (own, feed) = (state.own_due.front().map(|due| due.0), state.feed_due.front().map(|due| due.0));
        own.into_iter().chain(feed).min()
    }

    /// A timer is due.
    pub(crate) fn on_timer(&self, now: Instant) {
        let mut state = self.state.lock();
        let mut due = Vec::new();
        while state.own_due.front().is_some_and(|(at, _)| *at <= now) {
            due.extend(state.own_due.pop_front().map(|(_, node)| node));
        }
        // Those that are forgotten before their time are not waited for one by one.
        while state.own_due.front().is_some_and(|(_, node)| !state.is_own(node)) {
            state.own_due.pop_front();
        }
        if state.own_due.is_empty() {
            state.own_due.shrink_to_fit();
        }
        while state.feed_due.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, id)) = state.feed_due.pop_front() else { break };
            let idle = |feed: &Feed| feed.idle_since.is_some_and(|since| since + FEED_KEPT <= now);
            self.drop_feed_if(&mut state, id, idle);
            let Some(feed) = state.feed(id) else { continue };
            feed.timer_set = feed.idle_since.is_some();
            if let Some(since) = feed.idle_since {
                state.feed_due.push_back((since + FEED_KEPT, id));
            }
        }
        drop(state);
        for node in due {
            self.watch_own_from(&node, node.state.sequence());
        }
    }
}
