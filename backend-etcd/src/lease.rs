//! The client's lease: granted, given back, and granted anew after a loss.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use latchwork_core::contracts::{LeaseKeeper, SingleFlight};
use latchwork_core::{Clock, Error, ErrorKind, LostReason, Result};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::backoff::Backoff;
use crate::driver::Driver;
use crate::error::{Failure, late};
use crate::keeper;

/// A lease on the server, and what this client knows of it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: i64,
    pub(crate) lease: LeaseKeeper,
    // The key that was made last on it, and when.
    witness: Mutex<Option<(Arc<[u8]>, u64)>>,
}

impl Session {
    pub(crate) fn new(id: i64, lease: LeaseKeeper) -> Self {
        Self { id, lease, witness: Mutex::default() }
    }

    /// This key was made on it at this revision.
    pub(crate) fn has_made(&self, key: &Arc<[u8]>, created: u64) {
        *self.witness.lock() = Some((Arc::clone(key), created));
    }

    /// The server does not know the lease any more, before its time: ends it, and says why. Where nothing was made on it, nobody asks.
    pub(crate) async fn gone(&self, driver: &Driver) {
        let witness = self.witness.lock().clone();
        let reason = match witness {
            Some((key, created)) => driver.why_gone(&key, created).await,
            None => LostReason::Revoked,
        };
        self.lease.end(reason);
    }
}

/// The client's present session, and the way to the next one.
#[derive(Debug)]
pub(crate) struct Leases {
    driver: Driver,
    clock: Clock,
    ttl: Duration,
    /// The client's: what goes on in the background is not to end with the runtime of whoever happened to ask for it.
    pub(crate) runtime: Handle,
    current: Mutex<(Arc<Session>, AbortHandle)>,
    reopening: SingleFlight<Result<Arc<Session>>>,
    closed: AtomicBool,
}

impl Leases {
    pub(crate) async fn open(driver: Driver, ttl: Duration) -> Result<Self> {
        let clock = Clock::system();
        let runtime = Handle::current();
        let session = Arc::new(grant(&runtime, &driver, &clock, ttl).await?);
        let keeper = keeper::start(&runtime, &driver, &session);
        Ok(Self {
            driver,
            clock,
            ttl,
            runtime,
            current: Mutex::new((session, keeper)),
            reopening: SingleFlight::default(),
            closed: AtomicBool::new(false),
        })
    }

    /// The session as it is, lost or not.
    pub(crate) fn current(&self) -> Arc<Session> {
        Arc::clone(&self.current.lock().0)
    }

    /// A session that is not lost: the present one, or a new one (LEASE-REOPEN).
    pub(crate) async fn alive(self: &Arc<Self>) -> Result<Arc<Session>> {
        if let Some(session) = self.usable()? {
            return Ok(session);
        }
        let leases = Arc::clone(self);
        let reopening = self.reopening.join(&self.runtime, || async move { leases.reopen().await });
        reopening.landed_within(self.driver.request_timeout(), "the opening of a lease").await?
    }

    async fn reopen(&self) -> Result<Arc<Session>> {
        // Another may have ended just now.
        if let Some(session) = self.usable()? {
            return Ok(session);
        }
        let old = self.current();
        // The old lease is given back first, or the next join would wait behind our own old nodes (RULES C6).
        // Its keeper goes on trying where this fails. The new one is renewed meanwhile.
        let (_, granted) = tokio::join!(self.driver.revoke(old.id), async {
            let session = Arc::new(grant(&self.runtime, &self.driver, &self.clock, self.ttl).await?);
            let keeper = keeper::start(&self.runtime, &self.driver, &session);
            Result::Ok((session, keeper))
        });
        let (session, keeper) = granted?;
        let mut current = self.current.lock();
        if self.closed.load(Ordering::Acquire) {
            keeper.abort();
            give_back(
                &self.runtime,
                self.driver.clone(),
                session.id,
                self.clock.clone(),
                session.lease.ttl(),
            );
            return Err(Error::closed());
        }
        *current = (Arc::clone(&session), keeper);
        Ok(session)
    }

    fn usable(&self) -> Result<Option<Arc<Session>>> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::closed());
        }
        let session = self.current();
        Ok(session.lease.lost().is_none().then_some(session))
    }

    /// The server does not know this lease any more.
    pub(crate) async fn gone(&self, lease: &LeaseKeeper) {
        let session = self.current();
        if session.lease.same_as(lease) {
            session.gone(&self.driver).await;
        }
        // One before it is lost already.
        lease.end(LostReason::Revoked);
    }

    /// Ends renewal: the lease is left to run out on the server.
    pub(crate) fn stop(&self) {
        let current = self.current.lock();
        self.closed.store(true, Ordering::Release);
        current.1.abort();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

impl Drop for Leases {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn grant(runtime: &Handle, driver: &Driver, clock: &Clock, ttl: Duration) -> Result<Session> {
    let sent = clock.now();
    let (id, granted) = driver.grant(ttl).await.map_err(Error::from).map_err(|error| match error.kind() {
        // A lease that nobody knows runs out by itself, so that it may as well not have been granted.
        ErrorKind::Unknown => Error::new(ErrorKind::Unavailable, "no lease was granted").because(error),
        _ => error,
    })?;
    if granted < ttl {
        give_back(runtime, driver.clone(), id, clock.clone(), ttl);
        let range = format!("asked for a lease of {ttl:?}, which this server cuts to {granted:?}");
        return Err(Error::new(ErrorKind::Misconfigured, range));
    }
    Ok(Session::new(id, LeaseKeeper::new(clock.clone(), granted, sent)))
}

/// Revokes a lease in the background, until it is confirmed or has run out by itself. A refusal may end too (RULES C6).
pub(crate) fn give_back(runtime: &Handle, driver: Driver, lease: i64, clock: Clock, ttl: Duration) {
    let runs_out = clock.now() + ttl;
    runtime.spawn(async move {
        let mut backoff = Backoff::new();
        while let Err(Failure::Other(error)) = driver.revoke(lease).await {
            if clock.now() >= runs_out {
                tracing::debug!(%error, lease, "an etcd lease was not given back; it has run out");
                return;
            }
            backoff.pause().await;
        }
    });
}

/// Revokes a lease for a close: again and again within the request timeout, since a server that cannot be reached, is behind
/// or has no leader mostly answers soon. A refusal is told at once.
pub(crate) async fn revoke_in_time(driver: &Driver, lease: i64) -> Result<()> {
    let mut last = None;
    let tries = async {
        let mut backoff = Backoff::up_to(Duration::from_millis(100));
        loop {
            match driver.revoke(lease).await {
                Ok(()) | Err(Failure::LeaseGone) => return Ok(()),
                Err(Failure::Other(error)) if error.is_retryable() => last = Some(error),
                Err(failure) => return Err(failure.into()),
            }
            backoff.pause().await;
        }
    };
    let within = driver.request_timeout();
    let outcome = timeout(within, tries).await;
    outcome.unwrap_or_else(|_| Err(last.unwrap_or_else(|| late().into()))).map_err(|error| {
        let what = "the lease could not be given back; it runs out by itself";
        Error::new(ErrorKind::Unavailable, what).because(error)
    })
}
