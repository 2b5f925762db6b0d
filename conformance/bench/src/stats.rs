use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Nanoseconds. Longer times are recorded as this one.
const LONGEST: u64 = 10 * 60 * 1_000_000_000;

#[derive(Clone, Debug)]
pub(super) struct Timings(Histogram<u64>);

impl Timings {
    pub(super) fn new() -> Self {
        Self(
            Histogram::new_with_bounds(1, LONGEST, 3)
                .expect("the bounds and digits are in the library's range"),
        )
    }

    pub(super) fn of<'a>(times: impl IntoIterator<Item = &'a Duration>) -> Self {
        let mut timings = Self::new();
        times.into_iter().for_each(|time| timings.record(*time));
        timings
    }

    pub(super) fn record(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(LONGEST));
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len()
    }

    pub(super) fn percentile(&self, percentile: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| micros(self.0.value_at_percentile(percentile)))
    }

    /// Microseconds.
    pub(super) fn max(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| micros(self.0.max()))
    }
}

fn micros(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64() * 1e6
}

/// A figure over rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The lowest.
    pub min: f64,
    /// The highest.
    pub max: f64,
}

impl Spread {
    /// Returns the spread of the finite figures, if there are any.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut figures: Vec<_> = figures.into_iter().filter(|figure| figure.is_finite()).collect();
        figures.sort_by(f64::total_cmp);
        let (min, max) = (*figures.first()?, *figures.last()?);
        let middle = figures.len() / 2;
        let median = match figures.len() % 2 {
            0 => f64::midpoint(figures[middle - 1], figures[middle]),
            _ => figures[middle],
        };
        Some(Self { median, min, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_match_the_recorded_timings() {
        let mut timings = Timings::new();
        assert_eq!((timings.percentile(50.0), timings.max()), (None, None));
        (1..=100).rev().for_each(|micros| timings.record(Duration::from_micros(micros)));
        assert_eq!(timings.count(), 100);
        let near = |figure: Option<f64>, expected: f64| (figure.unwrap() / expected - 1.0).abs() < 0.001;
        assert!(near(timings.percentile(50.0), 50.0), "{timings:?}");
        assert!(near(timings.percentile(99.0), 99.0), "{timings:?}");
        assert!(near(timings.max(), 100.0), "{timings:?}");
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        let spread = |figures: &[f64]| Spread::of(figures.iter().copied()).map(|s| (s.min, s.median, s.max));
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some((1.0, 2.0, 3.0)));
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0, f64::NAN]), Some((1.0, 2.5, 4.0)));
    }
}
