use std::fmt;
use std::ops::{Add, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// An instant on a [`Clock`], in nanoseconds since the clock's origin. Do not compare instants of different
/// clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// An instant that is never reached.
    pub const NEVER: Moment = Moment(u64::MAX);
    /// An instant that has always passed.
    pub const PAST: Moment = Moment(0);

    /// Makes the instant `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to this instant, or zero.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Moment;

    fn sub(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_sub(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// A monotonic clock that also counts while the machine sleeps (`CLOCK_BOOTTIME` on Linux), as the lease on
/// the server does (LEASE-CLOCK-COUNTS-SLEEP).
#[derive(Clone)]
pub struct Clock {
    source: TimeSource,
    ahead: Arc<Ahead>,
    // A test causes a race by an event right after one of the next readings.
    #[cfg(test)]
    meanwhile: Meanwhile,
}

struct Ahead {
    nanos: AtomicU64,
    jumped: Notify,
}

#[cfg(test)]
type Meanwhile = Arc<parking_lot::Mutex<Option<(usize, Box<dyn FnOnce() + Send>)>>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimeSource {
    System,
    Tokio(tokio::time::Instant),
}

/// A tokio timer does not count a machine's sleep.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);

impl Clock {
    /// Returns the machine's clock.
    pub fn system() -> Self {
        Self::of(TimeSource::System, 0)
    }

    /// Returns tokio's clock, which `tokio::time::pause` stops. For tests with one runtime.
    pub fn tokio() -> Self {
        // Far from zero, so that no subtraction near the origin saturates.
        Self::of(TimeSource::Tokio(tokio::time::Instant::now()), 1 << 40)
    }

    fn of(source: TimeSource, ahead: u64) -> Self {
        Self {
            source,
            ahead: Arc::new(Ahead { nanos: AtomicU64::new(ahead), jumped: Notify::new() }),
            #[cfg(test)]
            meanwhile: Meanwhile::default(),
        }
    }

    /// Returns whether this is tokio's clock.
    pub fn is_tokio(&self) -> bool {
        matches!(self.source, TimeSource::Tokio(_))
    }

    /// Returns the current instant.
    pub fn now(&self) -> Moment {
        let reading = match self.source {
            TimeSource::System => boottime(),
            TimeSource::Tokio(origin) => u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX),
        };
        let now = Moment(reading + self.ahead.nanos.load(Ordering::Acquire));
        #[cfg(test)]
        self.let_it_happen();
        now
    }

    /// Runs `event` after `skipped` readings and the next one.
    #[cfg(test)]
    pub(crate) fn meanwhile(&self, skipped: usize, event: impl FnOnce() + Send + 'static) {
        *self.meanwhile.lock() = Some((skipped, Box::new(event)));
    }

    #[cfg(test)]
    fn let_it_happen(&self) {
        let mut meanwhile = self.meanwhile.lock();
        match meanwhile.take() {
            Some((0, event)) => {
                drop(meanwhile);
                event();
            }
            later => *meanwhile = later.map(|(skipped, event)| (skipped - 1, event)),
        }
    }

    /// Sets the clock and all its clones forward, as if the machine had slept for `duration`. Every
    /// [`sleep_until`](Clock::sleep_until) whose moment has passed ends at once.
    pub fn jump(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 2);
        self.ahead.nanos.fetch_add(nanos, Ordering::AcqRel);
        self.ahead.jumped.notify_waiters();
    }

    /// Sleeps until `moment`. After a sleep of the machine it may be up to five seconds late, so a decision
    /// by a deadline must read [`Clock::now`].
    ///
    /// # Cancel safety
    /// A dropped call changes nothing.
    pub async fn sleep_until(&self, moment: Moment) {
        if moment == Moment::NEVER {
            return std::future::pending().await;
        }
        loop {
            // Made before the clock is read, so that no jump is missed.
            let jumped = self.ahead.jumped.notified();
            let left = moment.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::select! {
                // Tokio's timer rounds up to whole milliseconds: never early.
                () = tokio::time::sleep(left.min(LONGEST_SLEEP)) => {}
                () = jumped => {}
            }
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_tokio() { "Clock(tokio)" } else { "Clock(system)" })
    }
}

#[cfg(unix)]
fn boottime() -> u64 {
    use rustix::time::{ClockId, clock_gettime};
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const ID: ClockId = ClockId::Boottime;
    // Elsewhere on Unix only the monotonic clock is always there; macOS's counts sleep.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const ID: ClockId = ClockId::Monotonic;
    let time = clock_gettime(ID);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(not(unix))]
fn boottime() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    // On Windows `Instant` counts the machine's sleep.
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    u64::try_from(ORIGIN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX) + (1 << 40)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_is_seen_by_every_clone_at_once() {
        let clock = Clock::system();
        let (other, before) = (clock.clone(), clock.now());
        clock.jump(Duration::from_secs(3600));
        assert!(other.now().since(before) >= Duration::from_secs(3600));
    }

    #[tokio::test(start_paused = true)]
    async fn a_jump_past_its_moment_ends_a_sleep() {
        let clock = Clock::tokio();
        let (start, asleep) = (tokio::time::Instant::now(), clock.clone());
        let until = clock.now() + Duration::from_secs(60);
        let sleep = tokio::spawn(async move { asleep.sleep_until(until).await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        clock.jump(Duration::from_secs(30));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!sleep.is_finished(), "28 of its seconds are left");
        clock.jump(Duration::from_secs(28));
        sleep.await.expect("no panic");
        assert_eq!(start.elapsed(), Duration::from_secs(2), "no time has passed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_follows_the_paused_clock() {
        let clock = Clock::tokio();
        let start = clock.now();
        clock.sleep_until(start + Duration::from_secs(60)).await;
        let slept = clock.now().since(start);
        assert!(slept >= Duration::from_secs(60) && slept < Duration::from_millis(60_010), "{slept:?}");
    }
}
