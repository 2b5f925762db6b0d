//! Decisions as pure functions of values: who is admitted, what to watch, when a lease must be given up,
//! when to look again. The backends call them, and the models explore the same code without a server.

mod admission;
pub mod chain;
mod deadline;
pub mod queue;

pub use admission::{Claim, admitted_prefix, fits};
pub use deadline::{
    ContactProof, MAX_TTL, MIN_TTL, check_ttl, contact_period, given_back_at, margin, recheck,
    renewal_period, valid_until,
};
