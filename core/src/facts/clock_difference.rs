use std::fmt;
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;

use crate::error::Result;

const SAMPLES: usize = 5;

/// The difference between a server's clock and this machine's clock, with its possible error.
///
/// *Source.* Cristian, "Probabilistic clock synchronization" (1989): the server read its clock between the
/// request and the answer, so the error is at most half of that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClockDifference {
    /// The server's time minus the time of this machine, in microseconds.
    pub micros: i64,
    /// The largest possible error of `micros`, in both directions.
    pub error: Duration,
    /// Whether the server ends leases by this clock, so that a step of the clock ends them early or late.
    pub ends_leases: bool,
}

impl ClockDifference {
    /// The difference of a clock to itself.
    pub const NONE: Self = Self { micros: 0, error: Duration::ZERO, ends_leases: false };

    /// Calculates the difference from one answer, which arrived `took` after the request was sent.
    pub fn between(sent: SystemTime, took: Duration, server: SystemTime) -> Self {
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let middle = sent + took / 2;
        let micros = match server.duration_since(middle) {
            Ok(ahead) => micros(ahead),
            Err(behind) => -micros(behind.duration()),
        };
        Self { micros, error: took / 2, ends_leases: false }
    }

    /// Asks a server for its time five times, and keeps the fastest answer. The server rounds its time down
    /// to `resolution`.
    ///
    /// # Errors
    /// The errors of `ask`.
    pub async fn measured<F>(resolution: Duration, mut ask: impl FnMut() -> F + Send) -> Result<Self>
    where
        F: Future<Output = Result<SystemTime>> + Send,
    {
        let mut best: Option<Self> = None;
        for _ in 0..SAMPLES {
            let (sent, begun) = (SystemTime::now(), Instant::now());
            let server = ask().await? + resolution / 2;
            let mut sample = Self::between(sent, begun.elapsed(), server);
            sample.error += resolution / 2;
            best = Some(best.map_or(sample, |best| best.sharper(sample)));
        }
        Ok(best.unwrap_or(Self::NONE))
    }

    /// Returns the difference with the smaller error.
    pub fn sharper(self, other: Self) -> Self {
        if other.error < self.error { other } else { self }
    }

    /// Returns the absolute difference.
    pub fn size(&self) -> Duration {
        Duration::from_micros(self.micros.unsigned_abs())
    }

    /// Returns whether the true difference may be within `bound`.
    pub fn may_be_within(&self, bound: Duration) -> bool {
        self.size() <= bound.saturating_add(self.error)
    }
}

/// Example: `60.0 s behind this machine's clock (± 0.2 ms)`
impl fmt::Display for ClockDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |time: Duration| match time.as_secs() {
            0 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
            _ => format!("{:.1} s", time.as_secs_f64()),
        };
        let side = if self.micros < 0 { "behind" } else { "ahead of" };
        write!(f, "{} {side} this machine's clock (± {})", shown(self.size()), shown(self.error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn seconds(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn an_answer_shows_the_difference_up_to_half_of_its_time() {
        for (sent, took, server, micros) in
            [(100, 0, 100, 0), (100, 4, 102, 0), (100, 4, 162, 60_000_000), (100, 2, 41, -60_000_000)]
        {
            let seen = ClockDifference::between(seconds(sent), took * SECOND, seconds(server));
            assert_eq!((seen.micros, seen.error), (micros, took * SECOND / 2), "{sent} {took} {server}");
        }
    }

    #[test]
    fn uncertain_clock_difference_counts_as_within_bounds() {
        let seen = |micros, error| ClockDifference { micros, error, ends_leases: true };
        for (micros, error, within) in [
            (1_000_000, Duration::ZERO, true),
            (1_000_001, Duration::ZERO, false),
            (-1_000_001, Duration::ZERO, false),
            (-3_000_000, 2 * SECOND, true),
        ] {
            assert_eq!(seen(micros, error).may_be_within(SECOND), within, "{micros} {error:?}");
        }
        assert_eq!(
            seen(-60_000_000, SECOND / 5000).to_string(),
            "60.0 s behind this machine's clock (± 0.2 ms)"
        );
    }

    #[tokio::test]
    async fn the_quickest_answer_counts_and_the_resolution_is_part_of_the_error() {
        let mut answers = 0;
        let millis = Duration::from_millis(1);
        let ask = || {
            answers += 1;
            let slow = answers != 3;
            async move {
                if slow {
                    tokio::time::sleep(20 * millis).await;
                }
                Ok(SystemTime::now() + 60 * SECOND)
            }
        };
        let seen = ClockDifference::measured(millis, ask).await.expect("answered");
        assert_eq!(answers, SAMPLES);
        assert!(seen.error >= millis / 2 && seen.error < 10 * millis, "{seen:?}");
        assert!(!seen.may_be_within(59 * SECOND) && seen.may_be_within(61 * SECOND), "{seen:?}");
    }
}
