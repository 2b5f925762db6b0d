//! Processes that contend while their locks move between two coordinators, there and back.

use std::sync::Arc;
use std::time::Duration;

use latchwork_core::decide::moving::MovePhase;
use latchwork_core::{Config, Connector, Move, MoveConfig};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep};

use crate::failover::{Failover, TTL, now, under_load};
use crate::testbed::{Testbed, left_at};
use crate::testbeds::ServerTestbed;

/// The name of the move.
const NAME: &str = "there-and-back";

/// Eight processes contend for a mutex, a read/write lock and permits of the old testbed's namespace,
/// while a loop moves them to the new one and back, for so long or somewhat more. Prints each step's
/// length, and the longest time without a grant.
///
/// # Errors
/// What was wrong: an overlap, a token that goes back, a time without a grant above its bound, something
/// left behind on either side.
pub fn there_and_back(
    old: ServerTestbed,
    new: ServerTestbed,
    runtime: &Runtime,
    lasts: Duration,
    seed: u64,
) -> Result<(), String> {
    let connectors: Vec<_> = old.connectors().into_iter().chain(new.connectors()).collect();
    let fixture = runtime.block_on(new.fixture()).map_err(|error| error.to_string())?;
    let mut to = fixture.process_config().ok_or("the new side has no processes")?;
    to.ttl = TTL;
    let reaches = |from| Config::of_move(MoveConfig::new(from, to, NAME));
    let moves = |config: Config| {
        let sides = config.moving.expect("made above");
        async move { moves(&connectors, &sides, lasts, seed).await.expect("it moves") }
    };
    under_load(old, runtime, lasts, false, reaches, moves)?;
    // What a process left that was killed goes within a TTL.
    let left = runtime.block_on(left_at(&*fixture, TTL + fixture.expiry_bound()));
    let left = left.map_err(|error| error.to_string())?;
    if left.is_empty() { Ok(()) } else { Err(format!("left on the new side: {left:?}")) }
}

/// Moves there and back, until the time is over and it is at its beginning again. One step in five turns
/// back half-way.
async fn moves(
    connectors: &[Arc<dyn Connector>],
    sides: &MoveConfig,
    lasts: Duration,
    seed: u64,
) -> latchwork_core::Result<Vec<Failover>> {
    let mut random = StdRng::seed_from_u64(seed);
    let operator = Move::connect(connectors, sides).await?;
    let (ends, mut steps, mut back) = (Instant::now() + lasts, Vec::new(), false);
    loop {
        let killed = now();
        let phase = match back {
            false => Some(operator.advance(|_| {}).await?),
            true => operator.step_back(|_| {}).await?,
        };
        let what = if back { "a step back" } else { "a step forward" };
        steps.push(Failover { what, killed, replaced: now() });
        back = match phase {
            None | Some(MovePhase::Old) if Instant::now() > ends => break,
            None | Some(MovePhase::Old) => false,
            // From *done* there is no way back.
            Some(MovePhase::New | MovePhase::Done) => true,
            Some(_) if Instant::now() > ends => true,
            Some(_) => back ^ random.random_bool(0.2),
        };
        sleep(Duration::from_millis(random.random_range(0..500))).await;
    }
    operator.abort(|_| {}).await?;
    operator.close().await?;
    Ok(steps)
}
