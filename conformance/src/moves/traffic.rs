use std::sync::Arc;
use std::time::Duration;

use latchwork_core::{Claim, Config, Connector, Coordinator, ErrorKind, Result, connect};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::counted::{Added, COUNTER};
use super::grant::Grant;
use super::keys::{KEYS, OWN, own};
use crate::adapter::Adapter;
use crate::cases::is_long;
use crate::child::{AGAIN, Contested, OneHold, Orders, Role, Work, is_of_an_outage};
use crate::hold_record::{HoldRecord, monotonic};

/// Other programs need the processor outside of the long tier.
const WORK: Duration = Duration::from_millis(5);

fn work() -> Duration {
    if is_long() { WORK } else { WORK * 3 }
}

/// An acquisition starts anywhere in a phase.
const OWN_PAUSE: Duration = Duration::from_millis(10);

const ADDS_PAUSE: Duration = Duration::from_millis(10);

const CHECKS: Duration = Duration::from_millis(2);

/// A task contends for each key, and for one that no other process wants.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Traffic {
    pub(super) process: u32,
    /// Not with a planted fault, which the verdict must find in the holds: values that change during a copy
    /// delay a step for ever.
    pub(super) adds: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TrafficEvent {
    Begun,
    Begins(Grant),
    /// It held to the end of its work.
    Granted(Grant),
    /// It held until a loss.
    HeldUntil(Grant),
    Added(Added),
    InDoubt {
        why: String,
    },
    Failed {
        why: String,
    },
}

impl Role for Traffic {
    type Event = TrafficEvent;

    const NAME: &'static str = "traffic";

    async fn work(self, connectors: &[Arc<dyn Connector>], config: &Config) -> Result<()> {
        let coordinator = connect(connectors, config).await?;
        let (stops, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for key in 0..=KEYS.len() {
            tasks.spawn(self.task(coordinator.clone(), key, stopped.clone()));
        }
        if self.adds {
            tasks.spawn(adds(coordinator.clone(), stopped));
        }
        Self::say(&TrafficEvent::Begun);
        let mut orders = Orders::new();
        tokio::select! {
            _any = orders.next() => {}
            Some(ended) = tasks.join_next() => ended.expect("no panic")?,
        }
        stops.send_replace(true);
        while let Some(ended) = tasks.join_next().await {
            ended.expect("no panic")?;
        }
        coordinator.close().await
    }
}

impl Traffic {
    async fn task(self, coordinator: Coordinator, key: usize, stopped: watch::Receiver<bool>) -> Result<()> {
        // All weights occur at any time.
        let mut round = self.process as usize;
        while !*stopped.borrow() {
            let held = match KEYS.get(key) {
                Some((name, kind)) => {
                    let contested = Contested::new(*name, Adapter::Mutex);
                    kind.hold(&coordinator, &contested, round, &OfKey(key)).await
                }
                None => self.hold_own(&coordinator).await,
            };
            match held {
                Err(error) if is_of_an_outage(&error) => {
                    Self::say(&TrafficEvent::Failed { why: error.to_string() });
                    sleep(AGAIN).await;
                }
                answer => answer?,
            }
            round = round.wrapping_add(1);
        }
        Ok(())
    }

    async fn hold_own(self, coordinator: &Coordinator) -> Result<()> {
        let asked = monotonic();
        let guard = coordinator.mutex(own(self.process))?.acquire().await?;
        let held = OneHold { hold: &guard, claim: Claim::Exclusive, token: guard.token(), asked };
        report(held, OWN, Duration::ZERO).await?;
        guard.release().await?;
        sleep(OWN_PAUSE).await;
        Ok(())
    }
}

struct OfKey(usize);

impl Work for OfKey {
    async fn under(&self, held: OneHold<'_>) -> Result<()> {
        report(held, self.0, work()).await
    }
}

async fn adds(coordinator: Coordinator, stopped: watch::Receiver<bool>) -> Result<()> {
    let counter = coordinator.counter(COUNTER)?;
    while !*stopped.borrow() {
        let asked = monotonic();
        match counter.add(1).await {
            Ok(number) => Traffic::say(&TrafficEvent::Added(Added { asked, at: monotonic(), number })),
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {
                Traffic::say(&TrafficEvent::InDoubt { why: error.to_string() });
            }
            Err(error) if is_of_an_outage(&error) => {
                Traffic::say(&TrafficEvent::Failed { why: error.to_string() })
            }
            Err(error) => return Err(error),
        }
        sleep(ADDS_PAUSE).await;
    }
    Ok(())
}

/// The clock is read before each check, so the hold is certain.
async fn report(held: OneHold<'_>, key: usize, works: Duration) -> Result<()> {
    let OneHold { hold, claim, token, asked } = held;
    let from = monotonic();
    hold.check()?;
    let grant = |to| Grant { asked, held: HoldRecord { key, claim, token: Some(token), from, to } };
    Traffic::say(&TrafficEvent::Begins(grant(from)));
    let ends = Instant::now() + works;
    let mut to = from;
    loop {
        let left = ends.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        sleep(left.min(CHECKS)).await;
        let at = monotonic();
        if let Err(lost) = hold.check() {
            Traffic::say(&TrafficEvent::HeldUntil(grant(to)));
            return Err(lost);
        }
        to = at;
    }
    Traffic::say(&TrafficEvent::Granted(grant(to)));
    Ok(())
}
