//! The kinds of node that hold a cell.

use latchwork_core::CellLife;

use crate::driver::{NodeMode, Stat};

/// The life of a cell, without its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// The cell is a plain node.
    Stays,
    /// The cell is an ephemeral node.
    ByLease,
    /// The cell is a container, and exists as long as it has children.
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

    /// The life by the session of a node. A server shows a container as a plain node.
    pub(super) fn by(stat: &Stat) -> Self {
        if stat.ephemeral_owner == 0 { Kept::Stays } else { Kept::ByLease }
    }

    /// The kind of node that is created for such a cell.
    pub(super) fn mode(self) -> NodeMode {
        match self {
            Kept::Stays => NodeMode::Persistent,
            Kept::ByLease => NodeMode::Ephemeral,
            Kept::ByUse => NodeMode::Container,
        }
    }

    /// The last two bits of a version's number.
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
