//! Watches: the events of nodes.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio::sync::watch;
use zookeeper_client::{EventType, OneshotWatcher};

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

impl Watch {
    pub(crate) async fn event(self) -> Event {
        let Self { watcher, mut killed } = self;
        // The crate's watcher panics when the task that serves the session is gone without a word: aborted
        // by us, which is looked for first, or dead by a panic of its own.
        let changed = AssertUnwindSafe(watcher.changed()).catch_unwind();
        let event = tokio::select! {
            biased;
            _ = killed.wait_for(|killed| *killed) => return Event::SessionOver,
            event = changed => event,
        };
        match event.map(|event| event.event_type) {
            Ok(EventType::NodeDeleted) => Event::Deleted,
            Ok(EventType::Session) | Err(_) => Event::SessionOver,
            Ok(_) => Event::Changed,
        }
    }
}
