//! Decisions as pure functions: which nodes are admitted, which node to watch, when a lease is lost, when to
//! re-check. The backends call them, and the models explore the same code without a server.

mod admission;
pub mod barrier;
mod cells;
pub mod chain;
pub mod count;
mod deadline;
pub mod gather;
mod giving_back;
pub mod layout;
pub mod life;
pub mod moving;
pub mod queue;
pub mod quorum;
pub mod trial;

pub use admission::{Claim, admitted_prefix, fits};
pub use cells::CellStore;
pub use deadline::{
    ContactProof, MAX_TTL, MIN_TTL, check_ttl, contact_period, given_back_at, join_obsolete_at, margin,
    node_obsolete_at, recheck, renewal_counts, renewal_period, valid_until,
};
pub use giving_back::{IN_ONE_STEP, LEAVES_AT_ONCE, giving_back_bound, one_by_one};
