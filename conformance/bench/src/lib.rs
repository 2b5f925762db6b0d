//! The benchmark of the recipes: compared with the same requests sent raw, under contention, and with
//! thousands of held locks.
//!
//! A [`Bench`] plays [`Job`]s on [`Target`]s by a [`Plan`]. The caller interleaves the rounds. A [`Summary`]
//! shows the resulting [`Line`]s as tables, with ratios and budgets. A [`Trial`] compares coordinators, also
//! given servers.
//!
//! The benchmark checks only two things: two holders at once ([`Line::overlaps`]), and a request that was not
//! confirmed ([`Line::error`]).

mod barrier;
mod contest;
mod cost;
mod counting;
mod hearing;
mod held;
mod job;
mod line;
mod machine;
mod many;
mod moving;
mod picture;
mod plan;
mod quorum;
mod raw;
mod recipe;
mod reentry;
mod requests;
mod stats;
mod summary;
mod target;
mod throughput;
mod trial;
mod turns;
mod uncontended;

pub use job::{Bench, Job};
pub use line::Line;
pub use machine::Machine;
pub use picture::{beside_raw, hand_offs};
pub use plan::{Measure, Plan};
pub use recipe::Recipe;
pub use stats::Spread;
pub use summary::Summary;
pub use target::Target;
pub use trial::{Terms, Trial};

/// An error of a server, a client crate or the library.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
/// A result with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
