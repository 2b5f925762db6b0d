use std::sync::Arc;

use latchwork_core::Kind;

use super::history::History;
use super::watch_sessions::{WatchSessions, Watcher};
use crate::config::Settings;
use crate::driver::Driver;

#[derive(Debug)]
pub(crate) struct FastPath {
    pub(super) on: bool,
    believes_announcements: bool,
    history: History,
    pub(crate) watch_sessions: Arc<WatchSessions>,
}

impl FastPath {
    pub(crate) fn new(
        settings: &Settings,
        believes_announcements: bool,
        watch_sessions: Arc<WatchSessions>,
    ) -> Self {
        Self { on: settings.fast_path, believes_announcements, history: History::default(), watch_sessions }
    }

    /// Not at an exact address, where contenders may belong to another program.
    pub(crate) fn announces(&self, kind: Kind, exact: bool) -> bool {
        self.on && kind == Kind::Mutex && !exact && self.believes_announcements
    }

    pub(super) fn history(&self) -> Option<&History> {
        self.on.then_some(&self.history)
    }

    pub(crate) async fn watcher<'a>(
        &self,
        driver: &'a Driver,
        paths: impl IntoIterator<Item = &str>,
    ) -> Watcher<'a> {
        let bytes = paths.into_iter().map(|path| driver.weight_of(path)).sum();
        let own = driver.wait_budget(bytes);
        let found = match own {
            None if self.on => self.watch_sessions.find_or_open(bytes).await,
            _ => None,
        };
        let (other, budget) = found.map_or((None, own), |(other, budget)| (Some(other), Some(budget)));
        Watcher { own: driver, other, _budget: budget }
    }
}
