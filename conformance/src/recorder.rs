//! The metrics of one case.

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use latchwork_core::seen::MetricKind;
use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, SharedString, Unit};

/// Records metrics of clients and handles from within its [`scope`](Recorder::scope).
#[derive(Clone, Default)]
pub struct Recorder(Arc<Mutex<Recorded>>);

#[derive(Default)]
struct Recorded {
    series: BTreeMap<Key, (MetricKind, Arc<AtomicU64>)>,
    described: BTreeMap<String, (MetricKind, Option<Unit>, String)>,
}

/// A registered series.
#[derive(Clone, Debug)]
pub struct Series {
    /// The metric.
    pub name: String,
    /// Its kind.
    pub kind: MetricKind,
    /// Its labels.
    pub labels: Vec<(String, String)>,
}

impl Recorder {
    /// Creates an empty recorder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs a future whose clients and handles count here for their whole life.
    pub async fn scope<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| metrics::with_local_recorder(self, || future.as_mut().poll(context))).await
    }

    /// Returns the sum of a metric over series with these labels, or the number of a histogram's values. There must be such a
    /// series.
    pub fn sum(&self, metric: &str, labels: &[(&str, &str)]) -> f64 {
        let recorded = self.recorded();
        let has = |key: &Key| {
            labels.iter().all(|(name, value)| {
                key.labels().any(|label| (label.key(), label.value()) == (*name, *value))
            })
        };
        let found: Vec<_> =
            recorded.series.iter().filter(|(key, _)| key.name() == metric && has(key)).collect();
        assert!(!found.is_empty(), "no series of {metric} has the labels {labels:?}");
        found.iter().map(|(_, (kind, value))| figure(*kind, value)).sum()
    }

    /// Returns the series.
    pub fn series(&self) -> Vec<Series> {
        let recorded = self.recorded();
        let series = recorded.series.iter().map(|(key, (kind, _))| Series {
            name: key.name().to_owned(),
            kind: *kind,
            labels: key.labels().map(|label| (label.key().to_owned(), label.value().to_owned())).collect(),
        });
        series.collect()
    }

    /// Returns kind, unit and help of the described metrics.
    pub fn described(&self) -> BTreeMap<String, (MetricKind, Option<Unit>, String)> {
        self.recorded().described.clone()
    }

    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn register(&self, key: &Key, kind: MetricKind) -> Arc<AtomicU64> {
        let mut recorded = self.recorded();
        let (known, value) = recorded.series.entry(key.clone()).or_insert_with(|| (kind, Arc::default()));
        assert_eq!(*known, kind, "{key}");
        Arc::clone(value)
    }

    fn describe(&self, name: &KeyName, kind: MetricKind, unit: Option<Unit>, help: &SharedString) {
        self.recorded().described.insert(name.as_str().to_owned(), (kind, unit, help.to_string()));
    }
}

fn figure(kind: MetricKind, value: &AtomicU64) -> f64 {
    let value = value.load(Ordering::Acquire);
    if kind == MetricKind::Gauge { f64::from_bits(value) } else { value as f64 }
}

struct Values(Arc<AtomicU64>);

impl HistogramFn for Values {
    fn record(&self, value: f64) {
        assert!(value >= 0.0, "a length of {value}");
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(&key, MetricKind::Counter, unit, &description);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(&key, MetricKind::Gauge, unit, &description);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(&key, MetricKind::Histogram, unit, &description);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.register(key, MetricKind::Counter))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.register(key, MetricKind::Gauge))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Values(self.register(key, MetricKind::Histogram))))
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let recorded = self.recorded();
        let series = recorded.series.iter().filter_map(|(key, (kind, value))| {
            let value = figure(*kind, value);
            (value != 0.0).then(|| (key.to_string(), value))
        });
        f.debug_map().entries(series).finish()
    }
}
