//! Rounds of one who fires and many who hear.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::task::JoinSet;

use crate::Result;
use crate::plan::Plan;
use crate::raw::cells::Hear;
use crate::stats::Timings;

/// From the moment when all were asked to wait until what they wait for is fired. That one waits
/// cannot be seen from outside.
const SETTLE: Duration = Duration::from_millis(20);
/// How long one may take to hear.
const PATIENCE: Duration = Duration::from_secs(20);

/// The one who fires.
#[async_trait]
pub(super) trait Fire: Send {
    /// Makes ready for another round, before anybody waits for it.
    async fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    async fn fire(&mut self, round: u64) -> Result<()>;
}

/// One who fires, and those who hear.
pub(super) struct Cast {
    pub(super) peer: &'static str,
    pub(super) fire: Box<dyn Fire>,
    pub(super) hearers: Vec<Box<dyn Hear>>,
}

impl Cast {
    /// From the call that fires until the last has heard.
    async fn round(&mut self, round: u64) -> Result<Duration> {
        self.fire.prepare().await?;
        // They end with this round.
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
        let late = |_| format!("one has not heard within {PATIENCE:?}");
        while let Some(heard) = tokio::time::timeout(PATIENCE, hearing.join_next()).await.map_err(late)? {
            let (heard, hearer) = heard??;
            last = last.max(heard);
            self.hearers.push(hearer);
        }
        Ok(last.duration_since(fired))
    }
}

/// Rounds of each in turns, so that what else the machine does falls on all of them.
pub(super) async fn play(casts: &mut [Cast], plan: &Plan) -> Result<Vec<(&'static str, Timings)>> {
    let mut timed: Vec<_> = casts.iter().map(|cast| (cast.peer, Timings::new())).collect();
    let in_all = u32::try_from(casts.len())?;
    let (started, mut round) = (Instant::now(), 0);
    let recorded = started + plan.warm * in_all;
    let end = recorded + plan.time * in_all;
    // One of each at least.
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
