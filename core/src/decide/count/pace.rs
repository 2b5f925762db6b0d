//! The pause of a client before its next compare-and-set of a count (COUNT-PACED).
//!
//! A client pauses for a random part of a window, which doubles while tries fail, as in Ethernet. After a
//! write it keeps half of its window, so it does not overtake the clients that pause. If a few busy clients
//! write again and again, a client that pauses would starve, so its window shrinks.

use std::time::Duration;

const AT_ONCE: u32 = 2;
/// Other writers are few and busy if on average each has made this many writes since the last try.
const BUSY: u64 = 3;

/// Writes of other writers between two reads of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Others {
    /// The number of those writers that the count remembers.
    pub writers: usize,
    /// The number of their writes.
    pub writes: u64,
}

/// The window of one client and count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    refusals: u32,
    window: Duration,
}

impl Pace {
    /// Returns the window of the next try. Zero: try at once, with the last known cell.
    pub fn window(&self) -> Duration {
        self.window
    }

    /// Records a write that was refused because others have written.
    pub fn refused(&mut self, others: Others, round_trip: Duration, longest: Duration) {
        self.refusals += 1;
        if others.writes >= BUSY * others.writers.max(1) as u64 {
            self.shrink(round_trip);
        } else if self.refusals > AT_ONCE || !self.window.is_zero() {
            self.window = (2 * self.window.max(round_trip)).min(longest);
        }
    }

    /// Records a write that succeeded.
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
