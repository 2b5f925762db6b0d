//! The operator of a run: it takes steps, and notes when.

use std::time::Duration;

use latchwork_core::backend::decide::moving::MovePhase;
use latchwork_core::{Error, Move};
use tokio::time::{Instant, sleep};

use super::operates::said;
use crate::failover::now;

/// How often it is asked for what there is no event for: whether everybody knows of a step.
pub(super) const AGAIN: Duration = Duration::from_millis(10);

/// A step that was taken, on the clock of grants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// What was called.
    pub(super) what: &'static str,
    /// The phase that it came to.
    pub(super) phase: MovePhase,
    /// When it was called.
    pub(super) begun: u64,
    /// When it was over.
    pub(super) written: u64,
    /// When every member had acknowledged it.
    pub(super) known: u64,
}

/// A move, as its operator makes it here.
pub(super) struct Walk {
    pub(super) operator: Move,
    pub(super) changes: Vec<Change>,
}

impl Walk {
    /// A step, forward or back. Answers the phase that the move is in; `None` where it was given up, by a step
    /// back from the first one.
    pub(super) async fn step(&mut self, back: bool) -> Result<Option<MovePhase>, Error> {
        let begun = now();
        let (what, phase) = match back {
            true => ("a step back", self.operator.step_back(|_| {}).await?),
            false => ("a step forward", Some(self.operator.advance(|_| {}).await?)),
        };
        self.note(what, phase.unwrap_or(MovePhase::Old), begun).await?;
        Ok(phase)
    }

    async fn note(&mut self, what: &'static str, phase: MovePhase, begun: u64) -> Result<(), Error> {
        let written = now();
        // Behind *done* no step follows, and it waits for nobody.
        loop {
            match self.operator.status().await {
                Ok(status) if status.waits_for.is_empty() => break,
                // A server is away.
                Err(error) if !error.may_pass() => return Err(error),
                _ => sleep(AGAIN).await,
            }
        }
        self.changes.push(Change { what, phase, begun, written, known: now() });
        Ok(())
    }

    /// Waits until the old side answers and has no members, for so long at most: those of *done* are none any
    /// more once they know of it.
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
