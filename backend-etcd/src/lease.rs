//! The client's lease: granted, renewed, given back, and granted anew after a loss.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use latchwork_core::contracts::Lease;
use latchwork_core::decide::{renewal_period, valid_until};
use latchwork_core::{Clock, Error, ErrorKind, LostReason, Moment, Result};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::backoff::Backoff;
use crate::driver::{Driver, Renewals};
use crate::error::{Answer, Failure, late};

/// A lease on the server, and what this client knows of it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: i64,
    pub(crate) lease: Lease,
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
    // Held while a new lease is asked for: one joiner asks, the others wait for it (LEASE-REOPEN).
    reopening: tokio::sync::Mutex<()>,
    closed: AtomicBool,
}

impl Leases {
    pub(crate) async fn open(driver: Driver, ttl: Duration) -> Result<Self> {
        let clock = Clock::system();
        let runtime = Handle::current();
        let session = Arc::new(grant(&runtime, &driver, &clock, ttl).await?);
        let keeper = start_keeper(&runtime, &driver, &session);
        Ok(Self {
            driver,
            clock,
            ttl,
            runtime,
            current: Mutex::new((session, keeper)),
            reopening: tokio::sync::Mutex::new(()),
            closed: AtomicBool::new(false),
        })
    }

    /// The session as it is, lost or not.
    pub(crate) fn current(&self) -> Arc<Session> {
        Arc::clone(&self.current.lock().0)
    }

    /// A session that is not lost: the present one, or a new one.
    pub(crate) async fn alive(&self) -> Result<Arc<Session>> {
        if let Some(session) = self.usable()? {
            return Ok(session);
        }
        // One at a time; whoever waits for one that fails asks once more, but does not wait for all before it.
        let within = self.driver.request_timeout();
        let Ok(_turn) = tokio::time::timeout(within, self.reopening.lock()).await else {
            return Err(Error::new(ErrorKind::Unavailable, "no lease was granted in time"));
        };
        if let Some(session) = self.usable()? {
            return Ok(session);
        }
        let old = self.current();
        // The old lease is given back first, or the next join would wait behind our own old nodes (RULES C6).
        // Its keeper goes on trying where this fails.
        let (_, granted) = tokio::join!(
            self.driver.revoke(old.id),
            grant(&self.runtime, &self.driver, &self.clock, self.ttl)
        );
        let session = Arc::new(granted?);
        let keeper = start_keeper(&self.runtime, &self.driver, &session);
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
    Ok(Session { id, lease: Lease::new(clock.clone(), granted, sent) })
}

fn start_keeper(runtime: &Handle, driver: &Driver, session: &Arc<Session>) -> AbortHandle {
    runtime.spawn(keep(driver.clone(), Arc::clone(session))).abort_handle()
}

/// Renews a lease until it is lost. When this task dies, the lease is lost at its deadline (LEASE-KEEPER).
async fn keep(driver: Driver, session: Arc<Session>) {
    let lease = &session.lease;
    let mut backoff = Backoff::new();
    while lease.lost().is_none() {
        match renew(&driver, &session, &mut backoff).await {
            Ok(()) => {}
            Err(Failure::LeaseGone) => {
                // Before our own deadline somebody else ended it; `end` leaves a passed deadline its word.
                lease.end(LostReason::Revoked);
                return;
            }
            Err(Failure::Full(error) | Failure::Other(error)) => {
                tracing::debug!(%error, "renewal of an etcd lease is interrupted");
                lease.suspend();
                tokio::select! {
                    () = backoff.pause() => {}
                    _ = lease.until_lost() => {}
                }
            }
        }
    }
    lease.tick();
    if lease.lost() == Some(LostReason::Expired) {
        // The server's side is given back too (RULES C6); there it lives a margin longer than here, at least.
        give_back(&Handle::current(), driver, session.id, lease.clock().clone(), lease.ttl());
    }
}

/// One stream of renewals, to its end. Answers carry no request id, but come in the order of the sends: each
/// proves contact at the send of its own request, not of the newest (RULES A3).
async fn renew(driver: &Driver, session: &Session, backoff: &mut Backoff) -> Answer<()> {
    let (lease, clock) = (&session.lease, session.lease.clock());
    let period = renewal_period(lease.ttl());
    let first = clock.now();
    lease.awaiting(first + period);
    // As long as for any other answer: a new one is a new chance.
    let opened = tokio::time::timeout(period, driver.keep_alive(session.id)).await;
    let mut stream: Renewals = opened.unwrap_or_else(|_| Err(late(period)))?;
    backoff.reset();
    if !lease.proven(first) {
        // Too late for us, though the server has renewed it: to be given back at once (RULES A3, C6).
        return Ok(());
    }
    let mut sent: VecDeque<Moment> = VecDeque::new();
    let mut next = first + period;
    loop {
        tokio::select! {
            () = clock.sleep_until(next) => {
                lease.tick();
                if lease.lost().is_some() {
                    return Ok(());
                }
                if sent.front().is_some_and(|&oldest| clock.now() >= oldest + period) {
                    // A whole period without an answer: this stream, or the server behind it, may be stuck.
                    // A new one is a new chance, with another member too.
                    return Ok(());
                }
                let now = clock.now();
                stream.send().await?;
                lease.awaiting(now + period);
                sent.push_back(now);
                next = now + period;
            }
            answer = stream.answered() => match answer? {
                Some(Duration::ZERO) => return Err(Failure::LeaseGone),
                Some(ttl) => {
                    let at = sent.pop_front().unwrap_or(first);
                    if !lease.proven_until(valid_until(at, ttl.min(lease.ttl()))) {
                        return Ok(());
                    }
                }
                None => return Err(Error::new(ErrorKind::Unavailable, "the stream of renewals ended").into()),
            },
        }
    }
}

/// Revokes a lease in the background, until it is confirmed or has run out by itself. A refusal may end too (RULES C6).
fn give_back(runtime: &Handle, driver: Driver, lease: i64, clock: Clock, ttl: Duration) {
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
    let outcome = tokio::time::timeout(within, tries).await;
    outcome.unwrap_or_else(|_| Err(last.unwrap_or_else(|| late(within).into()))).map_err(|error| {
        let what = "the lease could not be given back; it runs out by itself";
        Error::new(ErrorKind::Unavailable, what).because(error)
    })
}
