//! How long a cell stays.

use super::idle::TimeToIdle;

/// How long a cell stays. The last write decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CellLife {
    /// Until it is deleted (CELL-STAY).
    Stays,
    /// As long as the lease of the client that wrote it last (CELL-EPHEMERAL).
    Lease,
    /// Until nobody has used it for this long (CELL-IDLE).
    Idle(TimeToIdle),
}
