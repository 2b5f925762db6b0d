//! Watches: the events of nodes.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio::sync::watch;
use zookeeper_client::{EventType, OneshotWatcher, StateWatcher, WatchedEvent};

use super::Driver;

/// An armed watch: tells of one event, once. Dropped, it is taken off the server.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(super) watcher: OneshotWatcher,
    pub(super) killed: watch::Receiver<bool>,
}

/// What a watch saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Deleted,
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
        let Self { watcher, mut killed } = self;
        tokio::select! {
            biased;
            _ = killed.wait_for(|killed| *killed) => Event::SessionOver,
            event = settled(watcher) => event,
        }
    }

    /// The same, for whoever looks first whether the session [fell silent](super::Driver::silent). Small: a client
    /// keeps one for every hold.
    pub(crate) fn event_unless_silent(self) -> impl Future<Output = Event> + Send {
        settled(self.watcher)
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
            Ok(EventType::Session) | Err(_) => Event::SessionOver,
            Ok(_) => Event::Changed,
        }
    }
}
