//! A child that contends for all keys, without a pause, until an order to release.

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

/// The time of a hold; three times as long outside of the long tier. Grants of many processes use the processor, which other programs
/// need there.
const WORK: Duration = Duration::from_millis(5);

fn work() -> Duration {
    if is_long() { WORK } else { WORK * 3 }
}

/// The pause between two uncontended acquisitions: one starts at any time within a phase.
const OWN_PAUSE: Duration = Duration::from_millis(10);

/// The pause between two adds of one process.
const ADDS_PAUSE: Duration = Duration::from_millis(10);

/// The time between two checks of a hold.
const CHECKS: Duration = Duration::from_millis(2);

/// Contends for all keys of a load, by a task for each, for one key that no other process wants, and may add to a
/// counter.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Traffic {
    /// The number of the process in the load.
    pub(super) process: u32,
    /// Whether it adds to the counter. With a planted fault no process does: a process that changes values while they
    /// are copied delays that step for ever, and the verdict must find the fault in the holds.
    pub(super) adds: bool,
}

/// The reports of a process of a load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TrafficEvent {
    /// It is connected, and contends from now on.
    Begun,
    /// It holds from now on.
    Begins(Grant),
    /// It held to the end of its work.
    Granted(Grant),
    /// It held at least until this time, and has lost the hold.
    HeldUntil(Grant),
    /// It has added to the counter.
    Added(Added),
    /// An add may have been made or not.
    InDoubt {
        /// Why the outcome is unknown.
        why: String,
    },
    /// A request has failed, as it may while servers fail.
    Failed {
        /// How.
        why: String,
    },
}

impl Role for Traffic {
    type Event = TrafficEvent;

    const NAME: &'static str = "traffic";

    /// Contends until an order. Reports when each hold begins and ends, and each request that failed as it may while
    /// servers fail.
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
            // No task ends early without an error.
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
        // Readers and writers, and all weights, are there at any time.
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

/// The work under a hold of a key.
struct OfKey(usize);

impl Work for OfKey {
    async fn under(&self, held: OneHold<'_>) -> Result<()> {
        report(held, self.0, work()).await
    }
}

/// Adds to the counter of all processes, with a short pause between two adds.
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

/// Works under a hold, and reports its start and its certain time: to its end, or, for a lost hold, up to the last successful check. The
/// clock is read before each check, so the process certainly held at that time.
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
