//! The gate of a move that a server has opened by itself: it has lost what was marked.
//!
//! *Protocol.* Who repairs reads the stage; writes the marker where none stands; lists the clients of both
//! sides behind that; and once nobody is outside, writes the epoch where the stamp says less. Then it reads
//! the stage again: where the move has ended meanwhile it takes back what it wrote, over its version.
//!
//! *Why it is safe.* While the marker was away a plain client may have connected, and holds on one side
//! alone. The marker stands before the list is read, so that no other comes. The list itself need not be
//! remembered: each step reads both markers, and lists behind them (MIGRATE-GATE-EACH-STEP). So one that
//! is named, and stays, holds the move up where it is, whoever has repaired it, and dies where. The epoch
//! comes behind the list, since it is raised under no plain client (MIGRATE-EPOCH-RECORDED).

use super::side::{OperatorSide, on};
use super::{Move, MoveBlocker};
use crate::decide::moving::{MovePhase, Side, Stage};
use crate::error::{Error, ErrorKind, Result};
use crate::registry::Stamped;
use crate::seen;

impl Move {
    /// Shuts the gate again where a server has lost it: with data that it has lost, a failover to a replica
    /// that was behind, or a hand. Every step of the move is refused then, and its participants go on as
    /// they are. It writes the marker where none stands, names who came in meanwhile, and writes
    /// the epoch of the tokens again. Then the steps go on where they were. Answers the sides whose marker
    /// it has written. Where everything stands it changes nothing.
    ///
    /// # Errors
    /// `Conflict` naming the [clients](MoveBlocker::Outsiders) that came in: the markers stay, so that no
    /// others come; end those, and call it again. What they held from *new* on, they may have held beside
    /// a participant. `Conflict` also where another marker stands, and where the server has lost the stage
    /// too, or no move has begun. As [all methods](Self).
    pub async fn repair(&self) -> Result<Vec<Side>> {
        self.serve("repair", self.repairs()).await
    }

    async fn repairs(&self) -> Result<Vec<Side>> {
        let Some(staged) = self.stage().await? else { return Err(nothing_to_repair()) };
        let mut written = Vec::new();
        for side in shut_in(staged.stage.phase) {
            if let Some(stamped) = self.mark_where_none_is(self.side(*side)).await? {
                seen::move_repaired(&self.name, *side);
                written.push((*side, stamped));
            }
        }
        loop {
            // The move may have ended while the markers were away, or have come to another phase.
            let Some(staged) = self.stage().await? else {
                for (side, stamped) in &written {
                    self.side(*side).mark(stamped, None).await?;
                }
                return Err(nothing_to_repair());
            };
            if staged.stage.phase == MovePhase::Done {
                self.open().await?;
            }
            if let Err(error) = self.check_outsiders(staged.stage.phase).await {
                self.unless_overtaken(Some(staged.version), error).await?;
                continue;
            }
            self.record_anew(staged.stage).await?;
            return Ok(written.into_iter().map(|(side, _)| side).collect());
        }
    }

    /// Writes the marker of a side that has none. Answers what stands then, if it did.
    async fn mark_where_none_is(&self, side: &OperatorSide) -> Result<Option<Stamped>> {
        loop {
            let read = side.stamped().await?;
            let own = self.marker(side.side);
            match &read.marker {
                None => {}
                Some(stands) if *stands == own => return Ok(None),
                Some(stands) => return Err(side.marked_otherwise(Some(stands))),
            }
            // Else somebody has written the stamp since it was read.
            if let Some(written) = side.mark(&read, Some(&own)).await? {
                return Ok(Some(written));
            }
        }
    }

    /// The stamp of the tokens' side says the epoch of the stage, or it is written there. Nobody is outside.
    async fn record_anew(&self, stage: Stage) -> Result<()> {
        let side = self.side(stage.phase.token());
        loop {
            let stamped = side.stamped().await?;
            // The gate was opened by an end of the move: whoever ended it has seen to the epoch.
            if stamped.epoch >= stage.epoch || !self.is_shut(side, &stamped) {
                return Ok(());
            }
            let raised = stamped.raise_epoch(side.backend(), &side.place, stage.epoch).await;
            if raised.map_err(on(side.side))?.is_some() {
                return Ok(());
            }
        }
    }

    fn is_shut(&self, side: &OperatorSide, stamped: &Stamped) -> bool {
        stamped.marker.as_ref() == Some(&self.marker(side.side))
    }

    /// Whether the gate is shut: both markers stand, and nobody was let in before them. Each step rests on
    /// that (MIGRATE-GATE-EACH-STEP).
    ///
    /// # Errors
    /// `Conflict` where a marker does not stand: the move was begun with another URL, or the server forgot
    /// it; and naming those who are outside.
    pub(super) async fn check_gate(&self) -> Result<()> {
        for side in [&self.old, &self.new] {
            let stands = side.stamped().await?.marker;
            match stands {
                Some(marker) if marker == self.marker(side.side) => {}
                Some(marker) => return Err(side.marked_otherwise(Some(&marker))),
                None => return Err(MoveBlocker::MarkerLost(side.side).into()),
            }
        }
        self.check_outsiders(MovePhase::Old).await
    }

    /// What the markers have against the next step from this stage, by the stamps that were read. Each step
    /// [asks](Self::check_gate) for the very markers of this move by these URLs.
    pub(super) fn blocked_behind(&self, stage: Stage, stamps: [&Stamped; 2]) -> Vec<MoveBlocker> {
        let mut blockers = Vec::new();
        for (side, stamped) in [Side::Old, Side::New].into_iter().zip(stamps) {
            let (is_shut, own) = (shut_in(stage.phase).contains(&side), self.marker(side));
            match &stamped.marker {
                None if is_shut => blockers.push(MoveBlocker::MarkerLost(side)),
                None => {}
                Some(stands) if *stands == own && !is_shut => blockers.push(MoveBlocker::NotOpened),
                Some(stands) if *stands == own => {}
                // `finish` was begun.
                Some(stands) if stage.phase == MovePhase::Done && *stands == self.retired() => {}
                Some(stands) if is_shut || self.is_namesake(side, stands) => {
                    let (name, url) = (stands.name.clone(), stands.url.clone());
                    blockers.push(MoveBlocker::MarkedOtherwise { side, name, url });
                }
                // Another move has begun from there.
                Some(_) => {}
            }
        }
        blockers
    }
}

/// The sides that are shut while a move is in this phase. The new one is open from *done* on.
pub(super) fn shut_in(phase: MovePhase) -> &'static [Side] {
    match phase {
        MovePhase::Done => &[Side::Old],
        // The new side first, as at the beginning.
        _ => &[Side::New, Side::Old],
    }
}

fn nothing_to_repair() -> Error {
    let why = "the old side has no stage of this move: it has not begun, was given up or finished, or the server has \
               lost that too";
    Error::new(ErrorKind::Conflict, why)
}
