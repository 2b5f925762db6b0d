//! The types are empty if the feature `metrics` is off.

use std::time::Duration;

use super::table::Metric;
#[cfg(feature = "metrics")]
use super::table::{METRICS, MetricKind};

/// In the order of the metric's labels.
type Values<'a> = &'a [&'static str];

#[derive(Clone, Debug)]
pub(in crate::seen) struct CounterMetric(#[cfg(feature = "metrics")] metrics::Counter);

#[derive(Clone, Debug)]
pub(in crate::seen) struct Gauge(#[cfg(feature = "metrics")] metrics::Gauge);

#[derive(Clone, Debug)]
pub(in crate::seen) struct Histogram(#[cfg(feature = "metrics")] metrics::Histogram);

/// Registers name, unit and description of all metrics at the installed recorder. Each connect does this too,
/// so call it only if the recorder needs the descriptions before.
pub fn describe() {
    #[cfg(feature = "metrics")]
    metrics::with_recorder(|recorder| {
        for metric in METRICS {
            let (name, help) = (metric.name.into(), metric.help.into());
            match metric.kind {
                MetricKind::Counter => recorder.describe_counter(name, Some(metrics::Unit::Count), help),
                MetricKind::Gauge => {
                    let is_time = metric.name.ends_with("_seconds");
                    let unit = if is_time { metrics::Unit::Seconds } else { metrics::Unit::Count };
                    recorder.describe_gauge(name, Some(unit), help);
                }
                MetricKind::Histogram => {
                    recorder.describe_histogram(name, Some(metrics::Unit::Seconds), help)
                }
            }
        }
    });
}

#[cfg(feature = "metrics")]
fn key(metric: &'static Metric, values: Values<'_>) -> metrics::Key {
    assert_eq!(metric.labels.len(), values.len(), "the labels of {}", metric.name);
    let labels = metric.labels.iter().zip(values);
    let labels: Vec<_> = labels.map(|(name, value)| metrics::Label::from_static_parts(name, value)).collect();
    metrics::Key::from_parts(metric.name, labels)
}

#[cfg(feature = "metrics")]
fn metadata() -> metrics::Metadata<'static> {
    metrics::Metadata::new(crate::seen::event::TARGET, metrics::Level::INFO, None)
}

#[cfg(feature = "metrics")]
impl CounterMetric {
    pub(super) fn new(metric: &'static Metric, values: Values<'_>) -> Self {
        let counter = metrics::with_recorder(|to| to.register_counter(&key(metric, values), &metadata()));
        // The series must exist at zero: a rate does not show the first step of a counter that starts at one.
        counter.increment(0);
        Self(counter)
    }

    pub(super) fn count(&self) {
        self.0.increment(1);
    }
}

#[cfg(feature = "metrics")]
impl Gauge {
    pub(super) fn new(metric: &'static Metric, values: Values<'_>) -> Self {
        let gauge = metrics::with_recorder(|to| to.register_gauge(&key(metric, values), &metadata()));
        gauge.increment(0.0);
        Self(gauge)
    }

    pub(in crate::seen) fn add(&self, difference: i8) {
        self.0.increment(f64::from(difference));
    }

    pub(super) fn set(&self, figure: f64) {
        self.0.set(figure);
    }
}

#[cfg(feature = "metrics")]
impl Histogram {
    pub(super) fn new(metric: &'static Metric, values: Values<'_>) -> Self {
        Self(metrics::with_recorder(|to| to.register_histogram(&key(metric, values), &metadata())))
    }

    pub(in crate::seen) fn record(&self, length: Duration) {
        self.0.record(length.as_secs_f64());
    }
}

#[cfg(not(feature = "metrics"))]
impl CounterMetric {
    pub(super) fn new(_: &'static Metric, _: Values<'_>) -> Self {
        Self()
    }

    pub(super) fn count(&self) {}
}

#[cfg(not(feature = "metrics"))]
impl Gauge {
    pub(super) fn new(_: &'static Metric, _: Values<'_>) -> Self {
        Self()
    }

    pub(in crate::seen) fn add(&self, _: i8) {}

    pub(super) fn set(&self, _: f64) {}
}

#[cfg(not(feature = "metrics"))]
impl Histogram {
    pub(super) fn new(_: &'static Metric, _: Values<'_>) -> Self {
        Self()
    }

    pub(in crate::seen) fn record(&self, _: Duration) {}
}
