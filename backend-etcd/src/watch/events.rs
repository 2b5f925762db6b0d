use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use latchwork_core::LostReason;

use super::armed::{ArmedWatch, Notify};
use super::own_node::{ByKey, OwnNode};
use super::queue_watch::{Notified, QueueWatch};
use super::state::State;
use super::watches::{Command, IDLE_KEPT, Watches};
use crate::driver::{Change, EndReason, EventKind, StreamEvent, Watch};

impl Watches {
    pub(super) fn refused(&self, event: &StreamEvent) -> Option<i64> {
        match event {
            StreamEvent::Ended { id, why: EndReason::Refused(_) } => {
                self.state.lock().armed.contains_key(id).then_some(*id)
            }
            _ => None,
        }
    }

    pub(super) fn armed(&self, id: i64) -> Option<Watch> {
        self.state.lock().armed.get(&id).map(|armed| armed.watch(id))
    }

    /// Returns an own node whose watch the server ended: the caller checks that it exists.
    pub(super) fn apply(&self, event: StreamEvent) -> Option<Arc<OwnNode>> {
        let mut state = self.state.lock();
        match event {
            StreamEvent::Created { id, revision } => match state.notify(id) {
                Some(Notify::Shared(_, queue_watch)) => queue_watch.created(revision),
                Some(Notify::Change(news)) => news.send_replace(()),
                Some(Notify::One(_)) | None => {}
            },
            // The stream finds its id by the order of the starts, and turns it into an end.
            StreamEvent::Refused(_) => {}
            StreamEvent::Changed { id, revision, changes } => {
                self.changed(&mut state, id, revision, &changes);
            }
            StreamEvent::Ended { id, why } => {
                let armed = state.armed.remove(&id)?;
                let key = armed.watch(id).key;
                tracing::debug!(?why, key = %String::from_utf8_lossy(&key), "etcd ended a watch");
                match armed {
                    ArmedWatch::OwnNode(node, _) => return Some(node),
                    ArmedWatch::Waiters(waiters) => state.end(id, waiters.notify),
                }
            }
        }
        None
    }

    fn changed(&self, state: &mut State, id: i64, revision: u64, changes: &[Change]) {
        let Some(armed) = state.armed.get_mut(&id) else { return };
        if changes.is_empty() {
            // All earlier events have arrived, so a new stream can start here.
            let from = match armed {
                ArmedWatch::OwnNode(_, from) => from,
                ArmedWatch::Waiters(waiters) => &mut waiters.watch.from,
            };
            *from = (*from).max(revision + 1);
            return;
        }
        let of_deletes = match armed {
            ArmedWatch::OwnNode(..) => true,
            ArmedWatch::Waiters(waiters) => waiters.watch.only == EventKind::Deletes,
        };
        if of_deletes {
            // A waiter whose own node left before its predecessor must notice that first.
            for Change { key, revision, .. } in changes {
                if let Some(node) = state.own(key)
                    && *revision > node.state.sequence()
                {
                    node.state.gone(LostReason::Revoked);
                    self.forget_key(state, key);
                }
            }
        }
        match state.notify(id) {
            Some(Notify::Shared(_, queue_watch)) => {
                changes
                    .iter()
                    .for_each(|change| queue_watch.event(&change.key, &change.value, change.revision));
            }
            Some(Notify::One(_)) => {
                if let Some(ArmedWatch::Waiters(waiters)) = state.armed.remove(&id)
                    && let Notify::One(sender) = waiters.notify
                {
                    let _ = sender.send(Notified::Event(Vec::new()));
                    self.command(Command::Stop(id));
                }
            }
            Some(Notify::Change(news)) => news.send_replace(()),
            None => {}
        }
    }

    /// Returns the watches that continue in the next stream.
    pub(super) fn stream_ended(&self) -> VecDeque<i64> {
        let mut state = self.state.lock();
        let over: Vec<_> =
            state.armed.extract_if(|_, armed| matches!(armed, ArmedWatch::Waiters(_))).collect();
        state.shared.clear();
        state.far.clear();
        for (_, armed) in over {
            if let ArmedWatch::Waiters(waiters) = armed {
                waiters.notify.end();
            }
        }
        state.resumed = state.last_id;
        state.armed.keys().copied().collect()
    }

    /// Drops commands from before the end of a stream: their watch has ended, or continues in the next
    /// stream, which would refuse a second start with the same id.
    pub(super) fn is_to_start(&self, id: i64) -> bool {
        id > self.state.lock().resumed
    }

    pub(crate) fn watch_own_from(&self, node: &Arc<OwnNode>, revision: u64) {
        let mut state = self.state.lock();
        if !state.is_own(node) {
            return;
        }
        state.last_id += 1;
        let id = state.last_id;
        state.armed.insert(id, ArmedWatch::OwnNode(Arc::clone(node), revision + 1));
        if let Some(watch) = state.own.get_mut(&*node.key) {
            *watch = id;
        }
        self.command(Command::Start(id));
    }

    pub(super) fn watched(&self) -> Vec<Arc<OwnNode>> {
        let state = self.state.lock();
        let watched = state.own.iter().filter(|(_, watch)| **watch != 0);
        watched.map(|(ByKey(node), _)| Arc::clone(node)).collect()
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        let state = self.state.lock();
        let (own, idle) = (state.own_due.front().map(|due| due.0), state.idle_due.front().map(|due| due.0));
        own.into_iter().chain(idle).min()
    }

    pub(super) fn on_timer(&self, now: Instant) {
        let mut state = self.state.lock();
        let mut due = Vec::new();
        while state.own_due.front().is_some_and(|(at, _)| *at <= now) {
            due.extend(state.own_due.pop_front().map(|(_, node)| node));
        }
        // Nodes that were forgotten early need no timer.
        while state.own_due.front().is_some_and(|(_, node)| !state.is_own(node)) {
            state.own_due.pop_front();
        }
        if state.own_due.is_empty() {
            state.own_due.shrink_to_fit();
        }
        while state.idle_due.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, id)) = state.idle_due.pop_front() else { break };
            let idle = |watch: &QueueWatch| watch.idle_since.is_some_and(|since| since + IDLE_KEPT <= now);
            self.drop_if(&mut state, id, idle);
            let Some(queue_watch) = state.queue_watch(id) else { continue };
            queue_watch.timer_set = queue_watch.idle_since.is_some();
            if let Some(since) = queue_watch.idle_since {
                state.idle_due.push_back((since + IDLE_KEPT, id));
            }
        }
        drop(state);
        for node in due {
            self.watch_own_from(&node, node.state.sequence());
        }
    }
}
