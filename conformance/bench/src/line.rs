use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::stats::Timings;

/// One result, as a line of JSON. Times are in the unit of the line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are the format")]
pub struct Line {
    pub peer: String,
    pub version: String,
    pub lang: String,
    pub server: String,
    /// M1, M2, M3_grants, M3_handoff, M3_wait, M3_fair, M4, M5, MANY; RW_…, PERMITS_…, GIVEUPS_…, REENTRY; COUNTER, COUNTER_adds,
    /// LATCH, LATCH_count, VALUE, VALUE_write, ELECTION_…, QUORUM, MOVE; of a [`Trial`](crate::Trial) LINK, BYTES, WAKES, CRASH,
    /// RESTART, HELD.
    pub measure: String,
    pub param: String,
    pub unit: String,
    /// Null for an infinite fairness.
    pub value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    /// Only for a thousand times or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p999: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_regrants: Option<u64>,
    /// Holds granted while an excluding hold existed. Must be 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlaps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starved: Option<u64>,
    /// Redis commands run inside scripts, per acquisition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_script: Option<f64>,
    /// Microseconds of Redis' single thread, per acquisition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_us: Option<f64>,
    /// gRPC messages that etcd received, per acquisition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub msgs: Option<f64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub detail: BTreeMap<String, f64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub detail_per_s: BTreeMap<String, f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub msgs_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_cpu_pct: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cpu_pct: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_bytes_per_lock: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acquire_all_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Line {
    pub(super) fn new(server: &str, peer: &str, measure: &str, param: &str, unit: &str) -> Self {
        Self {
            peer: peer.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            lang: "rust".to_owned(),
            server: server.to_owned(),
            measure: measure.to_owned(),
            param: param.to_owned(),
            unit: unit.to_owned(),
            ..Self::default()
        }
    }

    pub(super) fn timed(self, timings: &Timings) -> Self {
        let (p50, p99, max) = (timings.percentile(50.0), timings.percentile(99.0), timings.max());
        let p999 = timings.percentile(99.9).filter(|_| timings.count() >= 1000);
        Self { p50, p99, p999, max, n: Some(timings.count()), ..self }
    }

    /// Returns whether both lines count the same number of requests, also of each name.
    pub fn asks_as(&self, other: &Line) -> bool {
        // One in twenty may be a renewal or a read of the counters.
        let stray = self.value.zip(other.value).map_or(0.0, |(one, two)| one.max(two) / 20.0).max(0.1);
        let near = |one: f64, two: f64| (one - two).abs() < stray;
        let named = |line: &Line, name: &str| line.detail.get(name).copied().unwrap_or(0.0);
        let mut names = self.detail.keys().chain(other.detail.keys());
        self.value.zip(other.value).is_some_and(|(one, two)| near(one, two))
            && names.all(|name| near(named(self, name), named(other, name)))
    }

    /// Returns whether the line reports an overlap or an error.
    pub fn is_bad(&self) -> bool {
        self.error.is_some() || self.overlaps.is_some_and(|overlaps| overlaps > 0)
    }
}
