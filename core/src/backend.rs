//! The parts of a backend: the contracts, the decisions that backends share, and the tools of every
//! client. Lock protocols of other libraries use it too, and tests of both.
//!
//! | to write | implement or use |
//! |---|---|
//! | a backend | [`Backend`] with [`SequentialNodes`] and [`Cells`], [`Node`], [`ChangeWatch`], [`Connector`]; [`Capabilities`] name its limits |
//! | its leases and nodes | [`LeaseWriter`] and [`NodeWriter`], which compute deadlines and report losses |
//! | admission, expiry, counts | [`decide`]: pure functions, which models explore |
//! | its client | [`Backoff`], [`SingleFlight`], [`CloseOnce`], [`NamePool`], [`Throttle`], [`Transport`] |
//! | the locks of another library | [`Take`], which carries out an [`Ask`]: the request of every verb |
//!
//! Each trait states its clauses (`LEASE-DEADLINE`, `NODE-ORDER`, …); a case of the same name in
//! `latchwork-conformance` checks each of them. Users need nothing of this module, and it may change
//! in any release.

pub use crate::capabilities::Capabilities;
pub use crate::connector::Connector;
pub use crate::contracts::*;
pub use crate::coordinator::operator::marker_of;
pub use crate::recipes::{Acquiring, Ask, Take};
pub use crate::registry::{LAYOUT, Stamp, clients_address, stamp_address};
pub use crate::support::*;

/// Decisions that backends share, as functions without I/O, which models explore.
pub mod decide {
    pub use crate::decide::*;
}
