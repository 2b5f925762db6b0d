use std::sync::Arc;

use futures_util::FutureExt;
use latchwork_core::{Clock, Config, Connector, Ended, LostReason, Result, Token, connect};
use serde::{Deserialize, Serialize};

use super::contested::Contested;
use super::role::{Order, Orders, Role};
use crate::exclusive::Guard;

/// Takes a lock and obeys orders, also as `latchwork-conformance hold`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hold {
    /// The lock.
    pub contested: Contested,
    /// With this data it leads the key's election instead.
    pub leads_as: Option<String>,
    /// Whether it reports a loss at once. The suite orders a look instead, the first action of a child that was stopped.
    pub reports_loss: bool,
}

/// The reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum HoldEvent {
    /// It holds.
    Held {
        /// The token.
        token: Token,
        /// Milliseconds until the hold.
        waited_ms: u64,
    },
    /// The ordered look.
    Looked {
        /// `is_held()`.
        is_held: bool,
        /// Why `check()` failed.
        check: Option<String>,
        /// `lost()` at its first poll.
        lost_at_first_poll: bool,
    },
    /// It lost the hold.
    Lost {
        /// The reason.
        reason: LostReason,
    },
    /// It released and closed.
    Released,
}

impl Hold {
    pub(crate) fn of(contested: Contested) -> Self {
        Self { contested, leads_as: None, reports_loss: false }
    }
}

impl Role for Hold {
    type Event = HoldEvent;

    const NAME: &'static str = "hold";

    async fn work(self, connectors: &[Arc<dyn Connector>], config: &Config) -> Result<()> {
        let coordinator = connect(connectors, config).await?;
        let clock = Clock::system();
        let asked = clock.now();
        let guard = match &self.leads_as {
            Some(data) => {
                let election = coordinator.election(self.contested.name())?;
                election.campaign(data.as_bytes()).await.map(Guard::fenced)
            }
            None => self.contested.lock(&coordinator)?.acquire().await,
        }?;
        let waited_ms = u64::try_from(clock.now().since(asked).as_millis()).unwrap_or(u64::MAX);
        Self::say(&HoldEvent::Held { token: guard.token(), waited_ms });
        obey(&guard, self.reports_loss).await;
        match guard.release().await {
            Err(error) if error.lost_reason().is_none() => return Err(error),
            _ => {}
        }
        coordinator.close().await?;
        Self::say(&HoldEvent::Released);
        Ok(())
    }
}

async fn obey(guard: &Guard, reports_loss: bool) {
    let (mut orders, mut lost) = (Orders::new(), reports_loss.then(|| guard.lost()));
    loop {
        let watching = async {
            match &mut lost {
                Some(lost) => lost.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            order = orders.next() => match order {
                Order::Look => Hold::say(&look(guard)),
                Order::Release => return,
            },
            loss = watching => {
                lost = None;
                if let Ended::Lost(reason) = loss {
                    Hold::say(&HoldEvent::Lost { reason });
                }
            }
        }
    }
}

fn look(guard: &Guard) -> HoldEvent {
    let is_held = guard.is_held();
    let check = guard.check().err().map(|error| match error.lost_reason() {
        Some(LostReason::Expired) => "expired".to_owned(),
        _ => error.to_string(),
    });
    HoldEvent::Looked { is_held, check, lost_at_first_poll: guard.lost().now_or_never().is_some() }
}
