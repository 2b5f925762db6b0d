//! A client process that contends for all keys, without a pause, until it is told to release.

use std::time::Duration;

use latchwork_core::decide::Claim;
use latchwork_core::{Coordinator, ErrorKind, Hold, Result, Token};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::counted::{Added, COUNTER};
use super::grant::Grant;
use super::keys::{KEYS, OWN, own};
use crate::cases::is_long;
use crate::hold_record::{HoldRecord, monotonic};
use crate::order::{Event, SoakKind, say};
use crate::soak::{AGAIN, is_of_an_outage};

/// How long a hold lasts; outside of the long tier three times as long. The grants of many processes use the
/// processor, which other programs are to have there.
const WORK: Duration = Duration::from_millis(5);

fn work() -> Duration {
    if is_long() { WORK } else { WORK * 3 }
}

/// Between two acquisitions of what nobody else wants: one begins at any time within a phase.
const OWN_PAUSE: Duration = Duration::from_millis(10);

/// Between two adds of one process.
const ADDS_PAUSE: Duration = Duration::from_millis(10);

/// How often a hold is checked while it lasts.
const CHECKS: Duration = Duration::from_millis(2);

/// Contends for all keys of a load, by a task for each, for one key that nobody else wants, and may add to a counter.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Traffic {
    /// Its number among the processes of the load.
    pub process: u32,
    /// Whether it adds to the counter. Beside a planted fault nobody does: one that changes values while they are
    /// copied keeps that step from ever being taken, and what is planted is to be found in the holds.
    pub adds: bool,
}

impl Traffic {
    /// Contends until a line comes, or the end of the input. Says when each hold begins and ends, and each
    /// request that failed as it may while servers fail.
    pub(crate) async fn contend(self, coordinator: &Coordinator) -> Result<()> {
        let (stops, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for key in 0..=KEYS.len() {
            tasks.spawn(self.task(coordinator.clone(), key, stopped.clone()));
        }
        if self.adds {
            tasks.spawn(adds(coordinator.clone(), stopped));
        }
        say(&Event::Begun);
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        tokio::select! {
            // An end of the input is an order too.
            _ = lines.next_line() => {}
            // None ends by itself.
            Some(ended) = tasks.join_next() => ended.expect("no panic")?,
        }
        stops.send_replace(true);
        while let Some(ended) = tasks.join_next().await {
            ended.expect("no panic")?;
        }
        Ok(())
    }

    async fn task(self, coordinator: Coordinator, key: usize, stopped: watch::Receiver<bool>) -> Result<()> {
        // Readers and writers, and all weights, are there at any time.
        let mut round = self.process;
        while !*stopped.borrow() {
            let held = match KEYS.get(key) {
                Some((name, kind)) => hold(&coordinator, key, name, *kind, round).await,
                None => self.hold_own(&coordinator).await,
            };
            match held {
                Err(error) if is_of_an_outage(&error) => {
                    say(&Event::Failed { why: error.to_string() });
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
        report(&guard, asked, OWN, Claim::Exclusive, guard.token(), Duration::ZERO).await?;
        guard.release().await?;
        sleep(OWN_PAUSE).await;
        Ok(())
    }
}

/// Adds to the counter of all processes, without a pause but what there is between two holds.
async fn adds(coordinator: Coordinator, stopped: watch::Receiver<bool>) -> Result<()> {
    let counter = coordinator.counter(COUNTER)?;
    while !*stopped.borrow() {
        let asked = monotonic();
        match counter.add(1).await {
            Ok(number) => say(&Event::Added(Added { asked, at: monotonic(), number })),
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {
                say(&Event::InDoubt { why: error.to_string() });
            }
            Err(error) if is_of_an_outage(&error) => say(&Event::Failed { why: error.to_string() }),
            Err(error) => return Err(error),
        }
        sleep(ADDS_PAUSE).await;
    }
    Ok(())
}

async fn hold(coordinator: &Coordinator, key: usize, name: &str, kind: SoakKind, round: u32) -> Result<()> {
    let asked = monotonic();
    match kind {
        SoakKind::Exclusive => {
            let guard = coordinator.mutex(name)?.acquire().await?;
            report(&guard, asked, key, Claim::Exclusive, guard.token(), work()).await?;
            guard.release().await?;
        }
        SoakKind::ReadWrite if round.is_multiple_of(4) => {
            let guard = coordinator.rwlock(name)?.write().await?;
            report(&guard, asked, key, Claim::Exclusive, guard.token(), work()).await?;
            if round.is_multiple_of(8) {
                let asked = monotonic();
                let guard = guard.downgrade().await?;
                report(&guard, asked, key, Claim::Shared, guard.place(), work()).await?;
                guard.release().await?;
            } else {
                guard.release().await?;
            }
        }
        SoakKind::ReadWrite => {
            let guard = coordinator.rwlock(name)?.read().await?;
            report(&guard, asked, key, Claim::Shared, guard.place(), work()).await?;
            guard.release().await?;
        }
        SoakKind::Permits { limit } => {
            let weight = 1 + round % limit;
            let permit = coordinator.semaphore(name, limit)?.acquire(weight).await?;
            report(&permit, asked, key, Claim::Permits(weight), permit.place(), work()).await?;
            permit.release().await?;
        }
    }
    Ok(())
}

/// Works under a hold, and says when it begins and for how long it held: to its end, or, where it is lost, up
/// to the last time at which it believed so. The clock is read before each check, so it certainly held then.
async fn report(
    hold: &Hold,
    asked: u64,
    key: usize,
    claim: Claim,
    token: Token,
    works: Duration,
) -> Result<()> {
    let from = monotonic();
    hold.check()?;
    let grant = |to| Grant { asked, held: HoldRecord { key, claim, token: Some(token), from, to } };
    say(&Event::Begins(grant(from)));
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
            say(&Event::HeldUntil(grant(to)));
            return Err(lost);
        }
        to = at;
    }
    say(&Event::Granted(grant(to)));
    Ok(())
}
