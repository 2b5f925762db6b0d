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

macro_rules! metrics {
    ($($metric:ident = $kind:ident $name:literal $labels:tt $help:literal;)+) => {
        $(pub(super) const $metric: Metric =
            Metric { name: $name, kind: MetricKind::$kind, labels: &$labels, help: $help };)+

        /// All metrics, in the order of the guide's table.
        pub const METRICS: &[Metric] = &[$($metric),+];
    };
}

metrics! {
    ACQUISITIONS = Counter "latchwork_acquisitions_total" ["backend", "recipe", "outcome"]
        "Acquisitions that have ended, by their outcome";
    WAIT = Histogram "latchwork_wait_seconds" ["backend", "recipe"]
        "The time from the call to the hold, of acquisitions that got it";
    HOLD = Histogram "latchwork_hold_seconds" ["backend", "recipe"]
        "The time from the acquisition of a hold to its release or loss";
    HOLDERS = Gauge "latchwork_holders" ["backend", "recipe"]
        "Holds of this process, neither lost nor given back";
    WAITERS = Gauge "latchwork_waiters" ["backend", "recipe"]
        "Acquisitions of this process that are under way";
    LOSSES = Counter "latchwork_losses_total" ["backend", "recipe", "reason"]
        "Holds that were lost before they were given back, by the reason";
    CLIENTS = Gauge "latchwork_clients" ["backend"]
        "Connected clients of this process";
    SUSPENDED = Gauge "latchwork_clients_suspended" ["backend"]
        "Clients of this process whose lease is suspended now";
    RENEWALS_LATE = Counter "latchwork_renewals_late_total" ["backend"]
        "Suspensions because a renewal was not answered in its period";
    DISCONNECTED = Gauge "latchwork_clients_disconnected" ["backend"]
        "Clients of this process whose connection is broken now; on a Redis Cluster their connections to its servers";
    RECONNECTS = Counter "latchwork_reconnects_total" ["backend"]
        "Connections that serve again after they broke";
    REQUESTS = Counter "latchwork_requests_total" ["backend", "kind"]
        "Requests sent to the server, by their kind; those of a handshake are not counted";
    RECHECKS_FOUND = Counter "latchwork_rechecks_found_total" ["backend", "what"]
        "Re-checks that found what no event told";
    MOVE_PARTICIPANTS = Gauge "latchwork_move_participants" ["backend", "phase"]
        "Clients of this process that take part in a move, by the phase that they act by";
    MOVE_LATE = Gauge "latchwork_move_participants_late" ["backend"]
        "Those of them that have not acknowledged their phase yet, so that its next step waits for them";
    MOVE_EPOCH = Gauge "latchwork_move_epoch" ["backend"]
        "The epoch of the tokens that a client which takes part in a move gives";
    MOVE_ACKNOWLEDGED = Gauge "latchwork_move_acknowledged_timestamp_seconds" ["backend"]
        "When a client of this process has last acknowledged a phase of its move, in seconds since 1970";
    MOVE_LOSSES = Counter "latchwork_move_losses_total" ["backend", "side"]
        "Holds of clients which take part in a move that ended with their lease on this side";
    MOVE_STEPS = Counter "latchwork_move_steps_total" ["backend", "phase"]
        "Steps of a move that operators of this process have taken, forward or back, by the phase that each led to";
    MOVE_WAITS_FOR = Gauge "latchwork_move_waits_for" ["backend"]
        "Members of a move that an operator of this process waits for";
}

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
