//! A ZooKeeper session at a follower (LEASE-PROOF-BY-EARLIER-WRITE). The follower answers pings itself, and
//! reports contacts only in its answers to the leader's pings.

use std::time::Duration;

use latchwork_core::Moment;
use latchwork_core::backend::decide::{ContactProof, contact_period, valid_until};

use crate::explore::{Broken, Protocol, offer};
use crate::{TICK, moment, ttl_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    ByRead,
    /// The write proves contact from its own send.
    FromOwnSend,
    /// Contacts follow each other faster than the follower's pings.
    CloserThanPings,
}

/// A tickTime of ZooKeeper is four ticks of the model, and each second tick has a ping.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) ttl: u8,
    pub(super) ticks: u8,
    /// Ticks that the client's clock may lose.
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
    /// The follower knows that the client lives.
    Heard,
    /// The follower knows that the leader has committed the write.
    Committed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    now: u8,
    lag: u8,
    /// The follower's offset in the ping period.
    phase: u8,
    link: bool,
    /// The leader does not know the last contact.
    touched: bool,
    expires: u8,
    request: Option<(Request, u8)>,
    proof: ContactProof,
    /// The deadline that a fault computes.
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
        match self.fault {
            Some(Fault::CloserThanPings) => Duration::ZERO,
            _ => contact_period(ttl_of(self.ttl), TICK_TIME),
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
        // The answer to a ping at this tick carries the earlier contacts.
        if self.link && self.alive() && self.touched && (self.now + self.phase).is_multiple_of(PING) {
            self.expires = self.now + ttl;
            self.touched = false;
        }
        self.now += 1;
    }
}

impl Protocol for Session {
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
        if !state.believes() {
            return;
        }
        match state.request {
            None => offer(steps, state.local() >= state.proof.next_send(), Step::Send),
            Some((Request::Sent, _)) => steps.push(Step::Hear),
            Some((Request::Heard, _)) if self.fault == Some(Fault::ByRead) => steps.push(Step::Answer),
            Some((Request::Heard, _)) => offer(steps, state.link && state.alive(), Step::Commit),
            Some((Request::Committed, _)) => steps.push(Step::Answer),
        }
        offer(steps, state.link, Step::Cut);
        offer(steps, state.failovers < self.failovers && state.alive(), Step::Failover);
        offer(steps, state.now < self.ticks, Step::Tick);
        offer(steps, state.now < self.ticks && state.lag < self.slow, Step::SlowTick);
    }

    fn step(&self, state: &mut State, step: Step) {
        match step {
            Step::Send => state.request = Some((Request::Sent, BASE + state.now - state.lag)),
            Step::Hear => {
                state.touched = true;
                state.request = state.request.map(|(_, sent)| (Request::Heard, sent));
            }
            Step::Commit => state.request = state.request.map(|(_, sent)| (Request::Committed, sent)),
            Step::Answer => {
                let (_, sent) = state.request.take().expect("a request was sent");
                if matches!(self.fault, Some(Fault::ByRead | Fault::FromOwnSend)) {
                    state.deadline = state.deadline.max(valid_until(moment(sent), ttl_of(self.ttl)));
                }
                // With a fault, too, the next request keeps its distance.
                let _ = state.proof.acknowledged(moment(sent), state.local());
            }
            Step::Cut => state.link = false,
            // The new follower asks the leader to continue the session, which is a touch. So a failover only
            // extends a lease.
            Step::Failover => {
                state.failovers += 1;
                (state.link, state.touched, state.request) = (true, false, None);
                state.expires = state.now + self.ttl;
            }
            Step::Tick | Step::SlowTick => {
                state.tick(self.ttl);
                state.lag += u8::from(step == Step::SlowTick);
            }
        }
    }

    fn verdict(&self, state: &State) -> Option<Broken> {
        (state.believes() && !state.alive()).then_some(Broken::Believes)
    }
}

#[test]
fn a_healthy_session_is_kept() {
    let model = Session { ttl: 12, ticks: u8::MAX, slow: 0, failovers: 0, fault: None };
    for mut state in model.init_states() {
        for _ in 0..120 {
            loop {
                let mut steps = Vec::new();
                model.actions(&state, &mut steps);
                let answers = [Step::Send, Step::Hear, Step::Commit, Step::Answer];
                let Some(step) = answers.into_iter().find(|step| steps.contains(step)) else { break };
                model.step(&mut state, step);
            }
            model.step(&mut state, Step::Tick);
            assert!(state.believes() && state.alive(), "lost at {:?}", TICK * u32::from(state.now));
        }
    }
}
