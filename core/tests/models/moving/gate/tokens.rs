use latchwork_core::backend::decide::moving::{MovePhase, Side};

use super::State;

impl State {
    pub(super) fn phase(&self) -> MovePhase {
        self.phase.value.map_or(MovePhase::Old, |stage| stage.phase)
    }

    pub(super) fn goes_back(&self, epoch: u16, side: Side) -> bool {
        match (self.phase(), side) {
            (MovePhase::Old, Side::New) => epoch < self.beside,
            (MovePhase::Old, Side::Old) | (MovePhase::Done, Side::New) => self.is_below(epoch, side),
            _ => false,
        }
    }

    pub(super) fn plain_gives(&mut self, epoch: u16, side: Side) {
        self.token_back |= self.goes_back(epoch, side);
        match (self.phase(), side) {
            (MovePhase::Old, Side::New) => self.beside = self.beside.max(epoch),
            (MovePhase::Old, Side::Old) | (MovePhase::Done, Side::New) => self.gives(epoch, side),
            _ => {}
        }
    }

    /// Tokens of one side and epoch rise by their sequence numbers.
    pub(super) fn is_below(&self, epoch: u16, side: Side) -> bool {
        let (highest, of) = self.highest;
        epoch < highest || epoch == highest && side != of
    }

    pub(super) fn gives(&mut self, epoch: u16, side: Side) {
        self.token_back |= self.is_below(epoch, side);
        self.highest = (epoch.max(self.highest.0), side);
    }

    /// Participants give tokens after each write of the phase. Without a cell they use the epoch of the old
    /// side's stamp.
    pub(super) fn participants_give(&mut self) {
        let (epoch, side) = match self.phase.value {
            Some(stage) => (stage.epoch, stage.phase.token()),
            None => (self.stamps[0].epoch, Side::Old),
        };
        self.gives(epoch, side);
    }
}
