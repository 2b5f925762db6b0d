use std::time::Duration;

use latchwork_core::backend::decide::moving::MovePhase;
use latchwork_core::{Error, Move};
use tokio::time::{Instant, sleep};

use super::advance::advance;
use super::operates::said;
use crate::failover::now;

/// No event reports that all members know a step.
pub(super) const AGAIN: Duration = Duration::from_millis(10);

/// On the clock of grants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) what: &'static str,
    pub(super) phase: MovePhase,
    pub(super) begun: u64,
    pub(super) written: u64,
    /// All members know it.
    pub(super) known: u64,
}

pub(super) struct Walk {
    pub(super) operator: Move,
    pub(super) changes: Vec<Change>,
}

impl Walk {
    /// `None`: the move was given up.
    pub(super) async fn step(&mut self, back: bool) -> Result<Option<MovePhase>, Error> {
        let begun = now();
        let (what, phase) = match back {
            true => ("a step back", self.operator.step_back(|_| {}).await?),
            false => ("a step forward", Some(advance(&self.operator).await?)),
        };
        self.note(what, phase.unwrap_or(MovePhase::Old), begun).await?;
        Ok(phase)
    }

    async fn note(&mut self, what: &'static str, phase: MovePhase, begun: u64) -> Result<(), Error> {
        let written = now();
        // After *done* no member is awaited.
        loop {
            match self.operator.status().await {
                Ok(status) if status.waits_for.is_empty() => break,
                Err(error) if !error.may_pass() => return Err(error),
                _ => sleep(AGAIN).await,
            }
        }
        self.changes.push(Change { what, phase, begun, written, known: now() });
        Ok(())
    }

    /// In *done*, members leave when they know the phase.
    pub(super) async fn has_no_members(&self, within: Duration) -> Result<(), String> {
        let until = Instant::now() + within;
        loop {
            match self.operator.status().await {
                Ok(status) if status.members == 0 => return Ok(()),
                Err(error) if !error.may_pass() => return Err(said(error)),
                answer if Instant::now() >= until => {
                    return Err(format!("members are left after {within:?}: {answer:?}"));
                }
                _ => sleep(AGAIN).await,
            }
        }
    }
}
