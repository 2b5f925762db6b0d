use latchwork_core::CellLife;

use crate::driver::{NodeMode, Stat};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    Stays,
    ByLease,
    /// A container exists as long as it has children.
    ByUse,
}

impl Kept {
    pub(super) fn of(life: CellLife) -> Self {
        match life {
            CellLife::Stays => Kept::Stays,
            CellLife::Lease => Kept::ByLease,
            CellLife::Idle(_) => Kept::ByUse,
        }
    }

    pub(super) fn by(stat: &Stat) -> Self {
        if stat.ephemeral_owner == 0 { Kept::Stays } else { Kept::ByLease }
    }

    pub(super) fn mode(self) -> NodeMode {
        match self {
            Kept::Stays => NodeMode::Persistent,
            Kept::ByLease => NodeMode::Ephemeral,
            Kept::ByUse => NodeMode::Container,
        }
    }

    pub(super) fn bits(self) -> u64 {
        match self {
            Kept::Stays => 0,
            Kept::ByLease => 1,
            Kept::ByUse => 2,
        }
    }

    pub(super) fn from_bits(number: u64) -> Self {
        match number & 3 {
            1 => Kept::ByLease,
            2 => Kept::ByUse,
            _ => Kept::Stays,
        }
    }
}
