//! Watch sessions: sessions of a client that only watch.
//!
//! A session that watches more than one message of the client crate can hold would be lost, with
//! every hold, at the next break of its connection (see
//! [`WatchBudget`](crate::driver::WatchBudget)). A hold can be looked at instead, but a wait must
//! hear at once. So what waits must watch beyond the budget is watched from further sessions,
//! opened when they are needed. No node hangs on them: the loss of one is only a reason to list
//! again.
//!
//! # Why that is safe
//!
//! Their events mean "list again", and the listing that admits is that of the node's own session
//! (CHAIN-OWN-NODE-AND-DEADLINE, CHAIN-EVENT-LISTS-AGAIN). The exceptions, events that admit, rest
//! on the order of one connection's events. Two sessions have no common order, so no watch session
//! is used for those. Nor do two servers lag alike, so the listing comes behind a `sync`: a server
//! that still shows what has left would be asked again and again.

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

/// How long a watch session whose connection broke is waited for.
const A_BREAK: Duration = Duration::from_secs(1);

/// The watch sessions beside the session that the nodes hang on.
#[derive(Debug)]
pub(crate) struct WatchSessions {
    settings: Arc<Settings>,
    runtime: Handle,
    // Of the session that the nodes hang on: its lease, and whether it was killed.
    lease: LeaseWriter,
    killed: CancellationToken,
    open: Mutex<Vec<Arc<Driver>>>,
    // One is opened at a time. Answers whether there is one with budget.
    opening: SingleFlight<bool>,
    // After a failure the next opening is not tried before this.
    not_before: Mutex<Option<Moment>>,
}

/// The session from which something is watched. It reserves the budget until the watch is armed, which has its own.
pub(crate) struct Watcher<'a> {
    pub(super) own: &'a Driver,
    // `None`: the session that the node hangs on.
    pub(super) other: Option<Arc<Driver>>,
    // `None` where the own session is used though its budget is spent.
    pub(super) _budget: Option<WatchBudget>,
}

impl Deref for Watcher<'_> {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        self.other.as_deref().unwrap_or(self.own)
    }
}

impl Watcher<'_> {
    /// Whether the session watches that the node hangs on.
    pub(crate) fn is_own(&self) -> bool {
        self.other.is_none()
    }
}

impl WatchSessions {
    /// For the nodes on `driver`.
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

    /// A watch session with budget for so many bytes of paths. `None`: none can be had, or the
    /// session of the nodes is over.
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
            // Others may have used its budget up by now.
        }
    }

    /// The opening to wait for, begun here unless one is under way. `None` while it is not to be
    /// tried again.
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
        // With its budget taken it is not idle any more.
        let found = connected.find_map(|driver| Some((Arc::clone(driver), driver.wait_budget(bytes)?)));
        // Breaks of the connection may leave more than are needed: one idle session is kept.
        let mut spare = 0;
        open.retain(|driver| {
            let idle = driver.is_idle() && driver.is_connected();
            spare += usize::from(idle);
            !driver.is_over() && (!idle || spare == 1)
        });
        found
    }

    /// Waits for sessions that are about to come back after a break of the connection, or opens
    /// another. Answers whether there is one with budget.
    async fn open_one(&self, bytes: usize) -> bool {
        let request_timeout = self.settings.request_timeout;
        let away: Vec<_> = self.open.lock().iter().filter(|driver| !driver.is_connected()).cloned().collect();
        let back = async {
            for driver in &away {
                // The end of one is as good as its return.
                let _ = driver.connected().await;
            }
        };
        // Where it takes longer, another is opened.
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

    /// Closes them, after the end of the lease.
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
