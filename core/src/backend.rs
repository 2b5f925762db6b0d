//! The parts of a backend: contracts, shared decisions, and client tools. Lock protocols of other libraries
//! use it too.
//!
//! | to write | implement or use |
//! |---|---|
//! | a backend | [`Backend`] with [`SequentialNodes`] and [`Cells`], [`Node`], [`ChangeWatch`], [`Connector`]; [`Capabilities`] declare its limits |
//! | its leases and nodes | [`LeaseWriter`] and [`NodeWriter`], which compute deadlines and report losses |
//! | admission, expiry, counts | [`decide`]: pure functions, which models explore |
//! | its client | [`Backoff`], [`SingleFlight`], [`CloseOnce`], [`NamePool`], [`Throttle`], [`Transport`] |
//! | the locks of another library | [`Take`], which carries out an [`Ask`]: the request of each method that acquires |
//!
//! Each trait lists its clauses (`LEASE-DEADLINE`, `NODE-ORDER`, …). A case of the same name in
//! `latchwork-conformance` checks each clause. This module may change in any release.

pub use crate::capabilities::Capabilities;
pub use crate::connector::Connector;
pub use crate::contracts::*;
pub use crate::coordinator::operator::marker_of;
pub use crate::recipes::{Acquiring, Ask, Take};
pub use crate::registry::{LAYOUT, Stamp, clients_address, stamp_address};
pub use crate::support::*;

/// The decisions that backends share, as functions without I/O, which models explore.
pub mod decide {
    pub use crate::decide::*;
}
