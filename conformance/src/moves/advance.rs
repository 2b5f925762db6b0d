//! A step forward of a move whose participants may have been killed just before.

use std::time::Duration;

use latchwork_core::backend::decide::moving::MovePhase;
use latchwork_core::{Error, ErrorKind, Move, MoveBlocker};
use tokio::time::sleep;

const AGAIN: Duration = Duration::from_millis(10);

/// Takes a step forward. A move begins when each participant is connected to both sides, because the
/// registrations of killed processes end at different times.
pub(super) async fn advance(operator: &Move) -> Result<MovePhase, Error> {
    loop {
        let refused = match operator.advance(|_| {}).await {
            Err(error) if error.kind() == ErrorKind::Conflict => error,
            answer => return answer,
        };
        match &operator.plan().await?.blockers[..] {
            [] | [MoveBlocker::Apart(_)] => sleep(AGAIN).await,
            _ => return Err(refused),
        }
    }
}
