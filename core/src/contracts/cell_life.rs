use super::idle::TimeToIdle;

/// The lifetime of a cell. Each write sets it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CellLife {
    /// The cell stays until it is deleted (CELL-STAY).
    Stays,
    /// The cell stays as long as the lease of the client that wrote it last (CELL-EPHEMERAL).
    Lease,
    /// The cell stays until no client has used it for this time (CELL-IDLE).
    Idle(TimeToIdle),
}
