use std::time::Instant;

use latchwork_core::Owner;

use crate::Result;
use crate::line::Line;
use crate::plan::Plan;
use crate::requests::Counted;
use crate::stats::Timings;
use crate::target::Target;

/// One re-entry is too short to be timed.
const TURN: u32 = 1000;

pub(super) async fn measure(target: &Target, plan: &Plan) -> Result<Vec<Line>> {
    const PEER: &str = "latchwork-reentrant";
    let client = target.open().await?;
    let (mutex, owner) = (client.mutex("reentry")?, Owner::new("bench"));
    let first = mutex.acquire().by(&owner).await?;
    let (mut timings, mut before) = (Timings::new(), None);
    let started = Instant::now();
    while started.elapsed() < plan.warm + plan.time || timings.count() == 0 {
        if before.is_none() && started.elapsed() >= plan.warm {
            before = Some(target.counter().read().await?);
        }
        let turn = Instant::now();
        for _ in 0..TURN {
            let again = mutex.acquire().by(&owner).await?;
            again.release().await?;
        }
        if before.is_some() {
            timings.record(turn.elapsed() / TURN);
        }
    }
    let after = target.counter().read().await?;
    first.release().await?;
    client.close().await?;
    let line = |measure, unit| Line::new(target.name(), PEER, measure, "held", unit);
    let timed = line("REENTRY", "us").timed(&timings);
    let n = timings.count() * u64::from(TURN);
    let asked =
        Counted::per_acquisition(line("M4", "server requests/acquisition"), before.flatten(), after, n);
    Ok([Line { n: Some(n), ..timed }].into_iter().chain(asked).collect())
}
