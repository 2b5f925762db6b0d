//! An etcd lease whose renewals a deposed leader may answer (LEASE-RENEWAL-IN-ONE-TERM), over
//! `renewal_counts`. A member that does not know the next term sends renewals to the leader of the term that
//! it knows.

use latchwork_core::Moment;
use latchwork_core::backend::decide::{renewal_counts, valid_until};

use crate::explore::{Broken, Protocol, offer};
use crate::{moment, ttl_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// A renewal counts without a read.
    Unconfirmed,
    /// A read of any term confirms a renewal.
    ByAnyTerm,
    /// The read may be sent before the renewal.
    ReadBefore,
}

#[derive(Clone, Debug)]
pub(super) struct Term {
    pub(super) ttl: u8,
    pub(super) ticks: u8,
    pub(super) elections: u8,
    pub(super) fault: Option<Fault>,
}

const MEMBERS: u8 = 2;
/// Zero of every clock.
const BASE: u8 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Renewal {
    Sent {
        at: u8,
        to: u8,
    },
    /// The member has noted its term for the answer.
    Noted {
        sent: u8,
        to: u8,
        term: u8,
    },
    /// A leader has renewed the lease, as far as it knows.
    Answered {
        sent: u8,
        term: u8,
    },
}

/// A quorum has confirmed the read, and its member has not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Read {
    from: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    now: u8,
    leaders: Vec<u8>,
    known: [u8; MEMBERS as usize],
    expires: u8,
    renewal: Option<Renewal>,
    read: Option<Read>,
    deadline: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Send(u8),
    Note,
    Renew,
    /// The client opens another stream.
    GiveUp,
    Confirm(u8),
    Reply,
    Elect(u8),
    Learn(u8),
    Tick,
}

impl State {
    fn term(&self) -> u8 {
        self.leaders.len() as u8
    }

    /// Returns whether the leader that this member knows answers renewals. A leader that knows of a later
    /// term does not.
    fn renews(&self, member: u8) -> bool {
        let known = self.known[usize::from(member)];
        let leader = self.leaders[usize::from(known) - 1];
        self.known[usize::from(leader)] == known
    }

    fn believes(&self) -> bool {
        moment(BASE + self.now) < self.deadline
    }

    fn proven(&mut self, sent: u8, ttl: u8) {
        self.deadline = self.deadline.max(valid_until(moment(BASE + sent), ttl_of(ttl)));
        (self.renewal, self.read) = (None, None);
    }
}

impl Protocol for Term {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            now: 0,
            leaders: vec![0],
            known: [1; MEMBERS as usize],
            expires: self.ttl,
            renewal: None,
            read: None,
            deadline: valid_until(moment(BASE), ttl_of(self.ttl)),
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if !state.believes() {
            return;
        }
        for member in 0..MEMBERS {
            let knows_term = state.known[usize::from(member)] == state.term();
            offer(steps, state.renewal.is_none(), Step::Send(member));
            offer(steps, !knows_term, Step::Learn(member));
            let may_elect = state.term() <= self.elections && state.leaders.last() != Some(&member);
            offer(steps, may_elect, Step::Elect(member));
            let is_answered = matches!(state.renewal, Some(Renewal::Answered { .. }));
            let may_read = is_answered || self.fault == Some(Fault::ReadBefore);
            offer(steps, may_read && state.read.is_none(), Step::Confirm(member));
        }
        let renews = matches!(state.renewal, Some(Renewal::Noted { to, .. }) if state.renews(to));
        offer(steps, matches!(state.renewal, Some(Renewal::Sent { .. })), Step::Note);
        offer(steps, renews, Step::Renew);
        offer(steps, state.renewal.is_some(), Step::GiveUp);
        let both = matches!(state.renewal, Some(Renewal::Answered { .. })) && state.read.is_some();
        offer(steps, both, Step::Reply);
        offer(steps, state.now < self.ticks, Step::Tick);
    }

    fn step(&self, state: &mut State, step: Step) {
        match step {
            Step::Send(to) => state.renewal = Some(Renewal::Sent { at: state.now, to }),
            Step::Note => {
                let Some(Renewal::Sent { at, to }) = state.renewal else { unreachable!("it was sent") };
                let term = state.known[usize::from(to)];
                state.renewal = Some(Renewal::Noted { sent: at, to, term });
            }
            Step::Renew => {
                let Some(Renewal::Noted { sent, to, term }) = state.renewal else {
                    unreachable!("it was noted")
                };
                if state.known[usize::from(to)] == state.term() {
                    state.expires = state.now + self.ttl;
                }
                state.renewal = Some(Renewal::Answered { sent, term });
                if self.fault == Some(Fault::Unconfirmed) {
                    state.proven(sent, self.ttl);
                }
            }
            Step::GiveUp => (state.renewal, state.read) = (None, None),
            // The member has applied everything up to the leader's first entry of its term.
            Step::Confirm(from) => {
                state.known[usize::from(from)] = state.term();
                state.read = Some(Read { from });
            }
            Step::Reply => {
                let (Some(Renewal::Answered { sent, term }), Some(Read { from })) =
                    (state.renewal, state.read)
                else {
                    unreachable!("both were answered")
                };
                let confirmed = state.known[usize::from(from)];
                let counts = self.fault == Some(Fault::ByAnyTerm)
                    || renewal_counts(u64::from(term), u64::from(confirmed));
                match counts {
                    true => state.proven(sent, self.ttl),
                    false => (state.renewal, state.read) = (None, None),
                }
            }
            // A new leader gives every lease its whole time again.
            Step::Elect(member) => {
                state.leaders.push(member);
                state.known[usize::from(member)] = state.term();
                state.expires = state.now + self.ttl;
            }
            Step::Learn(member) => state.known[usize::from(member)] = state.term(),
            Step::Tick => state.now += 1,
        }
    }

    fn verdict(&self, state: &State) -> Option<Broken> {
        (state.believes() && state.expires <= state.now).then_some(Broken::Believes)
    }
}

#[test]
fn a_lease_of_a_healthy_cluster_is_kept() {
    let model = Term { ttl: 12, ticks: u8::MAX, elections: 3, fault: None };
    let [mut state] = model.init_states().try_into().expect("one");
    for round in 0..120 {
        if round % 30 == 29 {
            model.step(&mut state, Step::Elect((round / 30 + 1) % MEMBERS));
        }
        let to = round % MEMBERS;
        for step in [
            Step::Learn(0),
            Step::Learn(1),
            Step::Send(to),
            Step::Note,
            Step::Renew,
            Step::Confirm(to),
            Step::Reply,
            Step::Tick,
        ] {
            let mut steps = Vec::new();
            model.actions(&state, &mut steps);
            if steps.contains(&step) {
                model.step(&mut state, step);
            }
        }
        assert!(state.believes(), "lost after {round} ticks");
    }
}
