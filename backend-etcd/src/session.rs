//! One lease on the server: its grant and its revocation.

use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::{Backoff, LeaseWriter, Pauses};
use latchwork_core::{Clock, Error, ErrorKind, LostReason, Result};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::driver::Driver;
use crate::error::{Answer, Failure, late};

/// A lease on the server, and the client's knowledge about it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: i64,
    pub(crate) lease: LeaseWriter,
    // The last key that was created on the lease, and its create revision.
    last_created: Mutex<Option<(Arc<[u8]>, u64)>>,
}

impl Session {
    pub(crate) fn new(id: i64, lease: LeaseWriter) -> Self {
        Self { id, lease, last_created: Mutex::default() }
    }

    /// Asks the server for a lease.
    pub(crate) async fn grant(
        runtime: &Handle,
        driver: &Driver,
        clock: &Clock,
        ttl: Duration,
    ) -> Answer<Self> {
        let sent = clock.now();
        // If the answer was lost, no client knows the id of the lease, and it expires. This is as
        // good as not granted.
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

    /// The session of an operator's client that the server has granted no lease. It is lost: a join asks for a lease
    /// again.
    pub(crate) fn without_lease(clock: &Clock, ttl: Duration) -> Self {
        let lease = LeaseWriter::new(clock.clone(), ttl, clock.now());
        lease.end(LostReason::Expired);
        Self::new(0, lease)
    }

    /// Records a key that was created on this lease.
    pub(crate) fn created(&self, key: &Arc<[u8]>, revision: u64) {
        *self.last_created.lock() = Some((Arc::clone(key), revision));
    }

    /// Ends the lease because the server does not know it any more before its deadline. The last
    /// key that was created on it shows the reason. Without such a key, the reason cannot be
    /// checked.
    pub(crate) async fn gone(&self, driver: &Driver) {
        let last_created = self.last_created.lock().clone();
        let reason = match last_created {
            Some((key, revision)) => driver.why_gone(&key, revision).await,
            None => LostReason::Revoked,
        };
        self.lease.end(reason);
    }
}

/// Revokes a lease in the background, until the server confirms it or the lease has expired. A
/// refusal ends it too (LEASE-CLEAN-UP-AFTER-LOSS).
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

/// Revokes the lease of a client that closes, with retries within the request timeout: a server
/// that is unreachable, or has no leader, mostly answers soon. A refusal is returned at once.
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
