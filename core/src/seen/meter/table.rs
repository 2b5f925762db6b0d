/// The kind of a metric, as its recorder treats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A sum that only rises.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// A distribution of times, in seconds.
    Histogram,
}

impl MetricKind {
    /// Returns the name that Prometheus uses.
    pub fn as_str(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        }
    }
}

/// A metric that the library records.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The name, by the conventions of Prometheus.
    pub name: &'static str,
    /// The kind.
    pub kind: MetricKind,
    /// The names of the labels, each with few values.
    pub labels: &'static [&'static str],
    /// The description.
    pub help: &'static str,
}

/// Bounds for the buckets of the histograms, in seconds, to pass to the exporter: from an uncontended
/// acquisition on a near server to a long hold.
pub const SECONDS: &[f64] = &[
    0.000_1, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 300.0,
];

macro_rules! metrics {
    ($($metric:ident = $kind:ident $name:literal $labels:tt $help:literal;)+) => {
        $(pub(super) const $metric: Metric =
            Metric { name: $name, kind: MetricKind::$kind, labels: &$labels, help: $help };)+

        /// All metrics.
        pub const METRICS: &[Metric] = &[$($metric),+];
    };
}

metrics! {
    ACQUISITIONS = Counter "latchwork_acquisitions_total" ["backend", "recipe", "outcome"]
        "Ended acquisitions, by outcome";
    WAIT = Histogram "latchwork_wait_seconds" ["backend", "recipe"]
        "Time from the call to the hold, of acquisitions that succeeded";
    HOLD = Histogram "latchwork_hold_seconds" ["backend", "recipe"]
        "Time from an acquisition to the release or loss of its hold";
    HOLDERS = Gauge "latchwork_holders" ["backend", "recipe"]
        "Current holds of this process";
    WAITERS = Gauge "latchwork_waiters" ["backend", "recipe"]
        "Acquisitions of this process in progress";
    LOSSES = Counter "latchwork_losses_total" ["backend", "recipe", "reason"]
        "Holds lost before their release, by reason";
    CLIENTS = Gauge "latchwork_clients" ["backend"]
        "Connected clients of this process";
    SUSPENDED = Gauge "latchwork_clients_suspended" ["backend"]
        "Clients of this process with a suspended lease";
    RENEWALS_LATE = Counter "latchwork_renewals_late_total" ["backend"]
        "Suspensions of a lease because a renewal was not answered in its period";
    DISCONNECTED = Gauge "latchwork_clients_disconnected" ["backend"]
        "Clients of this process with a broken connection; on a Redis Cluster, broken connections to its servers";
    RECONNECTS = Counter "latchwork_reconnects_total" ["backend"]
        "Connections restored after a break";
    REQUESTS = Counter "latchwork_requests_total" ["backend", "kind"]
        "Requests sent to the server, by kind, without handshakes";
    RECHECKS_FOUND = Counter "latchwork_rechecks_found_total" ["backend", "what"]
        "Changes found by a re-check because their event was lost";
    MOVE_PARTICIPANTS = Gauge "latchwork_move_participants" ["backend", "phase"]
        "Clients of this process that take part in a move, by their phase";
    MOVE_LATE = Gauge "latchwork_move_participants_late" ["backend"]
        "Clients of this process that have not acknowledged their phase of a move: its next step waits for them";
    MOVE_EPOCH = Gauge "latchwork_move_epoch" ["backend"]
        "Epoch of the fencing tokens that a client of a move gives";
    MOVE_ACKNOWLEDGED = Gauge "latchwork_move_acknowledged_timestamp_seconds" ["backend"]
        "Time of the last acknowledgement of a phase of a move by this process, in seconds since 1970";
    MOVE_LOSSES = Counter "latchwork_move_losses_total" ["backend", "side"]
        "Holds of clients in a move that ended with their lease on one side, by side";
    MOVE_STEPS = Counter "latchwork_move_steps_total" ["backend", "phase"]
        "Steps of a move, forward or back, by operators of this process, by the phase reached";
    MOVE_WAITS_FOR = Gauge "latchwork_move_waits_for" ["backend"]
        "Members of a move that an operator of this process waits for";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_conventions() {
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
