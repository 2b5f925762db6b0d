//! A step forward of the server's clock expires leases early. A client cannot prevent this, but reports it.

use std::time::Duration;

use latchwork_core::backend::decide::margin;
use latchwork_core::{Moment, seen};

use crate::config::NAME;
use crate::scripts::ServerTime;

/// Compares the server's wall clock with the client's monotonic clock.
#[derive(Debug, Default)]
pub(super) struct ClockSteps {
    // The send and the answer of the last renewal, and the server's time in between.
    before: Option<(Moment, Moment, ServerTime)>,
}

impl ClockSteps {
    pub(super) fn observe(&mut self, sent: Moment, received: Moment, time: ServerTime, ttl: Duration) {
        if let Some(step) = self.step(sent, received, time, margin(ttl)) {
            seen::clock_set(NAME, step / 1000);
        }
    }

    /// In microseconds, if it exceeds `tolerated` plus the time of the round trips.
    fn step(&mut self, sent: Moment, received: Moment, time: ServerTime, tolerated: Duration) -> Option<i64> {
        let before = self.before.replace((sent, received, time))?;
        let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        let (least, most) = (micros(sent.since(before.1)), micros(received.since(before.0)));
        let passed = time - before.2;
        let step = if passed < least { passed - least } else { (passed - most).max(0) };
        (step.abs() > micros(tolerated)).then_some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn server_clock_step_is_detected_and_slow_reply_ignored() {
        let tolerated = Duration::from_millis(200);
        let mut steps = ClockSteps::default();
        assert_eq!(steps.step(at(0), at(1), 1_000_000, tolerated), None);
        assert_eq!(steps.step(at(1_000), at(1_500), 2_400_000, tolerated), None);
        assert_eq!(steps.step(at(2_000), at(2_001), 3_000_000, tolerated), None);
        assert_eq!(steps.step(at(3_000), at(3_001), 9_000_000, tolerated), Some(4_999_000));
        assert_eq!(steps.step(at(4_000), at(4_001), 5_000_000, tolerated), Some(-4_999_000));
    }
}
