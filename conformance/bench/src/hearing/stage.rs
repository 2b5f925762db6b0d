//! Rounds of one who fires and many who hear.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

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

/// One who fires, and those who hear. They end with it.
pub(super) struct Cast {
    peer: &'static str,
    fire: Box<dyn Fire>,
    rounds: Vec<mpsc::UnboundedSender<u64>>,
    heard: mpsc::UnboundedReceiver<Result<Instant>>,
    tasks: Vec<AbortHandle>,
}

impl Cast {
    pub(super) fn new(peer: &'static str, fire: Box<dyn Fire>, hearers: Vec<Box<dyn Hear>>) -> Self {
        let (tell, heard) = mpsc::unbounded_channel();
        let (mut rounds, mut tasks) = (Vec::new(), Vec::new());
        for mut hearer in hearers {
            let (round, mut asked) = mpsc::unbounded_channel();
            let tell = tell.clone();
            rounds.push(round);
            let task = tokio::spawn(async move {
                while let Some(round) = asked.recv().await {
                    let heard = hearer.hear(round).await.map(|()| Instant::now());
                    if tell.send(heard).is_err() {
                        return;
                    }
                }
            });
            tasks.push(task.abort_handle());
        }
        Self { peer, fire, rounds, heard, tasks }
    }

    /// From the call that fires until the last has heard.
    async fn round(&mut self, round: u64) -> Result<Duration> {
        self.fire.prepare().await?;
        for asked in &self.rounds {
            asked.send(round)?;
        }
        tokio::time::sleep(SETTLE).await;
        let fired = Instant::now();
        self.fire.fire(round).await?;
        let mut last = fired;
        for _ in &self.rounds {
            let heard = tokio::time::timeout(PATIENCE, self.heard.recv()).await;
            let heard = heard.map_err(|_| format!("one has not heard within {PATIENCE:?}"))?;
            last = last.max(heard.ok_or("those who hear have ended")??);
        }
        Ok(last.duration_since(fired))
    }
}

impl Drop for Cast {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
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
