use std::time::Duration;

use latchwork_core::{Moment, Result};

use crate::scripts::Looked;

/// Half of the shortest TTL.
const SOON: Duration = Duration::from_millis(500);
/// A node or cell may exist for a moment after its expiry.
const SOONEST: Duration = Duration::from_millis(5);
const AGAIN: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct NextLook {
    pub(super) at: Moment,
    may_end: bool,
}

impl NextLook {
    pub(super) const NEVER: Self = Self { at: Moment::NEVER, may_end: false };

    pub(super) fn told(&mut self, now: Moment, may_end: bool) {
        let at = if may_end { self.at.min(now + SOON) } else { Moment::NEVER };
        *self = Self { at, may_end };
    }

    pub(super) fn looked(&mut self, now: Moment, looked: Result<(Looked, bool)>) -> Result<bool> {
        let (looked, told) = match looked {
            Ok(looked) => looked,
            Err(error) if error.may_pass() => {
                self.at = now + AGAIN;
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        let has_ended = self.may_end && looked == Looked::Nothing && !told;
        *self = match looked {
            Looked::Ends(ahead) => Self { at: now + ahead.max(SOONEST), may_end: true },
            Looked::Stays | Looked::Nothing => Self { at: Moment::NEVER, may_end: false },
        };
        Ok(has_ended)
    }
}

#[cfg(test)]
mod tests {
    use latchwork_core::{Error, ErrorKind};

    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    fn looked(next: &mut NextLook, now: Moment, looked: Looked) -> bool {
        next.looked(now, Ok((looked, false))).unwrap()
    }

    #[test]
    fn watch_looks_at_possible_expiry_and_reports_silent_end() {
        let mut next = NextLook::NEVER;
        assert!(!looked(&mut next, at(0), Looked::Nothing) && next.at == Moment::NEVER);
        next.told(at(100), true);
        next.told(at(300), true);
        assert_eq!(next.at, at(100) + SOON);
        assert!(!looked(&mut next, at(600), Looked::Ends(TTL)) && next.at == at(600) + TTL);
        assert!(!looked(&mut next, at(10_600), Looked::Ends(Duration::ZERO)));
        assert_eq!(next.at, at(10_600) + SOONEST);
        assert!(looked(&mut next, at(10_605), Looked::Nothing), "an end by expiry, without a message");
        assert!(!looked(&mut next, at(10_606), Looked::Nothing), "the watch has reported the end already");
        // An end with a message, or found by this look.
        next.told(at(11_000), true);
        next.told(at(11_001), false);
        assert!(next.at == Moment::NEVER && !looked(&mut next, at(11_002), Looked::Nothing));
        next.told(at(12_000), true);
        assert!(!next.looked(at(12_500), Ok((Looked::Nothing, true))).unwrap());
        next.told(at(13_000), true);
        assert!(!looked(&mut next, at(13_500), Looked::Stays) && next.at == Moment::NEVER);
    }

    #[test]
    fn a_look_without_an_answer_is_repeated_and_a_refused_one_ends_the_watch() {
        let mut next = NextLook { at: at(0), may_end: true };
        let error = |kind| Err(Error::new(kind, "test"));
        assert!(!next.looked(at(100), error(ErrorKind::Unavailable)).unwrap());
        assert_eq!((next.at, next.may_end), (at(100) + AGAIN, true));
        next.looked(at(200), error(ErrorKind::Forbidden)).unwrap_err();
    }
}
