//! Which server the connection leads to, and since when: a restarted or another server may have
//! forgotten nodes.

use std::sync::atomic::{AtomicU64, Ordering};

use latchwork_core::Moment;
use parking_lot::Mutex;

#[derive(Debug)]
pub(super) struct Incarnation {
    run_id: Mutex<Option<String>>,
    since: AtomicU64,
}

impl Incarnation {
    pub(super) fn new() -> Self {
        Self { run_id: Mutex::new(None), since: AtomicU64::new(Moment::PAST.as_nanos()) }
    }

    /// Since when the server is the present one; `Moment::PAST` for the first.
    pub(super) fn since(&self) -> Moment {
        Moment::from_nanos(self.since.load(Ordering::Acquire))
    }

    /// Whether a connection to this run of a server leads to the present one. One that does not say
    /// its run counts as the same.
    pub(super) fn is(&self, run_id: Option<&str>) -> bool {
        match (self.run_id.lock().as_deref(), run_id) {
            (Some(present), Some(run_id)) => present == run_id,
            _ => true,
        }
    }

    /// Called before the first request on a new connection. Without a run id the server counts as
    /// the same.
    pub(super) fn met(&self, run_id: Option<String>, now: Moment) {
        let mut known = self.run_id.lock();
        if run_id.is_some() && *known != run_id {
            if known.is_some() {
                tracing::info!(
                    "the server is another one, or was restarted: it may have forgotten what was held"
                );
                self.since.store(now.as_nanos(), Ordering::Release);
            }
            *known = run_id;
        }
    }
}
