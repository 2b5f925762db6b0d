//! Renewal of a lease, until it is lost.
//!
//! One stream carries the renewals, one request in each period. A quorum read in the same term confirms the
//! answer (LEASE-RENEWAL-IN-ONE-TERM), which then proves contact at the send time of its request
//! (LEASE-DEADLINE-FROM-SEND). A stream that is silent for half a period may lead to a stuck member, and
//! another stream may lead to the same member again. So the client opens streams one after another, and uses
//! the first that answers, even the silent one.

mod in_turn;
mod stream;

use std::sync::Arc;

use latchwork_core::LostReason;
use latchwork_core::backend::decide::renewal_period;
use latchwork_core::backend::{Backoff, Pauses};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use self::in_turn::InTurn;
use self::stream::Renewals;
use crate::driver::Driver;
use crate::error::{Answer, Failure, SILENT};
use crate::session::{Session, give_back};

/// Renews a lease in the background until the client is closed. If the task dies, the lease is lost at its
/// deadline (LEASE-KEEPER).
pub(crate) fn start(runtime: &Handle, driver: &Driver, session: &Arc<Session>, closed: &CancellationToken) {
    let (driver, session) = (driver.clone(), Arc::clone(session));
    let renewing = async move {
        let may_exist = tokio::select! {
            may_exist = renew_until_lost(&driver, &session) => may_exist,
            () = driver.forgotten() => {
                session.lease.end(LostReason::Forgotten);
                // A server with an older copy may still have the lease, and released nodes.
                true
            }
        };
        if may_exist {
            // The lease must not block other clients (LEASE-CLEAN-UP-AFTER-LOSS).
            let lease = &session.lease;
            give_back(&Handle::current(), driver, session.id, lease.clock().clone(), lease.ttl());
        }
    };
    runtime.spawn(closed.clone().run_until_cancelled_owned(renewing));
}

/// Returns whether the server may still have the lost lease.
async fn renew_until_lost(driver: &Driver, session: &Arc<Session>) -> bool {
    let lease = &session.lease;
    // The grant was the first proof. A member that lags may not know the lease yet.
    tokio::select! {
        () = lease.clock().sleep_until(lease.opened() + renewal_period(lease.ttl())) => {}
        _ = lease.until_lost() => {}
    }
    // Short compared with the TTL, because the lease runs during a pause.
    let mut backoff = Backoff::new(Pauses::OUTAGE.up_to(lease.ttl() / 80));
    let mut silent = None;
    while lease.lost().is_none() {
        match renew(driver, session, silent.take(), &mut backoff).await {
            Ok(stream) => silent = Some(stream),
            Err(Failure::LeaseGone) => {
                // Revoked by an operator, or forgotten by the server. A deadline that passed before remains
                // the reason.
                session.gone(driver).await;
                return false;
            }
            Err(Failure::Full(error) | Failure::TooLong(error) | Failure::Other(error)) => {
                tracing::debug!(%error, "the renewal of the lease was interrupted; the client tries again");
                driver.link.broken(&error);
                lease.suspend();
                tokio::select! {
                    () = backoff.wait(lease.clock()) => {}
                    _ = lease.until_lost() => {}
                }
            }
        }
    }
    lease.tick();
    lease.lost() == Some(LostReason::Expired)
}

async fn renew(
    driver: &Driver,
    session: &Arc<Session>,
    silent: Option<Renewals>,
    backoff: &mut Backoff,
) -> Answer<Renewals> {
    let (lease, clock) = (&session.lease, session.lease.clock());
    let mut stream = open(driver, session, silent).await?;
    driver.link.mended();
    backoff.reset();
    // An answer after the deadline does not count, although the server has renewed the lease
    // (LEASE-DEADLINE-FROM-SEND).
    while lease.lost().is_none() {
        tokio::select! {
            () = clock.sleep_until(stream.next()) => {
                lease.tick();
                if lease.lost().is_none() {
                    stream.ask().await?;
                }
            }
            () = clock.sleep_until(stream.silent()) => {
                driver.link.broken(&SILENT);
                break;
            }
            proven = stream.proven() => proven?,
        }
    }
    Ok(stream)
}

/// The first stream that proves contact. A failed stream is ignored while there are others.
async fn open(driver: &Driver, session: &Arc<Session>, silent: Option<Renewals>) -> Answer<Renewals> {
    let lease = &session.lease;
    let mut streams = InTurn::default();
    match silent {
        // Its renewal is awaited already.
        Some(mut stream) => streams.add(async move { stream.proven().await.map(|()| stream) }),
        None => {
            let now = lease.clock().now();
            lease.awaiting(now, now + renewal_period(lease.ttl()));
        }
    }
    streams.first(lease, || Renewals::open(driver.clone(), Arc::clone(session))).await
}
