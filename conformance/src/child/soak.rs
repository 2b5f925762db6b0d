use std::sync::Arc;
use std::time::Duration;

use latchwork_core::recipes::MultiLock;
use latchwork_core::{Claim, Config, Connector, Coordinator, Error, ErrorKind, Result, Token, connect};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::contested::Contested;
use super::role::{Orders, Role};
use crate::hold_record::{HoldRecord, monotonic};

/// Makes an overlap longer than microseconds.
const WORK: Duration = Duration::from_millis(1);
/// More holds would not find more.
const LONG_WORK: Duration = Duration::from_millis(5);
pub(crate) const AGAIN: Duration = Duration::from_millis(20);

/// Repeated holds of several tasks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Soak {
    /// The key.
    pub contested: Contested,
    /// Its tasks.
    pub tasks: usize,
    /// Seconds until it ends without an order.
    pub seconds: u64,
    /// The recipe.
    pub kind: SoakKind,
    /// Random pairs out of this many mutexes, by a `MultiLock`.
    pub pairs_of: Option<usize>,
    /// Whether it survives failures of servers.
    pub outlasts: bool,
}

/// The recipe of a soak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SoakKind {
    /// The adapter's mutex.
    #[default]
    Exclusive,
    /// A read/write lock: a fourth writes, and half of it downgrades.
    ReadWrite,
    /// Permits in all weights.
    Permits {
        /// The limit.
        limit: u32,
    },
}

impl Role for Soak {
    type Event = HoldRecord;

    const NAME: &'static str = "soak";

    async fn work(self, connectors: &[Arc<dyn Connector>], config: &Config) -> Result<()> {
        let (soak, coordinator) = (Arc::new(self), connect(connectors, config).await?);
        let (end, told) = (Instant::now() + Duration::from_secs(soak.seconds), CancellationToken::new());
        let tells = told.clone();
        tokio::spawn(async move {
            let _any = Orders::new().next().await;
            tells.cancel();
        });
        let tasks = (0..soak.tasks).map(|number| {
            let (soak, coordinator, told) = (Arc::clone(&soak), coordinator.clone(), told.clone());
            tokio::spawn(async move {
                let mut round = number;
                while Instant::now() < end && !told.is_cancelled() {
                    match soak.hold(&coordinator, round).await {
                        Err(error) if soak.outlasts && is_of_an_outage(&error) => sleep(AGAIN).await,
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
        match coordinator.close().await {
            // The lease removes the rest.
            Err(error) if soak.outlasts && is_of_an_outage(&error) => Ok(()),
            closed => closed,
        }
    }
}

impl Soak {
    async fn hold(&self, coordinator: &Coordinator, round: usize) -> Result<()> {
        if let Some(keys) = self.pairs_of {
            return hold_a_pair(coordinator, &self.contested.key, keys).await;
        }
        self.kind.hold(coordinator, &self.contested, round, self).await
    }
}

impl Work for Soak {
    async fn under(&self, held: OneHold<'_>) -> Result<()> {
        let from = monotonic();
        match (self.outlasts, self.kind) {
            (true, _) => sleep(LONG_WORK).await,
            (false, SoakKind::Exclusive) => tokio::task::yield_now().await,
            (false, _) => sleep(WORK).await,
        }
        let to = monotonic();
        held.hold.check()?;
        Self::say(&HoldRecord { key: 0, claim: held.claim, token: Some(held.token), from, to });
        Ok(())
    }
}

pub(crate) trait Work: Sync {
    fn under(&self, held: OneHold<'_>) -> impl Future<Output = Result<()>> + Send;
}

#[derive(Clone, Copy)]
pub(crate) struct OneHold<'a> {
    pub(crate) hold: &'a latchwork_core::Hold,
    pub(crate) claim: Claim,
    pub(crate) token: Token,
    pub(crate) asked: u64,
}

impl SoakKind {
    pub(crate) async fn hold(
        self,
        coordinator: &Coordinator,
        contested: &Contested,
        round: usize,
        work: &impl Work,
    ) -> Result<()> {
        let asked = monotonic();
        match self {
            Self::Exclusive => {
                let guard = contested.lock(coordinator)?.acquire().await?;
                work.under(OneHold { hold: &guard, claim: Claim::Exclusive, token: guard.token(), asked })
                    .await?;
                guard.release().await?;
            }
            Self::ReadWrite if round.is_multiple_of(4) => {
                let guard = coordinator.rwlock(contested.name())?.write().await?;
                work.under(OneHold { hold: &guard, claim: Claim::Exclusive, token: guard.token(), asked })
                    .await?;
                if round.is_multiple_of(8) {
                    let asked = monotonic();
                    let guard = guard.downgrade().await?;
                    work.under(OneHold { hold: &guard, claim: Claim::Shared, token: guard.place(), asked })
                        .await?;
                    guard.release().await?;
                } else {
                    guard.release().await?;
                }
            }
            Self::ReadWrite => {
                let guard = coordinator.rwlock(contested.name())?.read().await?;
                work.under(OneHold { hold: &guard, claim: Claim::Shared, token: guard.place(), asked })
                    .await?;
                guard.release().await?;
            }
            Self::Permits { limit } => {
                let weight = u32::try_from(round).map_or(1, |round| round % limit + 1);
                let permit = coordinator.semaphore(contested.name(), limit)?.acquire(weight).await?;
                let claim = Claim::Permits(weight);
                work.under(OneHold { hold: &permit, claim, token: permit.place(), asked }).await?;
                permit.release().await?;
            }
        }
        Ok(())
    }
}

pub(crate) fn is_of_an_outage(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unavailable | ErrorKind::OutcomeUnknown | ErrorKind::Timeout | ErrorKind::Lost(_)
    )
}

async fn hold_a_pair(coordinator: &Coordinator, prefix: &str, keys: usize) -> Result<()> {
    let pair = rand::seq::index::sample(&mut rand::rng(), keys, 2);
    let name = |key: usize| format!("{prefix}/{key}");
    let mutexes = pair.iter().map(|key| coordinator.mutex(name(key)));
    let guard = MultiLock::new(mutexes.collect::<Result<Vec<_>>>()?)?.acquire().await?;
    let from = monotonic();
    sleep(WORK).await;
    let to = monotonic();
    guard.check()?;
    for (key, token) in pair.iter().zip(guard.tokens()) {
        let claim = Claim::Exclusive;
        Soak::say(&HoldRecord { key, claim, token, from, to });
    }
    guard.release().await?;
    Ok(())
}
