//! When SIGTERM and SIGKILL are sent to a command.

use std::time::Duration;

use latchwork::{Hold, HoldState, Moment};

use super::message::Order;

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// For the command to end.
    pub(super) grace: Duration,
    pub(super) ttl: Duration,
    /// The end of `--max-hold`.
    pub(super) fixed_end: Moment,
}

impl Bounds {
    pub(super) fn order(&self, now: Moment, hold: &Hold) -> Order {
        // The time left is read after `now`, so the end is not too late.
        let left = hold.remaining();
        self.of(now, hold.state(), left)
    }

    /// With a longer grace than an eighth of the TTL, the warning of a live hold would come between two
    /// renewals.
    fn of(&self, now: Moment, state: HoldState, left: Duration) -> Order {
        let end = now + left;
        let grace = match state {
            HoldState::Held => self.grace.min(self.ttl / 8),
            HoldState::Suspended | HoldState::Ended(_) => self.grace,
        };
        Order::Until { end, warn: (end - grace).min(self.fixed_end - self.grace) }
    }

    pub(super) fn period(&self) -> Duration {
        (self.ttl / 10).clamp(Duration::from_millis(50), Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment::from_nanos(1_000_000_000_000);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn order(bounds: Bounds, state: HoldState, left: u64) -> (Duration, Duration) {
        let Order::Until { end, warn } = bounds.of(NOW, state, seconds(left)) else { panic!("no end") };
        (end.since(NOW), warn.since(NOW))
    }

    #[test]
    fn a_suspended_hold_is_warned_a_grace_before_its_end() {
        let bounds = Bounds { grace: seconds(3), ttl: seconds(16), fixed_end: Moment::NEVER };
        assert_eq!(order(bounds, HoldState::Suspended, 9), (seconds(9), seconds(6)));
        assert_eq!(order(bounds, HoldState::Suspended, 2), (seconds(2), Duration::ZERO), "at once");
        assert_eq!(order(bounds, HoldState::Held, 9), (seconds(9), seconds(7)), "an eighth of the TTL");
    }

    #[test]
    fn a_fixed_end_is_warned_of_a_grace_before_it_while_the_lease_lives() {
        let bounds = Bounds { grace: seconds(3), ttl: seconds(16), fixed_end: NOW + seconds(5) };
        assert_eq!(order(bounds, HoldState::Held, 5), (seconds(5), seconds(2)));
    }

    /// Otherwise a healthy command would get SIGTERM: the longest time between two proofs of a lease, plus
    /// the period of the orders, must be shorter than the time until the warning.
    #[test]
    fn no_warning_comes_while_all_is_well() {
        for ttl in [1, 2, 10, 60, 3600].map(seconds) {
            let bounds = Bounds { grace: seconds(3600), ttl, fixed_end: Moment::NEVER };
            let least = ttl
                - latchwork_core::backend::decide::margin(ttl)
                - latchwork_core::backend::decide::renewal_period(ttl);
            let Order::Until { warn, .. } = bounds.of(NOW, HoldState::Held, least) else { panic!("no end") };
            assert!(warn > NOW + bounds.period(), "{ttl:?}");
        }
    }
}
