//! What one sees of the library from outside: its events and spans in [`tracing`], and its metrics.
//!
//! This is the only place that names them. [`EVENTS`], [`SPANS`] and [`METRICS`] list them all, and
//! the guide's page for those who are called at night shows the same tables. Recipes and backends
//! report what happens by calling a function of this module. A `tracing::debug!` elsewhere is a
//! detail for developers: its text may change with any release.
//!
//! Events and spans have the target [`TARGET`]. A healthy client writes one line at info, when it
//! connects, and nothing for an acquisition; what an operator should look at is a warning.
//!
//! The metrics go to the recorder of the [`metrics`](https://docs.rs/metrics) crate, with the cargo
//! feature `metrics`. Without it they cost nothing. Install the recorder before the first connect: a
//! client keeps the counters that it was given when it first needed them. Labels are bounded: the
//! backend, the recipe, and an outcome, a reason, a kind, or a phase or side of a move. A key is never a label; the events have
//! it.

mod acquisition;
mod event;
mod hold;
mod meter;

pub(crate) use acquisition::SeenAcquisition;
pub use event::{
    EVENTS, Event, SPANS, Span, TARGET, advice, certificates_refused, clock_set, forgot, intruder,
    not_given_back, publish_refused, relay_failed, replaced, shard_down,
};
pub(crate) use event::{
    broken, connected, layout_ended, layout_raised, layout_stamped, lease_lost, mended, move_ended,
    move_finished, move_given_up, move_lost, move_phase, move_repaired, move_waits, no_member, phase_reached,
    registered_anew, release_unconfirmed, renewal_late, reopened, resumed, retired, stage_went_back,
    suspended, values_moved,
};
pub(crate) use hold::SeenHold;
pub(crate) use meter::{ClientMeter, Links, OperatorMeter, ParticipantMeter, RecipeMeter, Recipes};
pub use meter::{METRICS, Metric, MetricKind, Rechecks, Requests, SECONDS, describe};
