mod client;
mod instrument;
mod moving;
mod outcome;
mod recipe;
mod table;

pub(crate) use client::{ClientMeter, Links};
pub use client::{Rechecks, Requests};
pub use instrument::describe;
pub(crate) use moving::{OperatorMeter, ParticipantMeter};
pub(super) use outcome::MeteredOutcome;
pub(crate) use recipe::{RecipeMeter, Recipes};
pub use table::{METRICS, Metric, MetricKind, SECONDS};
