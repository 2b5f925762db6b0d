//! A ZooKeeper session behind a follower (LEASE-PROOF-BY-EARLIER-WRITE). The follower answers pings
//! itself, and reports contacts to its leader only with the answers to the leader's pings. The
//! client counts with core's `ContactProof`.

use std::time::Duration;

use latchwork_core::Moment;
use latchwork_core::backend::decide::{ContactProof, contact_period, valid_until};
use stateright::{Model, Property};

use crate::explore::{Broken, Protocol, sound};
use crate::{TICK, moment, ttl_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// A read, which the follower answers, counts as a proof.
    ByRead,
    /// An acknowledged write counts from its own send.
    FromOwnSend,
    /// Contacts may follow each other faster than the follower's pings.
    CloserThanPings,
}

/// The bounds, in ticks of the model. ZooKeeper's tickTime is four ticks, and a ping comes every
/// second tick.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) ttl: u8,
    pub(super) ticks: u8,
    /// How many ticks the client's clock may lose.
    pub(super) slow: u8,
    pub(super) failovers: u8,
    pub(super) fault: Option<Fault>,
}

const TICK_TIME: Duration = Duration::from_millis(800);
const PING: u8 = 2;
/// Zero of every clock.
const BASE: u8 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Request {
    Sent,
    /// The follower has the request, and knows that the client lives.
    Heard,
    /// The leader has committed the write, and the follower knows it.
    Committed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    now: u8,
    lag: u8,
    /// The follower's offset within the ping period.
    phase: u8,
    link: bool,
    /// The follower heard the client and has not reported it to the leader.
    touched: bool,
    /// When the leader ends the session.
    expires: u8,
    request: Option<(Request, u8)>,
    proof: ContactProof,
    /// The deadline, where a fault computes it.
    deadline: Moment,
    failovers: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Send,
    Hear,
    Commit,
    Answer,
    Cut,
    Failover,
    Tick,
    SlowTick,
}

impl Session {
    fn period(&self) -> Duration {
        if self.fault == Some(Fault::CloserThanPings) {
            Duration::ZERO
        } else {
            contact_period(ttl_of(self.ttl), TICK_TIME)
        }
    }
}

impl State {
    fn alive(&self) -> bool {
        self.expires > self.now
    }

    fn local(&self) -> Moment {
        moment(BASE + self.now - self.lag)
    }

    fn believes(&self) -> bool {
        self.local() < self.proof.deadline().max(self.deadline)
    }

    fn tick(&mut self, ttl: u8) {
        // The answer to a ping at this tick carries the contacts before it.
        if self.link && self.alive() && self.touched && (self.now + self.phase).is_multiple_of(PING) {
            self.expires = self.now + ttl;
            self.touched = false;
        }
        self.now += 1;
    }
}

impl Protocol for Session {
    fn verdict(&self, state: &State) -> Option<Broken> {
        (state.believes() && !state.alive()).then_some(Broken::Believes)
    }
}

impl Model for Session {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let created = moment(BASE);
        let start = |phase| State {
            now: 0,
            lag: 0,
            phase,
            link: true,
            touched: false,
            expires: self.ttl,
            request: None,
            proof: ContactProof::new(created, created, ttl_of(self.ttl), self.period()),
            deadline: Moment::PAST,
            failovers: 0,
        };
        (0..PING).map(start).collect()
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        // After the client has given up, nothing more can go wrong.
        if !state.believes() {
            return;
        }
        match state.request {
            None if state.local() >= state.proof.next_send() => steps.push(Step::Send),
            None => {}
            Some((Request::Sent, _)) => steps.push(Step::Hear),
            Some((Request::Heard, _)) if self.fault == Some(Fault::ByRead) => steps.push(Step::Answer),
            Some((Request::Heard, _)) if state.link && state.alive() => steps.push(Step::Commit),
            Some((Request::Heard, _)) => {}
            Some((Request::Committed, _)) => steps.push(Step::Answer),
        }
        if state.link {
            steps.push(Step::Cut);
        }
        if state.failovers < self.failovers && state.alive() {
            steps.push(Step::Failover);
        }
        if state.now < self.ticks {
            steps.push(Step::Tick);
            if state.lag < self.slow {
                steps.push(Step::SlowTick);
            }
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Send => next.request = Some((Request::Sent, BASE + next.now - next.lag)),
            Step::Hear => {
                next.touched = true;
                next.request = next.request.map(|(_, sent)| (Request::Heard, sent));
            }
            Step::Commit => next.request = next.request.map(|(_, sent)| (Request::Committed, sent)),
            Step::Answer => {
                let sent = moment(next.request.take()?.1);
                match self.fault {
                    Some(Fault::ByRead | Fault::FromOwnSend) => {
                        next.deadline = next.deadline.max(valid_until(sent, ttl_of(self.ttl)));
                        // The next request keeps the pace that it has without the fault.
                        let _ = next.proof.acknowledged(sent, next.local());
                    }
                    _ => {
                        let _ = next.proof.acknowledged(sent, next.local());
                    }
                }
            }
            Step::Cut => next.link = false,
            // Another follower asks the leader to go on with the session, which is a touch. So a
            // failover only extends a lease (LEASE-REMOVAL-IS-REPORTED).
            Step::Failover => {
                next.failovers += 1;
                (next.link, next.touched, next.request) = (true, false, None);
                next.expires = next.now + self.ttl;
            }
            Step::Tick => next.tick(self.ttl),
            Step::SlowTick => {
                next.tick(self.ttl);
                next.lag += 1;
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        sound()
    }
}

/// A session whose requests are all answered at once outlives ten TTLs.
#[test]
fn a_healthy_session_is_kept() {
    let model = Session { ttl: 12, ticks: u8::MAX, slow: 0, failovers: 0, fault: None };
    for mut state in model.init_states() {
        for _ in 0..120 {
            while let Some(step) =
                [Step::Send, Step::Hear, Step::Commit, Step::Answer].into_iter().find(|step| {
                    let mut steps = Vec::new();
                    model.actions(&state, &mut steps);
                    steps.contains(step)
                })
            {
                state = model.next_state(&state, step).expect("it was offered");
            }
            state = model.next_state(&state, Step::Tick).expect("time goes on");
            assert!(state.believes() && state.alive(), "lost at {:?}", TICK * u32::from(state.now));
        }
    }
}
