//! The benchmark: what the recipes cost beside the same requests sent raw, under contention, and
//! while thousands are held.
//!
//! A [`Bench`] plays [`Job`]s on [`Target`]s in [`Plan`]'s terms; the caller interleaves the
//! rounds. Each job answers [`Line`]s, which are the rows of the machine-readable output; a
//! [`Summary`] is the same lines as tables, with the ratios and the budgets beside them.
//!
//! A [`Trial`] is what coordinators are compared by, one beside the other, servers of others among them.
//!
//! It measures, and judges two things only: two holders at once ([`Line::overlaps`]), and a request
//! that was not confirmed ([`Line::error`]).

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

/// An error of a server, a client crate or the library, as a sentence.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
/// What can fail so.
pub type Result<T> = std::result::Result<T, Error>;
