//! Only steps, there and back.

use std::sync::Arc;
use std::time::Duration;

use latchwork_core::Connector;
use latchwork_core::backend::decide::moving::MovePhase;
use rand::RngExt;
use tokio::time::{Instant, sleep};

use super::ends::Ends;
use super::operates::said;
use super::run::Run;
use super::side::MovingSide;
use crate::failover::{TTL, noise};

/// The connectors of an operator.
pub type Connectors = Vec<Arc<dyn Connector>>;

/// Planted faults, as a control: a run must find them.
#[derive(Clone, Copy, Debug)]
pub struct Plants {
    /// A fault of the processes, which get its name in [`PLANT`](super::PLANT).
    pub processes: Option<&'static str>,
    /// A wrapper of the operator's connectors.
    pub operator: fn(Connectors) -> Connectors,
    /// The longest pause between two steps.
    pub pause: Duration,
}

impl Plants {
    /// No fault.
    pub const NONE: Self =
        Self { processes: None, operator: |honest| honest, pause: Duration::from_millis(500) };
}

/// Lets eight processes contend while a loop moves their locks from the old side to the new one and back, for `lasts` or somewhat
/// longer. One step in five turns back half-way. Prints the observations of each key, with its bound.
///
/// # Errors
/// The broken rules: see [the module](super).
pub async fn there_and_back(
    old: MovingSide,
    new: MovingSide,
    lasts: Duration,
    plants: Plants,
) -> Result<(), String> {
    let mut run = Run::begin(old, new, plants.processes, plants.operator).await?;
    // A run that never reached the new side has no meaning.
    let (ends, mut back, mut was_there) = (Instant::now() + lasts, false, false);
    loop {
        let phase = run.walk.step(back).await.map_err(said)?;
        was_there |= phase >= Some(MovePhase::New);
        let is_over = was_there && Instant::now() > ends;
        back = match phase {
            None if is_over => break,
            None => false,
            Some(MovePhase::Old) => is_over,
            // A move cannot turn back from *done*.
            Some(MovePhase::New | MovePhase::Done) => true,
            Some(_) if is_over => true,
            Some(_) => back ^ run.random.random_bool(0.2),
        };
        // Random pauses, so that not all steps start at the end of the one before.
        sleep(run.random.random_range(Duration::ZERO..=plants.pause)).await;
    }
    run.fleet.all_are_granted(TTL + noise()).await?;
    run.end(Ends::default()).await
}
