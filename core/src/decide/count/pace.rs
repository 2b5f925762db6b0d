//! How long a client pauses before its next try to change a count by compare-and-set.
//!
//! *Why.* Each write makes the writes of all other clients fail that are under way. If a thousand clients try again
//! at once, the server answers a thousand requests for each one that succeeds. So the clients spread their tries
//! (COUNT-PACED): a client pauses for a random part of a window. The window doubles while tries fail, as in
//! Ethernet. A client that wrote keeps half of its window, so it does not overtake the clients that pause.
//!
//! *A few busy clients* that write again and again need no windows, and a client that pauses would starve next to
//! them. The records show them: they have made several writes each since the last try. Then the window shrinks.

use std::time::Duration;

/// The refusals in a row after which a client pauses.
const AT_ONCE: u32 = 2;
/// The writes of each other writer since the last try, above which these writers are a few busy ones.
const BUSY: u64 = 3;

/// What other writers did between two looks at a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Others {
    /// How many of them wrote. A count remembers only the last ones.
    pub writers: usize,
    /// How often they wrote.
    pub writes: u64,
}

/// The window of one client and count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    // Since the last write that succeeded.
    refusals: u32,
    window: Duration,
}

impl Pace {
    /// Returns the time within which the next try is to be sent. Zero: at once, with the last known cell.
    pub fn window(&self) -> Duration {
        self.window
    }

    /// Records a write that was refused after this round trip, because others have written.
    pub fn refused(&mut self, others: Others, round_trip: Duration, longest: Duration) {
        self.refusals += 1;
        if others.writes >= BUSY * others.writers.max(1) as u64 {
            self.shrink(round_trip);
        } else if self.refusals > AT_ONCE || !self.window.is_zero() {
            self.window = (2 * self.window.max(round_trip)).min(longest);
        }
    }

    /// Records a write that was made after this round trip.
    pub fn written(&mut self, round_trip: Duration) {
        self.refusals = 0;
        self.shrink(round_trip);
    }

    fn shrink(&mut self, round_trip: Duration) {
        self.window /= 2;
        if self.window < round_trip {
            self.window = Duration::ZERO;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_millis(1);
    const LONGEST: Duration = Duration::from_secs(2);
    const MANY: Others = Others { writers: 5, writes: 5 };

    fn refused(pace: &mut Pace, others: Others, times: u32) -> Duration {
        (0..times).for_each(|_| pace.refused(others, TRIP, LONGEST));
        pace.window()
    }

    #[test]
    fn window_doubles_with_refusals_and_halves_with_writes() {
        let mut pace = Pace::default();
        assert_eq!(refused(&mut pace, MANY, 2), Duration::ZERO);
        assert_eq!(refused(&mut pace, MANY, 1), 2 * TRIP);
        assert_eq!(refused(&mut pace, MANY, 2), 8 * TRIP);
        pace.written(TRIP);
        assert_eq!(pace.window(), 4 * TRIP);
        assert_eq!(refused(&mut pace, MANY, 1), 8 * TRIP, "the contention goes on");
        assert_eq!(refused(&mut pace, MANY, 60), LONGEST);
        (0..20).for_each(|_| pace.written(TRIP));
        assert_eq!(pace.window(), Duration::ZERO);
    }

    #[test]
    fn a_few_busy_writers_shrink_the_window() {
        let mut pace = Pace::default();
        assert_eq!(refused(&mut pace, Others { writers: 1, writes: 1 }, 5), 8 * TRIP);
        assert_eq!(refused(&mut pace, Others { writers: 1, writes: 7 }, 3), TRIP);
        assert_eq!(refused(&mut pace, Others { writers: 0, writes: 7 }, 1), Duration::ZERO);
    }
}
