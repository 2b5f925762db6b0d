//! What the fast path keeps for a session.

use std::sync::Arc;

use latchwork_core::Kind;

use super::history::History;
use super::trust::Trust;
use super::watch_sessions::{WatchSessions, Watcher};
use crate::config::Settings;
use crate::driver::Driver;

/// The fast path of one session.
#[derive(Debug)]
pub(crate) struct FastPath {
    on: bool,
    trust: Trust,
    history: History,
    pub(crate) watch_sessions: Arc<WatchSessions>,
}

impl FastPath {
    pub(crate) fn new(settings: &Settings, trust: Trust, watch_sessions: Arc<WatchSessions>) -> Self {
        Self { on: settings.fast_path, trust, history: History::default(), watch_sessions }
    }

    /// False in tests of the plain protocol only.
    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    /// Whether releases of this kind are announced and believed. Not at an exact address, where the
    /// contenders ahead may be of another program.
    pub(crate) fn announces(&self, kind: Kind, exact: bool) -> bool {
        self.on && kind == Kind::Mutex && !exact && self.trust.believes_announcements
    }

    pub(super) fn history(&self) -> Option<&History> {
        self.on.then_some(&self.history)
    }

    /// Where a wait of a node on `driver` watches these paths.
    pub(crate) async fn watcher<'a>(
        &self,
        driver: &'a Driver,
        paths: impl IntoIterator<Item = &str>,
    ) -> Watcher<'a> {
        let bytes = paths.into_iter().map(|path| driver.weight_of(path)).sum();
        if let Some(budget) = driver.wait_budget(bytes) {
            return Watcher::own(driver, Some(budget));
        }
        let other = if self.on { self.watch_sessions.find_or_open(bytes).await } else { None };
        match other {
            Some(other) => Watcher::other(driver, other),
            None => Watcher::own(driver, None),
        }
    }
}
