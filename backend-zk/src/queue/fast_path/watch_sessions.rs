//! Sessions of a client that only watch, for waiters beyond the budget of the nodes' session
//! ([`WatchBudget`](crate::driver::WatchBudget)).
//!
//! Their events, and their loss, only mean "list again". The nodes' session makes that listing, after a
//! `sync`, because two servers lag differently (CHAIN-OWN-NODE-AND-DEADLINE, CHAIN-EVENT-LISTS-AGAIN).

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

const A_BREAK: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct WatchSessions {
    settings: Arc<Settings>,
    runtime: Handle,
    // Both belong to the session of the nodes.
    lease: LeaseWriter,
    killed: CancellationToken,
    open: Mutex<Vec<Arc<Driver>>>,
    opening: SingleFlight<bool>,
    not_before: Mutex<Option<Moment>>,
}

/// Reserves the budget until the watch is armed.
pub(crate) struct Watcher<'a> {
    pub(super) own: &'a Driver,
    // `None`: the session of the node.
    pub(super) other: Option<Arc<Driver>>,
    // `None`: the session of the node, beyond its budget.
    pub(super) _budget: Option<WatchBudget>,
}

impl Deref for Watcher<'_> {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        self.other.as_deref().unwrap_or(self.own)
    }
}

impl Watcher<'_> {
    pub(crate) fn is_own(&self) -> bool {
        self.other.is_none()
    }
}

impl WatchSessions {
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

    /// With budget for `bytes` of paths. `None`: no session can be opened, or the session of the nodes has
    /// ended.
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
        }
    }

    /// Starts an opening unless one is under way. `None`: too early for another try.
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
        // Its budget is now reserved, so the session is not idle.
        let found = connected.find_map(|driver| Some((Arc::clone(driver), driver.wait_budget(bytes)?)));
        // After breaks there may be spare sessions: one idle session is kept.
        let mut spare = 0;
        open.retain(|driver| {
            let idle = driver.is_idle() && driver.is_connected();
            spare += usize::from(idle);
            !driver.is_over() && (!idle || spare == 1)
        });
        found
    }

    /// Waits for sessions that reconnect, or opens another one. Returns whether one has budget.
    async fn open_one(&self, bytes: usize) -> bool {
        let request_timeout = self.settings.request_timeout;
        let away: Vec<_> = self.open.lock().iter().filter(|driver| !driver.is_connected()).cloned().collect();
        let back = async {
            for driver in &away {
                let _ = driver.connected().await;
            }
        };
        let _ = tokio::time::timeout(request_timeout.min(A_BREAK), back).await;
        if self.find(bytes).is_some() {
            return true;
        }
        let opening = Driver::connect_inside(&self.settings, &self.runtime, Some(&self.lease));
        match tokio::time::timeout(request_timeout, opening).await {
            Ok(Ok(opened)) => {
                let mut open = self.open.lock();
                // An end sets the lease, or `killed`, before it takes this lock, so one of the two sees the
                // other.
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

    pub(crate) fn close(&self) {
        for driver in &*self.open.lock() {
            driver.close();
        }
    }

    pub(crate) async fn closed(&self) {
        let open = self.open.lock().clone();
        for driver in open {
            driver.closed().await;
        }
    }

    pub(crate) async fn kill(&self) {
        let open = self.open.lock().clone();
        for driver in open {
            driver.kill().await;
        }
    }
}
