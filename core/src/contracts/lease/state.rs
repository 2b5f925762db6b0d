use crate::error::LostReason;

/// The state of a lease (LEASE-STATE).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaseState {
    /// The lease is renewed in time.
    Live,
    /// A renewal was not answered within its period, and the deadline has not passed. Holds stay held; new
    /// acquisitions wait.
    Suspended,
    /// Final: another client may hold what depended on this lease.
    Lost(LostReason),
}
