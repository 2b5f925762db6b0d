//! The events and spans of the library in [`tracing`], and its metrics.
//!
//! Only this module names them. [`EVENTS`], [`SPANS`] and [`METRICS`] list them all, and the guide has the same tables.
//! Recipes and backends report through the functions of this module. A `tracing::debug!` elsewhere is a detail for
//! developers: its text may change with any release.
//!
//! Events and spans have the target [`TARGET`]. A healthy client writes one line at info, when it connects, and nothing for
//! an acquisition. A warning needs the attention of an operator.
//!
//! With the cargo feature `metrics`, the metrics go to the recorder of the [`metrics`](https://docs.rs/metrics) crate; without
//! it they cost nothing. Install the recorder before the first connect: a client keeps the counters of the recorder that it
//! finds at their first use. Each label has few values: the backend, the recipe, and an outcome, a reason, a kind, or a phase
//! or side of a move. A key is never a label; events have the key.

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
