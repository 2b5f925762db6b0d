//! A client process that holds again and again, by many tasks, and reports each time that it held.

use std::time::Duration;

use latchwork_core::decide::Claim;
use latchwork_core::recipes::MultiLock;
use latchwork_core::{Coordinator, Error, ErrorKind, Hold, Result, Token};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::hold_record::{HoldRecord, monotonic};
use crate::order::{Event, Order, Soak, SoakKind, say};

/// How long each hold lasts, so that an overlap is no matter of microseconds.
const WORK: Duration = Duration::from_millis(1);
/// As long as that where servers fail beside it: more holds would say no more.
const LONG_WORK: Duration = Duration::from_millis(5);
/// The pause after a request that failed.
pub(crate) const AGAIN: Duration = Duration::from_millis(20);

impl Soak {
    pub(crate) async fn contend(self, coordinator: &Coordinator, order: &Order) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(self.seconds);
        let told = CancellationToken::new();
        if self.outlasts {
            let told = told.clone();
            tokio::spawn(async move {
                let _line = BufReader::new(stdin()).lines().next_line().await;
                told.cancel();
            });
        }
        let tasks = (0..self.tasks).map(|number| {
            let (coordinator, order, told) = (coordinator.clone(), order.clone(), told.clone());
            tokio::spawn(async move {
                let mut round = number;
                while Instant::now() < end && !told.is_cancelled() {
                    match self.hold(&coordinator, &order, round).await {
                        Err(error) if self.outlasts && is_of_an_outage(&error) => sleep(AGAIN).await,
                        answer => answer?,
                    }
                    round += 1;
                }
                Result::Ok(())
            })
        });
        for ended in futures_util::future::join_all(tasks).await {
            ended.expect("no panic")?;
        }
        Ok(())
    }

    async fn work(self) {
        match (self.outlasts, self.kind) {
            (true, _) => sleep(LONG_WORK).await,
            (false, SoakKind::Exclusive) => tokio::task::yield_now().await,
            (false, _) => sleep(WORK).await,
        }
    }

    async fn hold(self, coordinator: &Coordinator, order: &Order, round: usize) -> Result<()> {
        if let Some(keys) = self.pairs_of {
            return hold_a_pair(coordinator, order, keys).await;
        }
        match self.kind {
            SoakKind::Exclusive => {
                let guard = order.lock(coordinator)?.acquire().await?;
                report(&guard, Claim::Exclusive, guard.token(), self.work()).await?;
                guard.release().await?;
            }
            SoakKind::ReadWrite if round.is_multiple_of(4) => {
                let guard = coordinator.rwlock(order.name())?.write().await?;
                report(&guard, Claim::Exclusive, guard.token(), self.work()).await?;
                if round.is_multiple_of(8) {
                    let guard = guard.downgrade().await?;
                    report(&guard, Claim::Shared, guard.place(), self.work()).await?;
                    guard.release().await?;
                } else {
                    guard.release().await?;
                }
            }
            SoakKind::ReadWrite => {
                let guard = coordinator.rwlock(order.name())?.read().await?;
                report(&guard, Claim::Shared, guard.place(), self.work()).await?;
                guard.release().await?;
            }
            SoakKind::Permits { limit } => {
                let weight = u32::try_from(round).map_or(1, |round| round % limit + 1);
                let permit = coordinator.semaphore(order.name(), limit)?.acquire(weight).await?;
                report(&permit, Claim::Permits(weight), permit.place(), self.work()).await?;
                permit.release().await?;
            }
        }
        Ok(())
    }
}

/// Whether a request may answer this while servers fail.
pub(crate) fn is_of_an_outage(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unavailable | ErrorKind::OutcomeUnknown | ErrorKind::Timeout | ErrorKind::Lost(_)
    )
}

/// Holds two of the keys as one, in the order in which chance gives them.
async fn hold_a_pair(coordinator: &Coordinator, order: &Order, keys: usize) -> Result<()> {
    let pair = rand::seq::index::sample(&mut rand::rng(), keys, 2);
    let name = |key: usize| format!("{}/{key}", order.key);
    let mutexes = pair.iter().map(|key| coordinator.mutex(name(key)));
    let guard = MultiLock::new(mutexes.collect::<Result<Vec<_>>>()?)?.acquire().await?;
    let from = monotonic();
    sleep(WORK).await;
    let to = monotonic();
    guard.check()?;
    for (key, token) in pair.iter().zip(guard.tokens()) {
        let claim = Claim::Exclusive;
        say(&Event::HoldRecord(HoldRecord { key, claim, token, from, to }));
    }
    guard.release().await?;
    Ok(())
}

/// Works under a hold, and reports for how long it held: only if it did to the end.
pub(crate) async fn report(
    hold: &Hold,
    claim: Claim,
    token: Token,
    work: impl Future<Output = ()>,
) -> Result<()> {
    let from = monotonic();
    work.await;
    let to = monotonic();
    hold.check()?;
    say(&Event::HoldRecord(HoldRecord { key: 0, claim, token: Some(token), from, to }));
    Ok(())
}
