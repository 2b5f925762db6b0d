//! Watches: the events of nodes.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use tokio::sync::watch;
use zookeeper_client::{EventType, OneshotWatcher, StateWatcher, WatchedEvent};

use super::Driver;

/// What the client crate tells a server again in one message when it has a new connection, in bytes of watched paths. Of
/// several messages it would send the second before the first is answered, under the same number, and take its answer for
/// one to nothing: it gives the connection up, and the next one too, until the session has expired.
const ONE_MESSAGE: usize = 128 * 1024;

/// What of that is for watches that can be done without.
const DISPENSABLE: usize = ONE_MESSAGE / 2;

/// An armed watch: tells of one event, once. Dropped, it is taken off the server.
pub(crate) struct Watch {
    watcher: OneshotWatcher,
    killed: watch::Receiver<bool>,
    share: Share,
}

/// What a session watches, or is about to watch: in bytes of paths, each as often as it is watched.
#[derive(Default)]
pub(super) struct Burden(AtomicUsize);

/// A part of it, until it is dropped.
pub(crate) struct Share {
    of: Arc<Burden>,
    bytes: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What a watch saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Deleted,
    Created,
    /// Its data or its children changed.
    Changed,
    SessionOver,
}

/// One connection of a session. Its events come in the server's order; another one begins with those that were missed,
/// in any order.
pub(crate) struct Connection(StateWatcher);

impl Connection {
    /// Whether it stands since it was taken.
    pub(crate) fn has_lasted(&mut self) -> bool {
        self.0.changed().now_or_never().is_none()
    }
}

impl Driver {
    /// Room for a watch that can be done without.
    pub(crate) fn room_for(&self, path: &str) -> Option<Share> {
        self.room_within(DISPENSABLE, self.weight_of(path))
    }

    /// Room for watches that a wait needs, in bytes of their paths.
    pub(crate) fn room_to_wait(&self, bytes: usize) -> Option<Share> {
        self.room_within(ONE_MESSAGE, bytes)
    }

    fn room_within(&self, limit: usize, bytes: usize) -> Option<Share> {
        let fits = |now| Some(now + bytes).filter(|&then| then <= limit);
        self.burden.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        Some(Share { of: Arc::clone(&self.burden), bytes })
    }

    pub(super) fn armed(&self, path: &str, watcher: OneshotWatcher) -> Watch {
        let bytes = self.weight_of(path);
        self.burden.0.fetch_add(bytes, Ordering::Relaxed);
        let share = Share { of: Arc::clone(&self.burden), bytes };
        Watch { watcher, killed: self.tasks.aborted.subscribe(), share }
    }

    /// Whether it watches nothing, and nothing is about to be.
    pub(crate) fn is_idle(&self) -> bool {
        self.burden.0.load(Ordering::Relaxed) == 0
    }

    /// What a watched path counts for.
    pub(crate) fn weight_of(&self, path: &str) -> usize {
        self.chroot_len + path.len()
    }

    /// The connection as it is now.
    pub(crate) fn connection(&self) -> Connection {
        let mut state = self.state.clone();
        // Seen: what comes later is a change.
        state.state();
        Connection(state)
    }
}

impl Watch {
    pub(crate) async fn event(self) -> Event {
        let Self { watcher, mut killed, share: _share } = self;
        tokio::select! {
            biased;
            _ = killed.wait_for(|killed| *killed) => Event::SessionOver,
            event = settled(watcher) => event,
        }
    }

    /// The same, for whoever looks first whether the session [fell silent](super::Driver::silent). Small: a client
    /// keeps one for every hold.
    pub(crate) fn event_unless_silent(self) -> impl Future<Output = Event> + Send {
        let Self { watcher, share, .. } = self;
        settled(watcher).map(move |event| {
            drop(share);
            event
        })
    }
}

fn settled(watcher: OneshotWatcher) -> impl Future<Output = Event> + Send {
    // The crate's watcher panics when the task that serves the session is gone without a word: aborted
    // by us, which is looked for first, or dead by a panic of its own.
    AssertUnwindSafe(watcher.changed()).catch_unwind().map(Event::of)
}

impl Event {
    fn of<E>(event: Result<WatchedEvent, E>) -> Self {
        match event.map(|event| event.event_type) {
            Ok(EventType::NodeDeleted) => Event::Deleted,
            Ok(EventType::NodeCreated) => Event::Created,
            Ok(EventType::Session) | Err(_) => Event::SessionOver,
            Ok(_) => Event::Changed,
        }
    }
}
