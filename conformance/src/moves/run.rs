use std::sync::Arc;
use std::time::Duration;

use latchwork_core::{Connector, ErrorKind, Move};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::time::{Instant, sleep};

use super::dying_operator::killed_at_finish;
use super::ends::Ends;
use super::fleet::Fleet;
use super::operates::{another, said};
use super::side::{MovingSide, Sides};
use super::verdict::{Happening, Verdict};
use super::walk::{AGAIN, Walk};
use crate::bounds::PATIENCE;
use crate::context::SEED;
use crate::failover::noise;

pub(super) struct Run {
    pub(super) sides: Sides,
    pub(super) fleet: Fleet,
    pub(super) walk: Walk,
    pub(super) random: StdRng,
    pub(super) happenings: Vec<Happening>,
}

impl Run {
    pub(super) async fn begin(
        old: MovingSide,
        new: MovingSide,
        plant: Option<&'static str>,
        operator: impl FnOnce(Vec<Arc<dyn Connector>>) -> Vec<Arc<dyn Connector>>,
    ) -> Result<Self, String> {
        let sides = Sides::open(old, new).await?;
        let seed = match std::env::var(SEED) {
            Ok(seed) => seed
                .parse()
                .map_err(|_| format!("{SEED}={seed:?} is not a number: use the value that a run printed"))?,
            Err(_) => rand::random(),
        };
        println!("{}: {SEED}={seed}", sides.name());
        let fleet = Fleet::start(sides.participants(), plant).await;
        let operator = Move::connect(&operator(sides.connectors()), &sides.operators()).await;
        let walk = Walk { operator: operator.map_err(said)?, changes: Vec::new() };
        let run = Self { sides, fleet, walk, random: StdRng::seed_from_u64(seed), happenings: Vec::new() };
        run.fleet.all_are_granted(PATIENCE).await?;
        Ok(run)
    }

    pub(super) async fn end(self, ends: Ends) -> Result<(), String> {
        let Self { sides, fleet, walk: Walk { mut operator, changes }, happenings, mut random } = self;
        let name = sides.name();
        let heard = fleet.ends().await;
        let members = operator.status().await.map_err(said)?.members;
        let away = happenings.iter().map(|of| of.allowed).max().unwrap_or_default();
        let steps = changes.iter().map(|change| Happening::of(change, away));
        let happenings: Vec<_> = happenings.iter().cloned().chain(steps).collect();
        let away = if ends.servers_fail { away } else { Duration::ZERO };
        let verdict =
            Verdict { name: &name, heard: &heard, changes: &changes, happenings: &happenings, away };
        verdict.judge()?;
        // A killed process is a member until its lease has ended.
        if members > 0 && !ends.some_die {
            return Err(format!("{name}: {members} members are left, although their processes have closed"));
        }
        if ends.finishes && ends.operators_die {
            // The doors count only operators that are killed.
            operator.close().await.map_err(said)?;
            killed_at_finish(&sides, &mut random).await?;
            operator = another(&sides).await?;
        }
        if ends.finishes {
            finish(&operator, sides.old.recovery() + noise()).await?;
        }
        // After an abort each side keeps its data.
        let side = if ends.finishes { &sides.new } else { &sides.old };
        let counted = heard.adds.judge(side.takes_count().await?).map_err(|broken| broken.why)?;
        println!("{name}: {counted}");
        operator.close().await.map_err(said)?;
        sides.nothing_is_left(ends).await
    }
}

/// Killed processes are listed for a time. Another operator may have finished it.
async fn finish(operator: &Move, within: Duration) -> Result<(), String> {
    let until = Instant::now() + within;
    loop {
        match operator.finish().await {
            Err(error) if error.kind() == ErrorKind::Conflict && Instant::now() < until => sleep(AGAIN).await,
            finished => return finished.map_err(said),
        }
    }
}
