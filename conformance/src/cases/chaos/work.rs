use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use latchwork_core::{Claim, Coordinator, Error, ErrorKind, Hold, LostReason, Result, Token};
use rand::RngExt;
use rand::rngs::StdRng;
use tokio::time::{Instant, sleep, timeout};

use super::{Chaos, KEYS, LOOK, name, pause};
use crate::child::SoakKind;
use crate::hold_record::HoldRecord;
use crate::wait::Wait;

impl Chaos {
    pub(super) async fn contend(&self, coordinator: &Coordinator, mut chance: StdRng, ends: Instant) {
        while Instant::now() < ends {
            let key = chance.random_range(0..KEYS);
            let patience = chance.random_range(Duration::ZERO..self.ttl * 3);
            let work = match chance.random_range(0..40) {
                0..2 => chance.random_range(Duration::ZERO..self.ttl * 3),
                2..15 => chance.random_range(Duration::ZERO..Duration::from_millis(50)),
                _ => chance.random_range(Duration::ZERO..Duration::from_millis(5)),
            };
            match timeout(patience, self.hold(coordinator, key, &mut chance, work)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    self.expected(&error);
                    pause(&mut chance, Duration::ZERO..Duration::from_millis(100)).await;
                }
                Err(_) => {
                    self.given_up.fetch_add(1, Ordering::AcqRel);
                }
            }
        }
    }

    /// Nothing removes nodes, and servers keep acknowledged data: only a deadline ends a hold.
    pub(super) fn expected(&self, error: &Error) {
        assert!(is_of_faults(error), "{error}");
        self.failed.fetch_add(1, Ordering::AcqRel);
    }

    /// A busy machine may be too late for its lease.
    pub(super) async fn serve(&self, coordinator: &Coordinator, key: usize, paused: bool) {
        while let Err(error) = self.hold_all(coordinator, key).await {
            assert!(!paused && is_of_faults(&error), "{error}");
            sleep(LOOK).await;
        }
    }

    async fn hold_all(&self, coordinator: &Coordinator, key: usize) -> Result<()> {
        let name = name(key);
        match self.kind {
            SoakKind::Exclusive => give_back(coordinator.mutex(name)?.acquire().await?, true).await,
            SoakKind::ReadWrite => give_back(coordinator.rwlock(name)?.write().await?, true).await,
            SoakKind::Permits { limit } => {
                give_back(coordinator.semaphore(name, limit)?.acquire(limit).await?, true).await
            }
        }
    }

    async fn hold(
        &self,
        coordinator: &Coordinator,
        key: usize,
        chance: &mut StdRng,
        work: Duration,
    ) -> Result<()> {
        let name = name(key);
        let tries = chance.random_ratio(1, 6);
        let within = match chance.random() {
            true => None,
            false => Some(chance.random_range(self.ttl / 100..self.ttl * 2)),
        };
        let wait = match within {
            _ if tries => Wait::No,
            Some(time) => Wait::AtMost(time),
            None => Wait::Forever,
        };
        let releases = chance.random_ratio(3, 4);
        match self.kind {
            SoakKind::Exclusive => {
                let mutex = coordinator.mutex(name)?;
                let had = wait.take(mutex.try_acquire(), mutex.acquire()).await?;
                let Some(guard) = had else { return Ok(()) };
                self.witness(key, &guard, Claim::Exclusive, guard.token(), work).await;
                give_back(guard, releases).await
            }
            SoakKind::ReadWrite if chance.random_ratio(1, 3) => {
                let lock = coordinator.rwlock(name)?;
                let had = wait.take(lock.try_write(), lock.write()).await?;
                let Some(guard) = had else { return Ok(()) };
                self.witness(key, &guard, Claim::Exclusive, guard.token(), work).await;
                if chance.random() {
                    return give_back(guard, releases).await;
                }
                let guard = guard.downgrade().await?;
                self.witness(key, &guard, Claim::Shared, guard.place(), work).await;
                give_back(guard, releases).await
            }
            SoakKind::ReadWrite => {
                let lock = coordinator.rwlock(name)?;
                let had = wait.take(lock.try_read(), lock.read()).await?;
                let Some(guard) = had else { return Ok(()) };
                self.witness(key, &guard, Claim::Shared, guard.place(), work).await;
                give_back(guard, releases).await
            }
            SoakKind::Permits { limit } => {
                let (semaphore, weight) =
                    (coordinator.semaphore(name, limit)?, chance.random_range(1..=limit));
                let had = wait.take(semaphore.try_acquire(weight), semaphore.acquire(weight)).await?;
                let Some(permit) = had else { return Ok(()) };
                self.witness(key, &permit, Claim::Permits(weight), permit.place(), work).await;
                give_back(permit, releases).await
            }
        }
    }

    /// The clock is read before each check, so the hold is certain.
    async fn witness(&self, key: usize, hold: &Hold, claim: Claim, token: Token, work: Duration) {
        let from = self.now();
        let ends = Instant::now() + work;
        let mut noted = None;
        loop {
            let to = self.now();
            if let Err(error) = hold.check() {
                self.expected(&error);
                self.lost.fetch_add(1, Ordering::AcqRel);
                return;
            }
            {
                let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
                let at = *noted.get_or_insert_with(|| {
                    records[key].push(HoldRecord { key, claim, token: Some(token), from, to });
                    records[key].len() - 1
                });
                records[key][at].to = to;
            }
            if Instant::now() >= ends {
                return;
            }
            sleep(self.look.min(ends - Instant::now())).await;
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).expect("a run of chaos is short")
    }
}

fn is_of_faults(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Unavailable | ErrorKind::OutcomeUnknown | ErrorKind::Timeout => true,
        ErrorKind::Lost(reason) => reason == LostReason::Expired,
        _ => false,
    }
}

async fn give_back(hold: impl Into<Hold>, releases: bool) -> Result<()> {
    if !releases {
        return Ok(());
    }
    match hold.into().release().await {
        // The case compares records, not releases.
        Err(error) if error.lost_reason().is_none() => Err(error),
        _ => Ok(()),
    }
}
