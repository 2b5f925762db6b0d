use std::panic::AssertUnwindSafe;
use std::pin::Pin;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use zookeeper_client::{EventType, OneshotWatcher, StateWatcher, WatchedEvent};

use super::{Driver, WatchBudget};

/// Reports one event, once. Dropping it removes it from the server.
pub(crate) struct Watch {
    watcher: OneshotWatcher,
    killed: CancellationToken,
    budget: WatchBudget,
}

pub(crate) type Armed = Pin<Box<dyn Future<Output = Event> + Send>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Deleted,
    Created,
    Changed,
    SessionOver,
}

/// Its events come in the server's order. The next connection begins with the missed events, in any order.
pub(crate) struct Connection(StateWatcher);

impl Connection {
    pub(crate) fn has_lasted(&mut self) -> bool {
        self.0.changed().now_or_never().is_none()
    }

    pub(crate) async fn ended(&mut self) {
        self.0.changed().await;
    }
}

impl Driver {
    pub(super) fn armed(&self, path: &str, watcher: OneshotWatcher) -> Watch {
        Watch { watcher, killed: self.killed(), budget: self.watched.armed(self.weight_of(path)) }
    }

    /// The budget for a watch that a read from time to time can replace.
    pub(crate) fn dispensable_budget(&self, path: &str) -> Option<WatchBudget> {
        self.watched.dispensable(self.weight_of(path))
    }

    pub(crate) fn wait_budget(&self, bytes: usize) -> Option<WatchBudget> {
        self.watched.needed(bytes)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.watched.is_zero()
    }

    pub(crate) fn weight_of(&self, path: &str) -> usize {
        self.chroot_len + path.len()
    }

    pub(crate) fn connection(&self) -> Connection {
        let mut state = self.state.clone();
        // Only a later state counts as a change.
        state.state();
        Connection(state)
    }
}

impl Watch {
    pub(crate) async fn event(self) -> Event {
        let Self { watcher, killed, budget: _budget } = self;
        tokio::select! {
            biased;
            () = killed.cancelled() => Event::SessionOver,
            event = settled(watcher) => event,
        }
    }

    pub(crate) fn boxed(self) -> Armed {
        Box::pin(self.event())
    }

    /// For a caller that first checks whether the session [is silent](Driver::silent). Small, because a
    /// client keeps one for every hold.
    pub(crate) fn event_unless_silent(self) -> impl Future<Output = Event> + Send {
        let Self { watcher, budget, .. } = self;
        settled(watcher).map(move |event| {
            drop(budget);
            event
        })
    }
}

fn settled(watcher: OneshotWatcher) -> impl Future<Output = Event> + Send {
    // The crate's watcher panics if the task of the session has ended, by a kill (checked before) or a panic.
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
