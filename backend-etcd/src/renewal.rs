//! Renewal of a lease, until it is lost.
//!
//! One stream carries the renewals. The client sends one request in each period, and waits for one
//! answer at a time. The answer proves contact at the send time of its request
//! (LEASE-DEADLINE-FROM-SEND). A stream that is silent for half a period may lead to a member that
//! is stuck. Requests take turns between the members, so another stream may lead to the same member
//! again. Therefore streams are opened one after another, and the first stream that answers is
//! used, even if it is the silent one.

use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::decide::{renewal_period, valid_until};
use latchwork_core::backend::{Backoff, LeaseWriter, Pauses};
use latchwork_core::{Error, ErrorKind, LostReason, Moment};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::driver::{Driver, RenewalStream};
use crate::error::{Answer, Failure, SILENT};
use crate::session::{Session, give_back};

/// The number of streams that are opened in a period without an answer: some ten before the
/// deadline.
const STREAMS_PER_PERIOD: u32 = 8;

/// Renews a lease in the background, until the client is closed. If the task dies, the lease is
/// lost at its deadline (LEASE-KEEPER).
pub(crate) fn start(runtime: &Handle, driver: &Driver, session: &Arc<Session>, closed: &CancellationToken) {
    let (driver, session) = (driver.clone(), Arc::clone(session));
    let renewing = async move {
        let may_exist = tokio::select! {
            may_exist = renew_until_lost(&driver, &session) => may_exist,
            () = driver.forgotten() => {
                session.lease.end(LostReason::Forgotten);
                // A server with an older copy may still have the lease, and nodes that were released since.
                true
            }
        };
        if may_exist {
            // Without this, the lease would block other clients for a margin, or longer (LEASE-CLEAN-UP-AFTER-LOSS).
            let lease = &session.lease;
            give_back(&Handle::current(), driver, session.id, lease.clock().clone(), lease.ttl());
        }
    };
    runtime.spawn(closed.clone().run_until_cancelled_owned(renewing));
}

/// Returns whether the server may still have the lease after its loss.
async fn renew_until_lost(driver: &Driver, session: &Arc<Session>) -> bool {
    let lease = &session.lease;
    // The grant was the first proof. A member that lags may not know the lease yet, and would
    // answer that it is gone.
    tokio::select! {
        () = lease.clock().sleep_until(lease.opened() + renewal_period(lease.ttl())) => {}
        _ = lease.until_lost() => {}
    }
    // Short compared with the TTL, because the lease continues to run during a pause.
    let mut backoff = Backoff::new(Pauses::OUTAGE.up_to(lease.ttl() / 80));
    let mut silent = None;
    while lease.lost().is_none() {
        match renew(driver, session, silent.take(), &mut backoff).await {
            Ok(stream) => silent = Some(stream),
            Err(Failure::LeaseGone) => {
                // An operator has revoked the lease, or the server has forgotten it. If the
                // deadline passed before, that remains the reason.
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

/// Renews over one stream, until the stream is silent or the lease is lost.
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
    // An answer after the deadline ends this too, although the server has renewed the lease
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
            answer = stream.answer() => answer?,
        }
    }
    Ok(stream)
}

/// Returns the first stream that answers: the silent one, or a stream that is opened here, one
/// after another. A stream that fails is ignored as long as there are others.
async fn open(driver: &Driver, session: &Arc<Session>, silent: Option<Renewals>) -> Answer<Renewals> {
    let (lease, clock) = (&session.lease, session.lease.clock());
    let sent = clock.now();
    lease.awaiting(sent, sent + renewal_period(lease.ttl()));
    let mut first = JoinSet::new();
    if let Some(mut stream) = silent {
        first.spawn(async move { stream.answer().await.map(|()| stream) });
    }
    loop {
        lease.tick();
        if let Some(reason) = lease.lost() {
            return Err(Error::lost(reason).into());
        }
        first.spawn(Renewals::open(driver.clone(), Arc::clone(session)));
        let again = clock.now() + renewal_period(lease.ttl()) / STREAMS_PER_PERIOD;
        tokio::select! {
            Some(opened) = first_of(&mut first) => return opened,
            () = clock.sleep_until(again) => {}
            _ = lease.until_lost() => {}
        }
    }
}

/// Returns the first stream that opens or that finds the lease gone. If all fail, returns the
/// failure of the last. `None`: the set is empty.
///
/// Cancel-safe: only streams that have already failed are removed.
async fn first_of<T: 'static>(streams: &mut JoinSet<Answer<T>>) -> Option<Answer<T>> {
    loop {
        let opened = streams.join_next().await?.unwrap_or_else(|died| {
            Err(Error::new(ErrorKind::OutcomeUnknown, "the task of a renewal died").because(died).into())
        });
        match opened {
            Err(Failure::Full(error) | Failure::TooLong(error) | Failure::Other(error))
                if !streams.is_empty() =>
            {
                tracing::debug!(%error, "one of several streams of renewals failed");
            }
            last => return Some(last),
        }
    }
}

