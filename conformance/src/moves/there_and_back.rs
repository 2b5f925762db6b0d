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

/// Connectors.
pub type Connectors = Vec<Arc<dyn Connector>>;

/// Planted faults, which a run must find.
#[derive(Clone, Copy, Debug)]
pub struct Plants {
    /// The fault in [`PLANT`](super::PLANT).
    pub processes: Option<&'static str>,
    /// Wraps the operator's connectors.
    pub operator: fn(Connectors) -> Connectors,
    /// The longest pause of steps.
    pub pause: Duration,
}

impl Plants {
    /// None.
    pub const NONE: Self =
        Self { processes: None, operator: |honest| honest, pause: Duration::from_millis(500) };
}

/// Lets eight processes contend while their locks move there and back, for about `lasts`. One step in five turns back.
///
/// # Errors
/// [Broken rules](super).
pub async fn there_and_back(
    old: MovingSide,
    new: MovingSide,
    lasts: Duration,
    plants: Plants,
) -> Result<(), String> {
    let mut run = Run::begin(old, new, plants.processes, plants.operator).await?;
    let (ends, mut back, mut was_there) = (Instant::now() + lasts, false, false);
    loop {
        let phase = run.walk.step(back).await.map_err(said)?;
        was_there |= phase >= Some(MovePhase::New);
        let is_over = was_there && Instant::now() > ends;
        back = match phase {
            None if is_over => break,
            None => false,
            Some(MovePhase::Old) => is_over,
            Some(MovePhase::New | MovePhase::Done) => true,
            Some(_) if is_over => true,
            Some(_) => back ^ run.random.random_bool(0.2),
        };
        sleep(run.random.random_range(Duration::ZERO..=plants.pause)).await;
    }
    run.fleet.all_are_granted(TTL + noise()).await?;
    run.end(Ends::default()).await
}
