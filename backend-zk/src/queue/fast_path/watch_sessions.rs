//! Watch sessions: sessions of a client that only watch.
//!
//! A session that watches more than one message of the client crate can hold would be lost, with
//! every hold, at the next break of its connection (see
//! [`WatchBudget`](crate::driver::WatchBudget)). A hold can be checked from time to time instead,
//! but a waiter must be notified at once. So watches of waiters beyond the budget are on further
//! sessions, which are opened when they are needed. These sessions have no nodes: the loss of a
//! watch session is only a reason to list again.
//!
//! # Why that is safe
//!
//! Their events mean "list again", and the listing that admits is on the node's own session
//! (CHAIN-OWN-NODE-AND-DEADLINE, CHAIN-EVENT-LISTS-AGAIN). The exceptions are events that admit.
//! They depend on the order of events of one connection. Two sessions have no common order, so
//! these events never come from a watch session. Two servers also lag differently, so the listing
//! follows a `sync`: otherwise a server that still shows a departed node would be asked again and
//! again.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::{LeaseWriter, SharedTask, SingleFlight};
use latchwork_core::{Moment, seen};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::config::{NAME, Settings};
use crate::driver::{Driver, WatchBudget};

/// How long a waiter waits for a watch session whose connection broke.
const A_BREAK: Duration = Duration::from_secs(1);

/// The watch sessions of a client, in addition to the session of its nodes.
#[derive(Debug)]
pub(crate) struct WatchSessions {
    settings: Arc<Settings>,
    runtime: Handle,
    // The lease of the session of the nodes, and whether that session was killed.
    lease: LeaseWriter,
    killed: CancellationToken,
    open: Mutex<Vec<Arc<Driver>>>,
    // One session is opened at a time. The task returns whether a session with budget exists.
    opening: SingleFlight<bool>,
    // After a failure, no session is opened before this time.
    not_before: Mutex<Option<Moment>>,
}

/// The session of a watch. It reserves the budget until the watch is armed, which then has its own
/// budget.
pub(crate) struct Watcher<'a> {
    pub(super) own: &'a Driver,
    // `None`: the session of the node.
    pub(super) other: Option<Arc<Driver>>,
    // `None`: the session of the node is used although its budget is spent.
    pub(super) _budget: Option<WatchBudget>,
}

impl Deref for Watcher<'_> {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        self.other.as_deref().unwrap_or(self.own)
    }
}

impl Watcher<'_> {
    /// Whether the watch is on the session of the node.
    pub(crate) fn is_own(&self) -> bool {
        self.other.is_none()
    }
}

impl WatchSessions {
    /// The watch sessions for the nodes on `driver`.
    pub(crate) fn beside(driver: &Driver, settings: &Arc<Settings>, runtime: &Handle) -> Arc<Self> {
        Arc::new(Self {
            settings: Arc::clone(settings),
            runtime: runtime.clone(),
            lease: driver.lease().clone(),
            killed: driver.killed(),
            open: Mutex::default(),
            opening: SingleFlight::default(),
            not_before: Mutex::default(),
        })
    }

    /// Returns a watch session with budget for this number of bytes of paths. `None`: no session
    /// can be opened, or the session of the nodes has ended.
    pub(super) async fn find_or_open(self: &Arc<Self>, bytes: usize) -> Option<(Arc<Driver>, WatchBudget)> {
        loop {
            if let Some(found) = self.find(bytes) {
                return Some(found);
            }
            let opening = self.opening(bytes)?;
            let opened = tokio::select! {
                biased;
                _ = self.lease.until_lost() => false,
                opened = opening.wait() => opened == Some(true),
            };
            if !opened {
                return None;
            }
            // Other waiters may have used its budget by now.
        }
    }

    /// Returns the opening to wait for. Starts one unless one is under way. `None`: it is too early
    /// for another try.
    fn opening(self: &Arc<Self>, bytes: usize) -> Option<SharedTask<bool>> {
        self.opening.run_if(&self.runtime, || {
            let not_before = *self.not_before.lock();
            if not_before.is_some_and(|not_before| self.lease.clock().now() < not_before) {
                return None;
            }
            let sessions = Arc::clone(self);
            Some(async move { sessions.open_one(bytes).await })
        })
    }

    fn find(&self, bytes: usize) -> Option<(Arc<Driver>, WatchBudget)> {
        let mut open = self.open.lock();
        let mut connected = open.iter().filter(|driver| driver.is_connected());
        // With its budget reserved, the session is not idle any more.
        let found = connected.find_map(|driver| Some((Arc::clone(driver), driver.wait_budget(bytes)?)));
        // After breaks of the connection there may be more sessions than needed: one idle session
        // is kept.
        let mut spare = 0;
        open.retain(|driver| {
            let idle = driver.is_idle() && driver.is_connected();
            spare += usize::from(idle);
            !driver.is_over() && (!idle || spare == 1)
        });
        found
    }

    /// Waits for sessions that reconnect after a break of the connection, or opens another one.
    /// Returns whether a session with budget exists.
    async fn open_one(&self, bytes: usize) -> bool {
        let request_timeout = self.settings.request_timeout;
        let away: Vec<_> = self.open.lock().iter().filter(|driver| !driver.is_connected()).cloned().collect();
        let back = async {
            for driver in &away {
                // The wait is also over when the session ends.
                let _ = driver.connected().await;
            }
        };
        // If this takes longer, another session is opened.
        let _ = tokio::time::timeout(request_timeout.min(A_BREAK), back).await;
        if self.find(bytes).is_some() {
            return true;
        }
        let opening = Driver::connect_inside(&self.settings, &self.runtime, Some(&self.lease));
        match tokio::time::timeout(request_timeout, opening).await {
            Ok(Ok(opened)) => {
                let mut open = self.open.lock();
                // An end sets the lease, or `killed`, before it takes this lock, and this reads
                // them under the lock: one of the two sees the other.
                let wanted = self.lease.lost().is_none() && !self.killed.is_cancelled();
                if wanted {
                    open.push(Arc::new(opened));
                }
                wanted
            }
            failed => {
                let failed = match failed {
                    Ok(answer) => format!("{:?}", answer.err()),
                    Err(_) => "no answer in time".to_owned(),
                };
                let what = format!(
                    "no further session to watch from ({failed}): this client waits in so many queues that it may lose its session if the \
                     connection breaks. Raise maxClientCnxns on the server"
                );
                seen::advice(NAME, &self.settings.hosts.join(","), &what);
                *self.not_before.lock() = Some(self.lease.clock().now() + self.lease.ttl());
                false
            }
        }
    }

    /// Closes the watch sessions, after the end of the lease.
    pub(crate) fn close(&self) {
        for driver in &*self.open.lock() {
            driver.close();
        }
    }

    /// Waits until the server has confirmed the close.
    pub(crate) async fn closed(&self) {
        let open = self.open.lock().clone();
        for driver in open {
            driver.closed().await;
        }
    }

    /// Cuts their connections.
    pub(crate) async fn kill(&self) {
        let open = self.open.lock().clone();
        for driver in open {
            driver.kill().await;
        }
    }
}