/// A stream of renewals, and its last request.
struct Renewals {
    stream: RenewalStream,
    lease: LeaseWriter,
    asked: Moment,
    answered: bool,
}

impl Renewals {
    /// Opens a stream, which also renews the lease.
    async fn open(driver: Driver, session: Arc<Session>) -> Answer<Self> {
        let lease = session.lease.clone();
        let asked = lease.clock().now();
        let stream = driver.keep_alive(session.id).await?;
        lease.proven(asked);
        Ok(Self { stream, lease, asked, answered: true })
    }

    fn period(&self) -> Duration {
        renewal_period(self.lease.ttl())
    }

    /// The time of the next request: never while an answer is missing, because that answer would
    /// then count for the later request. (The stream is [`silent`](Renewals::silent) before that.
    /// But a task that was stopped finds both instants in the past.)
    fn next(&self) -> Moment {
        if self.answered { self.asked + self.period() } else { Moment::NEVER }
    }

    /// The instant from which the stream counts as silent.
    fn silent(&self) -> Moment {
        if self.answered { Moment::NEVER } else { self.asked + self.period() / 2 }
    }

    async fn ask(&mut self) -> Answer<()> {
        (self.asked, self.answered) = (self.lease.clock().now(), false);
        self.lease.awaiting(self.asked, self.asked + self.period());
        self.stream.send().await
    }

    async fn answer(&mut self) -> Answer<()> {
        match self.stream.answer().await? {
            Some(Duration::ZERO) => Err(Failure::LeaseGone),
            Some(ttl) => {
                self.answered = true;
                self.lease.proven_until(self.asked, valid_until(self.asked, ttl.min(self.lease.ttl())));
                Ok(())
            }
            None => Err(Error::new(ErrorKind::Unavailable, "the stream of renewals ended").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use latchwork_conformance::servers::{Kind, Options, Server};
    use latchwork_core::Clock;
    use tokio::sync::oneshot;

    use super::*;

    /// A stream whose answer the test sends.
    fn stream(streams: &mut JoinSet<Answer<u32>>) -> oneshot::Sender<Answer<u32>> {
        let (sender, receiver) = oneshot::channel();
        streams.spawn(async move { receiver.await.expect("an error of the test: the stream died") });
        sender
    }

    fn failure() -> Answer<u32> {
        Err(Error::new(ErrorKind::Unavailable, "planted").into())
    }

    #[tokio::test]
    async fn failed_stream_is_skipped_while_other_streams_may_answer() {
        let mut streams = JoinSet::new();
        assert!(first_of(&mut streams).await.is_none());
        let [one, another, third] = [(); 3].map(|()| stream(&mut streams));
        one.send(failure()).unwrap();
        drop(another);
        while streams.len() > 1 {
            assert!(first_of(&mut streams).now_or_never().is_none(), "another stream may answer");
            tokio::task::yield_now().await;
        }
        third.send(Ok(3)).unwrap();
        assert_eq!(first_of(&mut streams).await.unwrap().ok(), Some(3));
    }

    #[tokio::test]
    async fn a_lost_lease_is_reported_at_once_and_a_failure_by_the_last_stream() {
        let mut streams = JoinSet::new();
        let [one, another] = [(); 2].map(|()| stream(&mut streams));
        one.send(Err(Failure::LeaseGone)).unwrap();
        assert!(matches!(first_of(&mut streams).await, Some(Err(Failure::LeaseGone))));
        another.send(failure()).unwrap();
        assert!(matches!(first_of(&mut streams).await, Some(Err(Failure::Other(_)))));
    }

    /// As if the task was stopped past the time of its next request.
    #[tokio::test]
    async fn an_answer_that_is_owed_never_counts_for_a_later_question() {
        let server = Server::start(Kind::Etcd, Options::new()).await.unwrap();
        let driver = Driver::of(&server).await;
        let (clock, opened) = (Clock::system(), Clock::system().now());
        let (id, ttl) = driver.grant(Duration::from_secs(10)).await.unwrap();
        let session = Arc::new(Session::new(id, LeaseWriter::new(clock.clone(), ttl, opened)));
        let mut stream = Renewals::open(driver.clone(), Arc::clone(&session)).await.unwrap();
        stream.ask().await.unwrap();
        let asked = clock.now();
        clock.jump(renewal_period(ttl) + Duration::from_millis(1));
        assert!(stream.silent() <= clock.now() && clock.now() < stream.next());
        stream.answer().await.unwrap();
        assert!(session.lease.deadline() <= valid_until(asked, ttl), "the proof counts from its send time");
        assert!(stream.next() <= clock.now(), "the next renewal is due");
        driver.revoke(id).await.unwrap();
    }
}
