use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::{LeaseWriter, SingleFlight};
use latchwork_core::{Clock, Error, LostReason, Result};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::driver::Driver;
use crate::error::Failure;
use crate::renewal;
use crate::session::{Session, give_back};

#[derive(Debug)]
pub(crate) struct Leases {
    driver: Driver,
    pub(crate) clock: Clock,
    ttl: Duration,
    /// The runtime on which the client was opened, which must outlive that of a caller.
    pub(crate) runtime: Handle,
    current: Mutex<Arc<Session>>,
    reopening: SingleFlight<Result<Arc<Session>>>,
    /// Cancelled when the client is closed or dropped. Ends all its tasks.
    pub(crate) closed: CancellationToken,
}

impl Leases {
    /// Opens the first session. An `operator` on a full server needs none, because it only reads.
    pub(crate) async fn open(
        driver: Driver,
        ttl: Duration,
        closed: CancellationToken,
        operator: bool,
    ) -> Result<Self> {
        let clock = Clock::system();
        let runtime = Handle::current();
        let session = match Session::grant(&runtime, &driver, &clock, ttl).await {
            Err(Failure::Full(_)) if operator => Arc::new(Session::without_lease(&clock, ttl)),
            granted => {
                let session = Arc::new(granted?);
                renewal::start(&runtime, &driver, &session, &closed);
                session
            }
        };
        let current = Mutex::new(session);
        Ok(Self { driver, clock, ttl, runtime, current, reopening: SingleFlight::default(), closed })
    }

    pub(crate) fn current(&self) -> Arc<Session> {
        Arc::clone(&self.current.lock())
    }

    /// The current session, or a new one if it is lost (LEASE-REOPEN).
    pub(crate) async fn alive(self: &Arc<Self>) -> Result<Arc<Session>> {
        if let Some(session) = self.usable()? {
            return Ok(session);
        }
        let leases = Arc::clone(self);
        let reopening = self.reopening.run(&self.runtime, || async move { leases.reopen().await });
        reopening.wait_within(self.driver.request_timeout, "the opening of a lease").await?
    }

    async fn reopen(&self) -> Result<Arc<Session>> {
        // The previous opening may have just ended.
        if let Some(session) = self.usable()? {
            return Ok(session);
        }
        let old = self.current();
        // Otherwise the next join waits for this client's old nodes (LEASE-CLEAN-UP-AFTER-LOSS).
        let (_, granted) = tokio::join!(self.driver.revoke(old.id), async {
            let session = Session::grant(&self.runtime, &self.driver, &self.clock, self.ttl).await?;
            let session = Arc::new(session);
            renewal::start(&self.runtime, &self.driver, &session, &self.closed);
            Result::Ok(session)
        });
        let session = granted?;
        let mut current = self.current.lock();
        if self.is_closed() {
            let (id, ttl) = (session.id, session.lease.ttl());
            give_back(&self.runtime, self.driver.clone(), id, self.clock.clone(), ttl);
            return Err(Error::closed());
        }
        *current = Arc::clone(&session);
        Ok(session)
    }

    fn usable(&self) -> Result<Option<Arc<Session>>> {
        if self.is_closed() {
            return Err(Error::closed());
        }
        let session = self.current();
        Ok(session.lease.lost().is_none().then_some(session))
    }

    pub(crate) async fn gone(&self, lease: &LeaseWriter) {
        let session = self.current();
        if session.lease.same_as(lease) {
            session.gone(&self.driver).await;
        }
        lease.end(LostReason::Revoked);
    }

    /// Ends all tasks of the client, also renewal, so the lease expires on the server.
    pub(crate) fn stop(&self) {
        let _current = self.current.lock();
        self.closed.cancel();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }
}
