//! Detects pauses of the machine. A pause longer than [`NOISE`] ends leases and misses deadlines without a fault of the backend.

use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::bounds::NOISE;

const LOOK: Duration = Duration::from_millis(20);

static SEEN: Mutex<Standstills> = Mutex::new(Standstills { looked: None, still: Vec::new() });
static LOOKS: Once = Once::new();

struct Standstills {
    looked: Option<Instant>,
    still: Vec<(Instant, Instant)>,
}

impl Standstills {
    fn look(&mut self, now: Instant) {
        if let Some(looked) = self.looked
            && now.duration_since(looked) > NOISE + LOOK
        {
            self.still.push((looked, now));
        }
        self.looked = Some(now);
    }

    fn longest(&self, begin: Instant, now: Instant) -> Duration {
        let under_way = self.looked.map(|looked| (looked, now));
        let all = self.still.iter().copied().chain(under_way);
        all.map(|(from, until)| until.saturating_duration_since(from.max(begin))).max().unwrap_or_default()
    }
}

fn seen() -> MutexGuard<'static, Standstills> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn begin() {
    LOOKS.call_once(|| {
        thread::spawn(|| {
            loop {
                seen().look(Instant::now());
                thread::sleep(LOOK);
            }
        });
    });
}

/// Values up to [`NOISE`] have no meaning.
pub(crate) fn stood_still_since(begin: Instant) -> Duration {
    seen().longest(begin, Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_before_a_late_look_counts_from_the_begin_instant() {
        let begin = Instant::now();
        let at = |millis: u64| begin + Duration::from_millis(millis);
        let mut seen = Standstills { looked: None, still: Vec::new() };
        for looks in [0, 20, 1_400, 1_420] {
            seen.look(at(looks));
        }
        assert!(seen.longest(begin, at(1_430)) < NOISE, "that is a busy machine");
        seen.look(at(5_420));
        assert_eq!(seen.longest(begin, at(5_430)), Duration::from_secs(4));
        assert_eq!(seen.longest(at(3_420), at(5_430)), Duration::from_secs(2));
        assert!(seen.longest(at(5_420), at(5_430)) < NOISE);
        assert_eq!(seen.longest(at(5_420), at(8_420)), Duration::from_secs(3));
    }
}
