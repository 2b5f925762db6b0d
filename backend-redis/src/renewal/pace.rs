//! The number of renewals under way at a time.
//!
//! The next burst follows the answers to the last one, so that a join waits for only one burst. A round of
//! 100,000 nodes then takes 390 round trips: at 70 ms each, the whole lease of 30 s. So a burst grows when
//! the rest of the round would take too long at the last pace.

use std::time::Duration;

use latchwork_core::backend::decide::renewal_period;

/// A join waits for the burst.
const WIDEST: usize = 16;

pub(super) fn round_time(ttl: Duration) -> Duration {
    renewal_period(ttl) / 2
}

/// `left`: the remaining bursts. `trip`: the time of the last answers. `spare`: the round's remaining time.
pub(super) fn width(left: usize, trip: Duration, spare: Duration) -> usize {
    let takes = trip.as_secs_f64() * left as f64;
    // Infinite without time to spare, or NaN if the bursts also take no time.
    let width = (takes / spare.as_secs_f64()).ceil();
    if width > 1.0 { (width.min(WIDEST as f64)) as usize } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn round(bursts: usize, trip: Duration, ttl: Duration) -> (Duration, usize) {
        let (mut left, mut took, mut last, mut widest) = (bursts, Duration::ZERO, Duration::ZERO, 1);
        while left > 0 {
            let width = width(left, last, round_time(ttl).saturating_sub(took));
            (left, took, last) = (left.saturating_sub(width), took + trip, trip);
            widest = widest.max(width);
        }
        (took, widest)
    }

    #[test]
    fn a_round_that_has_time_goes_burst_by_burst() {
        let ttl = Duration::from_secs(30);
        for (bursts, trip) in [(1, Duration::from_secs(2)), (390, 10 * MS), (40, 100 * MS), (0, MS)] {
            let (took, widest) = round(bursts, trip, ttl);
            assert_eq!((took, widest), (trip * bursts as u32, 1), "{bursts} bursts of {trip:?}");
        }
    }

    #[test]
    fn a_round_that_would_outlast_its_time_grows_wider_and_is_done_in_it() {
        let ttl = Duration::from_secs(30);
        for (bursts, trip) in [(390, 70 * MS), (390, 150 * MS), (800, 80 * MS)] {
            let (took, widest) = round(bursts, trip, ttl);
            assert!(trip * bursts as u32 > renewal_period(ttl), "at a lower width the round would be late");
            assert!(took <= round_time(ttl) + trip, "{bursts} bursts of {trip:?} took {took:?}");
            assert!(widest <= WIDEST);
        }
    }

    #[test]
    fn no_burst_is_wider_than_the_widest_and_none_is_empty() {
        assert_eq!(width(1000, Duration::from_secs(1), Duration::ZERO), WIDEST);
        assert_eq!(width(usize::MAX, Duration::MAX, MS), WIDEST);
        for (left, trip) in [(1000, Duration::ZERO), (0, MS), (0, Duration::ZERO)] {
            assert_eq!(
                width(left, trip, Duration::ZERO),
                if trip.is_zero() || left == 0 { 1 } else { WIDEST }
            );
        }
    }
}
