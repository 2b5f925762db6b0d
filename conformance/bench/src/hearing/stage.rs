use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::task::JoinSet;

use crate::Result;
use crate::plan::Plan;
use crate::raw::cells::Hear;
use crate::stats::Timings;

/// Waits cannot be observed from outside, so the event comes this time after their start.
const SETTLE: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(20);

#[async_trait]
pub(super) trait Fire: Send {
    async fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    async fn fire(&mut self, round: u64) -> Result<()>;
}

pub(super) struct Cast {
    pub(super) peer: &'static str,
    pub(super) fire: Box<dyn Fire>,
    pub(super) hearers: Vec<Box<dyn Hear>>,
}

impl Cast {
    async fn round(&mut self, round: u64) -> Result<Duration> {
        self.fire.prepare().await?;
        let mut hearing = JoinSet::new();
        for mut hearer in self.hearers.drain(..) {
            hearing.spawn(async move {
                hearer.hear(round).await?;
                Result::Ok((Instant::now(), hearer))
            });
        }
        tokio::time::sleep(SETTLE).await;
        let fired = Instant::now();
        self.fire.fire(round).await?;
        let mut last = fired;
        let late = |_| format!("a waiter was not notified within {PATIENCE:?}");
        while let Some(heard) = tokio::time::timeout(PATIENCE, hearing.join_next()).await.map_err(late)? {
            let (heard, hearer) = heard??;
            last = last.max(heard);
            self.hearers.push(hearer);
        }
        Ok(last.duration_since(fired))
    }
}

/// Rounds are in turns, so that other load of the machine affects all casts.
pub(super) async fn play(casts: &mut [Cast], plan: &Plan) -> Result<Vec<(&'static str, Timings)>> {
    let mut timed: Vec<_> = casts.iter().map(|cast| (cast.peer, Timings::new())).collect();
    let in_all = u32::try_from(casts.len())?;
    let (started, mut round) = (Instant::now(), 0);
    let recorded = started + plan.warm * in_all;
    let end = recorded + plan.time * in_all;
    while Instant::now() < end || timed.iter().any(|(_, timings)| timings.count() == 0) {
        round += 1;
        for (cast, (_, timings)) in casts.iter_mut().zip(&mut timed) {
            let took = cast.round(round).await?;
            if Instant::now() >= recorded {
                timings.record(took);
            }
        }
    }
    Ok(timed)
}
