//! Measured on the machine's clock.

use std::time::Duration;

use latchwork::{Moment, Token};

use super::event::{Event, WORKERS, What};
use super::timeline::brief;
use super::worker::{FATAL_TURN, TURNS};

/// From the end of a lease until a server notices. ZooKeeper rounds up to its tick (2 s by default, 3 s
/// without a configuration), etcd checks twice a second, and this machine may be busy.
const BOUND: Duration = Duration::from_secs(6);

struct Belief {
    worker: usize,
    token: Token,
    from: Moment,
    // `None` until its release or its death is reported.
    until: Option<Moment>,
}

#[derive(Default)]
pub(crate) struct Tally {
    beliefs: Vec<Belief>,
    waits: Vec<Duration>,
    killed: Option<Moment>,
    ttl: Duration,
    complaints: Vec<String>,
}

pub(crate) struct Seen {
    pub(crate) grants: usize,
    pub(crate) tokens_rise: bool,
    pub(crate) overlaps: usize,
    pub(crate) longest_wait: Duration,
    pub(crate) recovery: Option<Duration>,
    pub(crate) ttl: Duration,
    pub(crate) violations: Vec<String>,
}

impl Tally {
    pub(crate) fn note(&mut self, event: &Event) {
        match &event.what {
            What::Ready { ttl_ms } => self.ttl = self.ttl.max(Duration::from_millis(*ttl_ms)),
            What::Holds { token, waited_us, .. } => {
                let (worker, token, from) = (event.worker, *token, event.moment());
                self.beliefs.push(Belief { worker, token, from, until: None });
                self.waits.push(Duration::from_micros(*waited_us));
            }
            What::Releases => self.end_belief(event),
            What::Killed => {
                self.end_belief(event);
                self.killed = Some(event.moment());
            }
            What::Fails { error } => {
                self.end_belief(event);
                self.complain(format!("{}: {error}", event.name()));
            }
            What::Waits | What::Leaves => {}
        }
    }

    pub(crate) fn complain(&mut self, complaint: String) {
        self.complaints.push(complaint);
    }

    fn end_belief(&mut self, event: &Event) {
        let open = |belief: &&mut Belief| belief.worker == event.worker && belief.until.is_none();
        if let Some(belief) = self.beliefs.iter_mut().find(open) {
            belief.until = Some(event.moment());
        }
    }

    pub(crate) fn judge(mut self) -> Seen {
        self.beliefs.sort_by_key(|belief| belief.from);
        let recovery = self.killed.and_then(|killed| {
            self.beliefs.iter().find(|belief| belief.from >= killed).map(|belief| belief.from.since(killed))
        });
        let mut seen = Seen {
            grants: self.beliefs.len(),
            tokens_rise: self.beliefs.is_sorted_by(|one, next| one.token < next.token),
            overlaps: overlaps(&self.beliefs),
            longest_wait: self.waits.iter().max().copied().unwrap_or_default(),
            recovery,
            ttl: self.ttl,
            violations: self.complaints,
        };
        seen.check();
        seen
    }
}

impl Seen {
    fn check(&mut self) {
        // The dead worker has missed turns.
        let expected = WORKERS.len() * TURNS as usize - (TURNS - FATAL_TURN) as usize;
        if self.grants != expected {
            self.violations.push(format!("{} grants, {expected} were expected", self.grants));
        }
        if !self.tokens_rise {
            self.violations.push("tokens do not rise from holder to holder".to_owned());
        }
        if self.overlaps > 0 {
            self.violations.push(format!("{} holds began while another lasted", self.overlaps));
        }
        match self.recovery {
            None => self.violations.push("no worker got the lock after the kill".to_owned()),
            Some(recovery) if recovery > self.ttl + BOUND => {
                self.violations.push(format!("the lock came back only {} after the kill", brief(recovery)));
            }
            Some(_) => {}
        }
    }
}

fn overlaps(beliefs: &[Belief]) -> usize {
    let mut last_end = Moment::PAST;
    let mut overlaps = 0;
    for belief in beliefs {
        if belief.from < last_end {
            overlaps += 1;
        }
        last_end = last_end.max(belief.until.unwrap_or(Moment::NEVER));
    }
    overlaps
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(2);

    fn faultless() -> Vec<Event> {
        let grants = WORKERS.len() * TURNS as usize - (TURNS - FATAL_TURN) as usize;
        let mut events = vec![event(0, 0, What::Ready { ttl_ms: 2_000 })];
        for grant in 0..grants {
            let (worker, from) = (grant % WORKERS.len(), grant as u64 * 20);
            let end = if grant == 1 { What::Killed } else { What::Releases };
            events.push(event(worker, from, holds(grant as u64 + 1)));
            events.push(event(worker, from + 10, end));
        }
        events
    }

    fn event(worker: usize, ms: u64, what: What) -> Event {
        Event { worker, at: 1 + ms * 1_000_000, what }
    }

    fn holds(token: u64) -> What {
        What::Holds { turn: 1, token: Token::new(0, token).unwrap(), waited_us: 0 }
    }

    fn judged(events: &[Event]) -> Seen {
        let mut tally = Tally::default();
        events.iter().for_each(|event| tally.note(event));
        tally.judge()
    }

    #[test]
    fn a_faultless_run_has_no_violations() {
        let seen = judged(&faultless());
        assert_eq!(seen.violations, Vec::<String>::new());
        assert_eq!((seen.overlaps, seen.recovery, seen.ttl), (0, Some(Duration::from_millis(10)), TTL));
    }

    #[test]
    fn a_hold_that_begins_before_the_last_one_ends_is_a_violation() {
        let mut events = faultless();
        events[3].at -= 11_000_000;
        assert_eq!(judged(&events).overlaps, 1);
        assert_eq!(judged(&events).violations.len(), 1);
    }

    #[test]
    fn a_hold_without_a_reported_end_overlaps_all_later_ones() {
        let mut events = faultless();
        let last = events.len() - 3;
        events.remove(last);
        assert_eq!(judged(&events).overlaps, 1);
    }

    #[test]
    fn a_token_that_does_not_rise_is_a_violation() {
        let mut events = faultless();
        events[5].what = holds(2);
        assert!(!judged(&events).tokens_rise);
        assert_eq!(judged(&events).violations.len(), 1);
    }

    #[test]
    fn a_missing_grant_and_a_lock_that_never_comes_back_are_violations() {
        let seen = judged(&faultless()[..5]);
        assert_eq!(seen.recovery, None);
        assert_eq!(seen.violations.len(), 2);
    }

    #[test]
    fn a_late_recovery_is_a_violation() {
        let mut events = faultless();
        for event in &mut events[5..] {
            event.at += (TTL + BOUND).as_nanos() as u64;
        }
        assert_eq!(judged(&events).violations.len(), 1);
    }
}
