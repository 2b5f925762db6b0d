//! What a backend promises: dyn-safe traits, and the types that pass through them.
//!
//! Every clause has a name (`LEASE-DEADLINE`, `NODE-ORDER`, …) and a conformance case of the same name.
//! The division of work: a backend carries out single requests and watches; what a client must do around
//! them (retry an unknown join by the same name, take back what a dropped future left, wait within a
//! deadline) is done once, in core, for all backends.

mod backend;
mod lease;
mod limit;
mod link_log;
mod names;
mod node;
mod nodes;
mod single_flight;
mod turns;

pub use backend::{Backend, Close};
pub use lease::{Lease, LeaseKeeper, LeaseState};
pub use limit::{AskedLimit, StoredLimit};
pub use link_log::LinkLog;
pub use names::Names;
pub use node::{Leave, Node, NodeKeeper, NodeState};
pub use nodes::{Entry, Join, Joined, MAX_LABEL_BYTES, NodeId, Page, Patience, SequentialNodes};
pub use single_flight::{Flight, SingleFlight};
pub use turns::{AT_ONCE, Turn, Turns};
