use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::{LeaseWriter, NamePool};
use latchwork_core::{Error, LostReason};
use tokio::runtime::Handle;

use super::fast_path::FastPath;
use super::unsettled::Unsettled;
use crate::config::Settings;
use crate::driver::Driver;
use crate::error::Fault;
use crate::lease::SessionLease;
use crate::watch::HolderWatch;

pub(crate) struct Session {
    pub(crate) lease: Arc<SessionLease>,
    pub(crate) driver: Arc<Driver>,
    pub(crate) settings: Arc<Settings>,
    /// The client's runtime: a session must outlive the runtime that asked for it.
    pub(crate) runtime: Handle,
    /// Shared by all sessions of the client: they find nodes that an attempt of unknown outcome left on a
    /// lost session.
    pub(crate) names: Arc<NamePool>,
    pub(crate) unsettled: Unsettled,
    pub(crate) holders: Arc<HolderWatch>,
    pub(crate) fast_path: FastPath,
}

impl Session {
    pub(crate) fn writer(&self) -> &LeaseWriter {
        self.driver.lease()
    }

    /// Also closes the session, so that no contender waits for its old nodes (LEASE-CLEAN-UP-AFTER-LOSS).
    pub(crate) fn close(&self, reason: LostReason) {
        self.writer().end(reason);
        self.driver.close();
        self.fast_path.watch_sessions.close();
    }

    /// Ignores the result of the watch sessions, which hold no nodes.
    pub(crate) async fn closed_within(&self, time: Duration) -> bool {
        let mut closed = false;
        let all = async {
            self.driver.closed().await;
            closed = true;
            self.fast_path.watch_sessions.closed().await;
        };
        let _ = tokio::time::timeout(time, all).await;
        closed
    }

    pub(crate) async fn kill(&self) {
        self.driver.kill().await;
        self.fast_path.watch_sessions.kill().await;
    }

    /// The session may have ended during the request.
    pub(crate) fn error(&self, fault: Fault, what: &str) -> Error {
        match fault {
            Fault::SessionOver => match self.lease.over() {
                Some(LostReason::Closed) | None => Error::closed(),
                Some(reason) => Error::lost(reason),
            },
            fault => match (&fault, self.writer().lost()) {
                (Fault::Unknown(_), Some(reason @ (LostReason::Expired | LostReason::Forgotten))) => {
                    Error::lost(reason)
                }
                _ => fault.error(what),
            },
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("driver", &self.driver).finish_non_exhaustive()
    }
}
