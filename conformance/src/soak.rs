//! A client process that holds again and again, by many tasks, and tells of each time that it held.

use std::time::Duration;

use latchwork_core::decide::Claim;
use latchwork_core::{Coordinator, Hold, Result, Token};
use tokio::time::Instant;

use crate::order::{Event, Order, Soak, SoakKind, say};
use crate::stint::{Stint, monotonic};

/// Who reads, writes or has permits does so for this long, so that an overlap is no matter of microseconds.
const WORK: Duration = Duration::from_millis(1);

impl Soak {
    pub(crate) async fn contend(self, coordinator: &Coordinator, order: &Order) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(self.seconds);
        let tasks = (0..self.tasks).map(|number| {
            let (coordinator, order) = (coordinator.clone(), order.clone());
            tokio::spawn(async move {
                let mut round = number;
                while Instant::now() < end {
                    self.hold(&coordinator, &order, round).await?;
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

    async fn hold(self, coordinator: &Coordinator, order: &Order, round: usize) -> Result<()> {
        match self.kind {
            SoakKind::Exclusive => {
                let guard = order.lock(coordinator)?.acquire().await?;
                tell(&**guard, Claim::Exclusive, guard.token(), tokio::task::yield_now()).await?;
                let _ = guard.release().await?;
            }
            SoakKind::ReadWrite if round.is_multiple_of(4) => {
                let guard = coordinator.rwlock(order.name())?.write().await?;
                tell(&guard, Claim::Exclusive, guard.token(), tokio::time::sleep(WORK)).await?;
                if round.is_multiple_of(8) {
                    let guard = guard.downgrade().await?;
                    tell(&guard, Claim::Shared, guard.token(), tokio::time::sleep(WORK)).await?;
                    let _ = guard.release().await?;
                } else {
                    let _ = guard.release().await?;
                }
            }
            SoakKind::ReadWrite => {
                let guard = coordinator.rwlock(order.name())?.read().await?;
                tell(&guard, Claim::Shared, guard.token(), tokio::time::sleep(WORK)).await?;
                let _ = guard.release().await?;
            }
            SoakKind::Permits { limit } => {
                let weight = u32::try_from(round).map_or(1, |round| round % limit + 1);
                let permit = coordinator.semaphore(order.name(), limit)?.acquire(weight).await?;
                tell(&permit, Claim::Permits(weight), permit.token(), tokio::time::sleep(WORK)).await?;
                let _ = permit.release().await?;
            }
        }
        Ok(())
    }
}

/// Works under a hold, and tells for how long it held: only if it did to the end.
async fn tell(hold: &dyn Hold, claim: Claim, token: Token, work: impl Future<Output = ()>) -> Result<()> {
    let from = monotonic();
    work.await;
    let to = monotonic();
    hold.check()?;
    say(&Event::Stint(Stint { claim, token: Some(token), from, to }));
    Ok(())
}
