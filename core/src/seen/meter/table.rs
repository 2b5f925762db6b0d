//! All metrics, with their labels.

/// What a metric is to its recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only rises.
    Counter,
    /// It rises and falls.
    Gauge,
    /// A distribution, in seconds.
    Histogram,
}

impl MetricKind {
    /// As Prometheus calls it.
    pub fn as_str(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        }
    }
}

/// A metric of the library.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name, by the conventions of Prometheus.
    pub name: &'static str,
    /// What it is to its recorder.
    pub kind: MetricKind,
    /// The names of its labels; each has few values.
    pub labels: &'static [&'static str],
    /// What it counts.
    pub help: &'static str,
}

/// Bounds for the buckets of the histograms, in seconds: from an uncontended acquisition on a near
/// server to a long hold. The facade leaves buckets to the exporter, so give it these.
pub const SECONDS: &[f64] = &[
    0.000_1, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 300.0,
];

const fn metric(
    kind: MetricKind,
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, kind, labels, help }
}

const BACKEND: &[&str] = &["backend"];
const RECIPE: &[&str] = &["backend", "recipe"];
const PHASE: &[&str] = &["backend", "phase"];

pub(super) const ACQUISITIONS: Metric = metric(
    MetricKind::Counter,
    "latchwork_acquisitions_total",
    &["backend", "recipe", "outcome"],
    "Acquisitions that have ended, by their outcome",
);
pub(super) const WAIT: Metric = metric(
    MetricKind::Histogram,
    "latchwork_wait_seconds",
    RECIPE,
    "The time from the call to the hold, of acquisitions that got it",
);
pub(super) const HOLD: Metric = metric(
    MetricKind::Histogram,
    "latchwork_hold_seconds",
    RECIPE,
    "The time from the acquisition of a hold to its release or loss",
);
pub(super) const HOLDERS: Metric = metric(
    MetricKind::Gauge,
    "latchwork_holders",
    RECIPE,
    "Holds of this process, neither lost nor given back",
);
pub(super) const WAITERS: Metric =
    metric(MetricKind::Gauge, "latchwork_waiters", RECIPE, "Acquisitions of this process that are under way");
pub(super) const LOSSES: Metric = metric(
    MetricKind::Counter,
    "latchwork_losses_total",
    &["backend", "recipe", "reason"],
    "Holds that were lost before they were given back, by the reason",
);
pub(super) const CLIENTS: Metric =
    metric(MetricKind::Gauge, "latchwork_clients", BACKEND, "Connected clients of this process");
pub(super) const SUSPENDED: Metric = metric(
    MetricKind::Gauge,
    "latchwork_clients_suspended",
    BACKEND,
    "Clients of this process whose lease is suspended now",
);
pub(super) const RENEWALS_LATE: Metric = metric(
    MetricKind::Counter,
    "latchwork_renewals_late_total",
    BACKEND,
    "Suspensions because a renewal was not answered in its period",
);
pub(super) const DISCONNECTED: Metric = metric(
    MetricKind::Gauge,
    "latchwork_clients_disconnected",
    BACKEND,
    "Clients of this process whose connection is broken now; on a Redis Cluster their connections to its servers",
);
pub(super) const RECONNECTS: Metric = metric(
    MetricKind::Counter,
    "latchwork_reconnects_total",
    BACKEND,
    "Connections that serve again after they broke",
);
pub(super) const REQUESTS: Metric = metric(
    MetricKind::Counter,
    "latchwork_requests_total",
    &["backend", "kind"],
    "Requests sent to the server, by their kind; those of a handshake are not counted",
);
pub(super) const RECHECKS_FOUND: Metric = metric(
    MetricKind::Counter,
    "latchwork_rechecks_found_total",
    &["backend", "what"],
    "Re-checks that found what no event told",
);
pub(super) const MOVE_PARTICIPANTS: Metric = metric(
    MetricKind::Gauge,
    "latchwork_move_participants",
    PHASE,
    "Clients of this process that take part in a move, by the phase that they act by",
);
pub(super) const MOVE_LATE: Metric = metric(
    MetricKind::Gauge,
    "latchwork_move_participants_late",
    BACKEND,
    "Those of them that have not acknowledged their phase yet, so that its next step waits for them",
);
pub(super) const MOVE_EPOCH: Metric = metric(
    MetricKind::Gauge,
    "latchwork_move_epoch",
    BACKEND,
    "The epoch of the tokens that a client which takes part in a move gives",
);
pub(super) const MOVE_ACKNOWLEDGED: Metric = metric(
    MetricKind::Gauge,
    "latchwork_move_acknowledged_timestamp_seconds",
    BACKEND,
    "When a client of this process has last acknowledged a phase of its move, in seconds since 1970",
);
pub(super) const MOVE_LOSSES: Metric = metric(
    MetricKind::Counter,
    "latchwork_move_losses_total",
    &["backend", "side"],
    "Holds of clients which take part in a move that ended with their lease on this side",
);
pub(super) const MOVE_STEPS: Metric = metric(
    MetricKind::Counter,
    "latchwork_move_steps_total",
    PHASE,
    "Steps of a move that operators of this process have taken, forward or back, by the phase that each led to",
);
pub(super) const MOVE_WAITS_FOR: Metric = metric(
    MetricKind::Gauge,
    "latchwork_move_waits_for",
    BACKEND,
    "Members of a move that an operator of this process waits for",
);

/// All metrics, in the order of the guide's table.
pub const METRICS: &[Metric] = &[
    ACQUISITIONS,
    WAIT,
    HOLD,
    HOLDERS,
    WAITERS,
    LOSSES,
    CLIENTS,
    SUSPENDED,
    RENEWALS_LATE,
    DISCONNECTED,
    RECONNECTS,
    REQUESTS,
    RECHECKS_FOUND,
    MOVE_PARTICIPANTS,
    MOVE_LATE,
    MOVE_EPOCH,
    MOVE_ACKNOWLEDGED,
    MOVE_LOSSES,
    MOVE_STEPS,
    MOVE_WAITS_FOR,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_conventions() {
        for Metric { name, kind, labels, help } in METRICS {
            assert!(name.starts_with("latchwork_") && !help.ends_with('.'), "{name}: {help}");
            assert_eq!(name.ends_with("_total"), *kind == MetricKind::Counter, "{name}");
            let is_length = name.ends_with("_seconds") && !name.ends_with("_timestamp_seconds");
            assert_eq!(is_length, *kind == MetricKind::Histogram, "{name}");
            assert_eq!(labels.first(), Some(&"backend"), "{name}");
            assert!(!labels.contains(&"key"), "a key is unbounded");
        }
        assert!(SECONDS.is_sorted());
    }
}
