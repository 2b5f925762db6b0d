//! Simulates the network between a client and the table. For a backend with a real network, the suite's fault
//! proxy does this.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use latchwork_core::backend::decide::queue::Micros;
use latchwork_core::seen::Requests;
use latchwork_core::{Clock, Error, ErrorKind, Result};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::backend::NAME;
use crate::table::Table;

/// A backend with several kinds of requests names each.
const OPERATION: &str = "operation";

#[derive(Debug)]
pub(crate) struct Site {
    clock: Clock,
    table: Mutex<Table>,
    pub(crate) requests: AtomicU64,
}

impl Site {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, table: Mutex::default(), requests: AtomicU64::default() }
    }

    /// The clock is read under the lock, so that it never goes back between two operations.
    pub(crate) fn carry_out<T>(&self, operation: impl FnOnce(&mut Table, Micros) -> T) -> T {
        let mut table = self.table.lock();
        operation(&mut table, self.clock.now().as_nanos() / 1_000)
    }
}

#[derive(Clone)]
pub(crate) struct Wire {
    site: Arc<Site>,
    faults: Arc<Mutex<Faults>>,
    sent: Arc<Requests>,
    met: Arc<Notify>,
}

#[derive(Default)]
struct Faults {
    asked: u64,
    closed: bool,
    cut: bool,
    delay: Duration,
    drop_reply: bool,
    park: bool,
    parked: Option<Box<dyn FnOnce() + Send>>,
}

impl Wire {
    pub(crate) fn to(site: &Arc<Site>) -> Self {
        let sent = Arc::new(Requests::new(NAME, [OPERATION]));
        Self { site: Arc::clone(site), faults: Arc::default(), sent, met: Arc::default() }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.site.clock
    }

    /// # Errors
    /// `Unavailable` when the request was certainly not sent, `OutcomeUnknown` when it may have been carried
    /// out, `Closed`.
    pub(crate) async fn send<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Table, Micros) -> T + Send + 'static,
    ) -> Result<T> {
        let (clock, delay) = {
            let mut faults = self.faults.lock();
            if faults.closed {
                return Err(Error::closed());
            }
            if faults.cut {
                return Err(Error::new(ErrorKind::Unavailable, "the wire is cut"));
            }
            self.sent.sent(OPERATION);
            faults.asked += 1;
            self.site.requests.fetch_add(1, Ordering::Relaxed);
            if std::mem::take(&mut faults.park) {
                let site = Arc::clone(&self.site);
                faults.parked = Some(Box::new(move || drop(site.carry_out(operation))));
                self.met.notify_waiters();
                return Err(Error::new(ErrorKind::OutcomeUnknown, "the connection was lost"));
            }
            (self.clock(), faults.delay)
        };
        clock.sleep_until(clock.now() + delay / 2).await;
        let reply = self.site.carry_out(operation);
        clock.sleep_until(clock.now() + delay / 2).await;
        if std::mem::take(&mut self.faults.lock().drop_reply) {
            self.met.notify_waiters();
            return Err(Error::new(ErrorKind::OutcomeUnknown, "the reply was lost"));
        }
        Ok(reply)
    }

    pub(crate) fn asked(&self) -> u64 {
        self.faults.lock().asked
    }

    pub(crate) fn close(&self) {
        self.faults.lock().closed = true;
        self.met.notify_waiters();
    }

    pub(crate) async fn closed(&self) {
        self.until(|faults| faults.closed).await;
    }

    pub(crate) fn cut(&self) {
        self.faults.lock().cut = true;
    }

    /// Undoes [`cut`](Wire::cut) and [`delay`](Wire::delay).
    pub(crate) fn heal(&self) {
        let mut faults = self.faults.lock();
        (faults.cut, faults.delay) = (false, Duration::ZERO);
    }

    pub(crate) fn delay(&self, delay: Duration) {
        self.faults.lock().delay = delay;
    }

    pub(crate) fn drop_next_reply(&self) {
        self.faults.lock().drop_reply = true;
    }

    pub(crate) fn park_next_request(&self) {
        self.faults.lock().park = true;
    }

    pub(crate) async fn met(&self) {
        self.until(|faults| !faults.drop_reply && !faults.park).await;
    }

    async fn until(&self, done: impl Fn(&Faults) -> bool) {
        loop {
            let notified = self.met.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if done(&self.faults.lock()) {
                return;
            }
            notified.await;
        }
    }

    pub(crate) fn deliver_parked(&self) {
        let parked = self.faults.lock().parked.take();
        parked.expect("a request was caught")();
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}
