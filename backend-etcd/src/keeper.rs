//! Renewal of a lease, until it is lost.
//!
//! Over one stream, which is asked once a period and has one answer to give: that proves contact at the send of its question
//! (RULES A3). A stream that is silent for half a period may lead to a member that is stuck. Which one another stream leads to is
//! left to chance, so they are opened one after the other, and whichever answers first, the silent one too, goes on.

use std::sync::Arc;
use std::time::Duration;

use latchwork_core::contracts::LeaseKeeper;
use latchwork_core::decide::{renewal_period, valid_until};
use latchwork_core::{Error, ErrorKind, LostReason, Moment};
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinSet};

use crate::backoff::{Backoff, LONGEST};
use crate::driver::{Driver, Renewals};
use crate::error::{Answer, Failure, SILENT};
use crate::lease::{Session, give_back};

/// How many streams are opened in a period without an answer: some ten before the deadline.
const CHANCES: u32 = 8;

/// Keeps a lease alive in the background. When that task dies, the lease is lost at its deadline (LEASE-KEEPER).
pub(crate) fn start(runtime: &Handle, driver: &Driver, session: &Arc<Session>) -> AbortHandle {
    runtime.spawn(keep(driver.clone(), Arc::clone(session))).abort_handle()
}

async fn keep(driver: Driver, session: Arc<Session>) {
    let lease = &session.lease;
    // The grant was the first proof; and an older member that has not heard of it yet would say that there is no such lease.
    tokio::select! {
        () = lease.clock().sleep_until(lease.opened() + renewal_period(lease.ttl())) => {}
        _ = lease.until_lost() => {}
    }
    // A lease may run out while it pauses.
    let mut backoff = Backoff::up_to(LONGEST.min(lease.ttl() / 40));
    let mut silent = None;
    while lease.lost().is_none() {
        match renew(&driver, &session, silent.take(), &mut backoff).await {
            Ok(stream) => silent = Some(stream),
            Err(Failure::LeaseGone) => {
                // Before our own deadline somebody else ended it, or it was forgotten; `end` leaves a passed deadline its word.
                session.gone(&driver).await;
                return;
            }
            Err(Failure::Full(error) | Failure::TooLong(error) | Failure::Other(error)) => {
                tracing::debug!(%error, "renewal of an etcd lease is interrupted");
                driver.link().broken(&error);
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

/// Renews over one stream, until that falls silent or the lease is lost.
async fn renew(
    driver: &Driver,
    session: &Arc<Session>,
    silent: Option<Stream>,
    backoff: &mut Backoff,
) -> Answer<Stream> {
    let (lease, clock) = (&session.lease, session.lease.clock());
    let mut stream = open(driver, session, silent).await?;
    driver.link().mended();
    backoff.reset();
    // An answer that came too late for us ends this too, though the server has renewed it (RULES A3).
    while lease.lost().is_none() {
        tokio::select! {
            () = clock.sleep_until(stream.next()) => {
                lease.tick();
                if lease.lost().is_none() {
                    stream.ask().await?;
                }
            }
            () = clock.sleep_until(stream.silent()) => {
                driver.link().broken(&SILENT);
                break;
            }
            answer = stream.answered() => answer?,
        }
    }
    Ok(stream)
}

/// The first stream that answers, of the one that fell silent and ever more new ones. What fails is one chance less, as long
/// as there are others.
async fn open(driver: &Driver, session: &Arc<Session>, silent: Option<Stream>) -> Answer<Stream> {
    let (lease, clock) = (&session.lease, session.lease.clock());
    let sent = clock.now();
    lease.awaiting(sent, sent + renewal_period(lease.ttl()));
    let mut first = JoinSet::new();
    if let Some(mut stream) = silent {
        first.spawn(async move { stream.answered().await.map(|()| stream) });
    }
    loop {
        lease.tick();
        if let Some(reason) = lease.lost() {
            return Err(Error::lost(reason).into());
        }
        first.spawn(Stream::open(driver.clone(), Arc::clone(session)));
        let again = clock.now() + renewal_period(lease.ttl()) / CHANCES;
        tokio::select! {
            Some(opened) = first_of(&mut first) => return opened,
            () = clock.sleep_until(again) => {}
            _ = lease.until_lost() => {}
        }
    }
}

/// The first of them that opens, or is told that there is no lease; the last one's failure where all fail. `None`: there is none.
///
/// Cancel-safe: what has failed by then is out of it.
async fn first_of<T: 'static>(streams: &mut JoinSet<Answer<T>>) -> Option<Answer<T>> {
    loop {
        let opened = streams.join_next().await?.unwrap_or_else(|died| {
            Err(Error::new(ErrorKind::Unknown, "a renewal came to no end").because(died).into())
        });
        match opened {
            Err(Failure::Full(error) | Failure::TooLong(error) | Failure::Other(error))
                if !streams.is_empty() =>
            {
                tracing::debug!(%error, "one stream of renewals of several failed");
            }
            last => return Some(last),
        }
    }
}

/// A stream of renewals, and what it was asked last.
struct Stream {
    renewals: Renewals,
    lease: LeaseKeeper,
    asked: Moment,
    answered: bool,
}

impl Stream {
    /// Opens a stream, by which the lease is renewed.
    async fn open(driver: Driver, session: Arc<Session>) -> Answer<Self> {
        let lease = session.lease.clone();
        let asked = lease.clock().now();
        let renewals = driver.keep_alive(session.id).await?;
        lease.proven(asked);
        Ok(Self { renewals, lease, asked, answered: true })
    }

    fn period(&self) -> Duration {
        renewal_period(self.lease.ttl())
    }

    /// When it is to be asked again: not while it owes an answer, which would count for the later question then. (By
    /// its time it would be [`silent`](Stream::silent) before; but a task that stood still finds that both have passed.)
    fn next(&self) -> Moment {
        if self.answered { self.asked + self.period() } else { Moment::NEVER }
    }

    /// From when on it counts as silent.
    fn silent(&self) -> Moment {
        if self.answered { Moment::NEVER } else { self.asked + self.period() / 2 }
    }

    async fn ask(&mut self) -> Answer<()> {
        (self.asked, self.answered) = (self.lease.clock().now(), false);
        self.lease.awaiting(self.asked, self.asked + self.period());
        self.renewals.send().await
    }

    /// Waits for the answer.
    async fn answered(&mut self) -> Answer<()> {
        match self.renewals.answered().await? {
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

    /// The answer that comes when it is sent.
    fn stream(streams: &mut JoinSet<Answer<u32>>) -> oneshot::Sender<Answer<u32>> {
        let (sender, receiver) = oneshot::channel();
        streams.spawn(async move { receiver.await.expect("planted: it died") });
        sender
    }

    fn failure() -> Answer<u32> {
        Err(Error::new(ErrorKind::Unavailable, "it failed").into())
    }

    #[tokio::test]
    async fn a_stream_that_fails_beside_others_is_one_chance_less() {
        let mut streams = JoinSet::new();
        assert!(first_of(&mut streams).await.is_none());
        let [one, another, third] = [(); 3].map(|()| stream(&mut streams));
        one.send(failure()).unwrap();
        drop(another);
        while streams.len() > 1 {
            assert!(first_of(&mut streams).now_or_never().is_none(), "there is one that may answer");
            tokio::task::yield_now().await;
        }
        third.send(Ok(3)).unwrap();
        assert_eq!(first_of(&mut streams).await.unwrap().ok(), Some(3));
    }

    #[tokio::test]
    async fn that_there_is_no_lease_is_told_at_once_and_a_failure_by_the_last() {
        let mut streams = JoinSet::new();
        let [one, another] = [(); 2].map(|()| stream(&mut streams));
        one.send(Err(Failure::LeaseGone)).unwrap();
        assert!(matches!(first_of(&mut streams).await, Some(Err(Failure::LeaseGone))));
        another.send(failure()).unwrap();
        assert!(matches!(first_of(&mut streams).await, Some(Err(Failure::Other(_)))));
    }

    /// The task stood still, beyond the instant at which it would have asked again.
    #[tokio::test]
    async fn an_answer_that_is_owed_never_counts_for_a_later_question() {
        let server = Server::start(Kind::Etcd, Options::new()).await.unwrap();
        let driver = Driver::of(&server).await;
        let (clock, opened) = (Clock::system(), Clock::system().now());
        let (id, ttl) = driver.grant(Duration::from_secs(10)).await.unwrap();
        let session = Arc::new(Session::new(id, LeaseKeeper::new(clock.clone(), ttl, opened)));
        let mut stream = Stream::open(driver.clone(), Arc::clone(&session)).await.unwrap();
        stream.ask().await.unwrap();
        let asked = clock.now();
        clock.jump(renewal_period(ttl) + Duration::from_millis(1));
        assert!(stream.silent() <= clock.now() && clock.now() < stream.next());
        stream.answered().await.unwrap();
        assert!(session.lease.deadline() <= valid_until(asked, ttl), "proven at the send");
        assert!(stream.next() <= clock.now(), "answered, it is due");
        driver.revoke(id).await.unwrap();
    }
}
