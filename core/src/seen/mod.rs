//! The events and spans of the library in [`tracing`], and its metrics.
//!
//! Recipes and backends report through the functions of this module, so only this module names events, spans
//! and metrics. [`EVENTS`], [`SPANS`] and [`METRICS`] list them all, and the guide has the same tables. A
//! `tracing::debug!` elsewhere may change with any release.
//!
//! The target is [`TARGET`]. A healthy client writes one line at info, when it connects, and nothing for an
//! acquisition. A warning needs an operator.
//!
//! With the cargo feature `metrics`, metrics go to the recorder of the [`metrics`](https://docs.rs/metrics)
//! crate; otherwise they cost nothing. Install the recorder before the first connect, because a client keeps
//! the recorder that it finds first. Each label has few values: the backend, the recipe, an outcome, a
//! reason, a kind, or a phase or side of a move. Keys are in events, never in labels.

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
    broken, connected, layout_ended, layout_raised, layout_stamped, lease_lost, mended, move_contradicts,
    move_ended, move_finished, move_given_up, move_lost, move_phase, move_repaired, move_waits, no_member,
    phase_reached, registered_anew, release_unconfirmed, renewal_late, reopened, resumed, retired, suspended,
    values_moved,
};
pub(crate) use hold::SeenHold;
pub(crate) use meter::{ClientMeter, Links, OperatorMeter, ParticipantMeter, RecipeMeter, Recipes};
pub use meter::{METRICS, Metric, MetricKind, Rechecks, Requests, SECONDS, describe};
