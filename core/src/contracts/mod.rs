//! The contracts of a backend: object-safe traits, and the types that they use.
//!
//! Every clause has a name (`LEASE-DEADLINE`, `NODE-ORDER`, …) and a conformance case of the same name. A
//! backend carries out single requests and watches; core repeats an unknown join, cleans up after a dropped
//! future, and bounds a wait by its deadline.

mod backend;
mod bound;
mod cell_life;
mod cells;
mod entry;
mod idle;
mod join;
mod lease;
mod leave;
mod limit;
mod listed_key;
mod node;
mod node_id;
mod node_state;
mod node_writer;
mod nodes;

pub use backend::{Backend, Close, Incarnation};
pub(crate) use bound::RegistrationBound;
pub use cell_life::CellLife;
pub use cells::{
    CellWrite, CellWritten, Cells, ChangeWatch, Expected, MAX_CELL_BYTES, Version, VersionedValue,
};
pub use entry::{EntryPage, MAX_LABEL_BYTES, QueueEntry};
pub use idle::TimeToIdle;
pub use join::{Join, Joined, Patience};
pub use lease::{Lease, LeaseState, LeaseWriter};
pub(crate) use lease::{Part, StateChange};
pub use leave::Leave;
pub use limit::{ExpectedLimit, Limit, StoredLimit};
pub use listed_key::{KeysWith, ListedKey};
pub use node::Node;
pub use node_id::NodeId;
pub use node_state::NodeState;
pub use node_writer::NodeWriter;
pub use nodes::SequentialNodes;
