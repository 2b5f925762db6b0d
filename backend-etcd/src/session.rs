use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::{Backoff, LeaseWriter, Pauses};
use latchwork_core::{Clock, Error, ErrorKind, LostReason, Result};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::driver::Driver;
use crate::error::{Answer, Failure, late};

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: i64,
    pub(crate) lease: LeaseWriter,
    last_created: Mutex<Option<(Arc<[u8]>, u64)>>,
}

impl Session {
    pub(crate) fn new(id: i64, lease: LeaseWriter) -> Self {
        Self { id, lease, last_created: Mutex::default() }
    }

    pub(crate) async fn grant(
        runtime: &Handle,
        driver: &Driver,
        clock: &Clock,
        ttl: Duration,
    ) -> Answer<Self> {
        let sent = clock.now();
        // No client knows the id of a lease whose answer was lost: it expires.
        let (id, granted) = driver.grant(ttl).await.map_err(|failure| match failure {
            Failure::Other(error) => Failure::Other(error.of_harmless("no lease was granted")),
            other => other,
        })?;
        if granted < ttl {
            give_back(runtime, driver.clone(), id, clock.clone(), ttl);
            let range =
                format!("the server granted a lease of {granted:?} instead of {ttl:?}: set a shorter ttl");
            return Err(Error::new(ErrorKind::Misconfigured, range).into());
        }
        Ok(Self::new(id, LeaseWriter::new(clock.clone(), granted, sent)))
    }

    /// The session of an operator's client without a lease. A join asks for a lease again.
    pub(crate) fn without_lease(clock: &Clock, ttl: Duration) -> Self {
        let lease = LeaseWriter::new(clock.clone(), ttl, clock.now());
        lease.end(LostReason::Expired);
        Self::new(0, lease)
    }

    pub(crate) fn created(&self, key: &Arc<[u8]>, revision: u64) {
        *self.last_created.lock() = Some((Arc::clone(key), revision));
    }

    /// Ends the lease early, because the server does not know it. The last key that was created on it shows
    /// the reason, if there is one.
    pub(crate) async fn gone(&self, driver: &Driver) {
        let last_created = self.last_created.lock().clone();
        let reason = match last_created {
            Some((key, revision)) => driver.why_gone(&key, revision).await,
            None => LostReason::Revoked,
        };
        self.lease.end(reason);
    }
}

/// In the background, until the server confirms or refuses, or the lease has expired
/// (LEASE-CLEAN-UP-AFTER-LOSS).
pub(crate) fn give_back(runtime: &Handle, driver: Driver, lease: i64, clock: Clock, ttl: Duration) {
    let runs_out = clock.now() + ttl;
    runtime.spawn(async move {
        let mut backoff = Backoff::new(Pauses::OUTAGE);
        while let Err(Failure::Other(error)) = driver.revoke(lease).await {
            if clock.now() >= runs_out {
                tracing::debug!(%error, lease, "could not revoke a lease; it has expired");
                return;
            }
            backoff.wait(&clock).await;
        }
    });
}

/// Revokes the lease of a closing client, with retries within the request timeout.
pub(crate) async fn revoke_in_time(driver: &Driver, session: &Session) -> Result<()> {
    let mut last = None;
    let tries = async {
        let mut backoff = Backoff::new(Pauses::IN_REQUEST);
        loop {
            match driver.revoke(session.id).await {
                Ok(()) | Err(Failure::LeaseGone) => return Ok(()),
                Err(Failure::Other(error)) if error.may_pass() => last = Some(error),
                Err(failure) => return Err(failure.into()),
            }
            backoff.wait(session.lease.clock()).await;
        }
    };
    let within = driver.request_timeout;
    let outcome = timeout(within, tries).await;
    outcome.unwrap_or_else(|_| Err(last.unwrap_or_else(|| late().into()))).map_err(|error| {
        let what = "closed, but the server did not revoke the lease: it expires by its TTL";
        Error::new(ErrorKind::Unavailable, what).because(error)
    })
}
