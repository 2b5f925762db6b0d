use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::LeaseWriter;
use latchwork_core::backend::decide::{renewal_period, valid_until};
use latchwork_core::{Error, ErrorKind, Moment};

use super::in_turn::InTurn;
use crate::driver::{Driver, Renewal, RenewalStream};
use crate::error::Answer;
use crate::session::Session;

pub(super) struct Renewals {
    driver: Driver,
    stream: RenewalStream,
    lease: LeaseWriter,
    asked: Moment,
    progress: Progress,
}

#[derive(Clone, Copy)]
enum Progress {
    Asked,
    /// Answered, but it does not count yet.
    Answered(Renewal),
    Proven,
}

impl Renewals {
    /// Opens a stream, and renews the lease. The caller has recorded the renewal as awaited: several streams may
    /// be opened for it, and only the first answer counts.
    pub(super) async fn open(driver: Driver, session: Arc<Session>) -> Answer<Self> {
        let lease = session.lease.clone();
        let stream = driver.keep_alive(session.id).await?;
        let asked = lease.clock().now();
        let mut opened = Self { driver, stream, lease, asked, progress: Progress::Proven };
        opened.send().await?;
        opened.proven().await?;
        Ok(opened)
    }

    fn period(&self) -> Duration {
        renewal_period(self.lease.ttl())
    }

    fn is_proven(&self) -> bool {
        matches!(self.progress, Progress::Proven)
    }

    /// The time of the next request: never while an answer is missing, because that answer would count for
    /// the later request. (After a stop of the task, this and [`silent`](Renewals::silent) are in the past.)
    pub(super) fn next(&self) -> Moment {
        if self.is_proven() { self.asked + self.period() } else { Moment::NEVER }
    }

    /// The instant from which the stream counts as silent.
    pub(super) fn silent(&self) -> Moment {
        if self.is_proven() { Moment::NEVER } else { self.asked + self.period() / 2 }
    }

    /// Sends the next renewal. It is late if it is not answered in its period.
    pub(super) async fn ask(&mut self) -> Answer<()> {
        let now = self.lease.clock().now();
        self.lease.awaiting(now, now + self.period());
        self.send().await
    }

    async fn send(&mut self) -> Answer<()> {
        (self.asked, self.progress) = (self.lease.clock().now(), Progress::Asked);
        self.stream.send().await
    }

    /// Waits until an answer has proven contact, or the stream ends.
    ///
    /// Cancel-safe: the next call continues.
    pub(super) async fn proven(&mut self) -> Answer<()> {
        if !matches!(self.progress, Progress::Answered(_)) {
            self.progress = match self.stream.answer().await? {
                Some(renewal) => Progress::Answered(renewal),
                None => {
                    return Err(Error::new(ErrorKind::Unavailable, "the stream of renewals ended").into());
                }
            };
        }
        if let Progress::Answered(renewal) = self.progress {
            self.confirm(renewal).await?;
            self.progress = Progress::Proven;
            self.lease.proven_until(self.asked, valid_until(self.asked, renewal.ttl.min(self.lease.ttl())));
        }
        Ok(())
    }

    /// LEASE-RENEWAL-IN-ONE-TERM.
    async fn confirm(&self, renewal: Renewal) -> Answer<()> {
        let confirming = || {
            let driver = self.driver.clone();
            async move { driver.confirms(renewal).await }
        };
        match InTurn::default().first(&self.lease, confirming).await? {
            true => Ok(()),
            false => {
                let why = "the leader has changed during the renewal, or a deposed leader answered it";
                Err(Error::new(ErrorKind::Unavailable, why).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use latchwork_conformance::servers::{Kind, Options, Server};
    use latchwork_core::Clock;

    use super::*;

    /// The task was stopped past the time of its next request.
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
        stream.proven().await.unwrap();
        assert!(session.lease.deadline() <= valid_until(asked, ttl), "the proof counts from its send time");
        assert!(stream.next() <= clock.now(), "the next renewal is due");
        driver.revoke(id).await.unwrap();
    }
}
