//! Two nodes of one client on Redis, which expire separately. The client renews them in batches;
//! requests and replies may be late, lost or reordered. The client must never count on a node that
//! the server has given up.

use latchwork_core::Moment;
use latchwork_core::backend::decide::{renewal_period, valid_until};
use stateright::{Model, Property};

use crate::explore::{Broken, Protocol, sound};
use crate::{moment, ttl_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// LEASE-DEADLINE-PER-NODE: a confirmed renewal of any node moves the deadline of all.
    LeaseWide,
    /// LEASE-CLOCK-COUNTS-SLEEP: the client's clock stands still while its machine sleeps.
    MonotonicClock,
    /// LEASE-REMOVAL-IS-REPORTED: the client ignores the answer that a node is gone.
    GoneIgnored,
    /// LEASE-LOST-IS-FINAL: a reply after the deadline moves the deadline.
    LateReplies,
}

/// The bounds, in ticks.
#[derive(Clone, Debug)]
pub(super) struct Nodes {
    pub(super) ttl: u8,
    pub(super) ticks: u8,
    /// How many ticks the client's machine may sleep.
    pub(super) sleeps: u8,
    /// How many nodes the server may forget (a failover, an operator, an eviction).
    pub(super) forgets: u8,
    /// Whether a forgotten node is judged at once. The client cannot know of it before an answer
    /// says so.
    pub(super) strict: bool,
    pub(super) fault: Option<Fault>,
}

/// Zero of every clock.
const BASE: u8 = 8;
const NODES: usize = 2;
/// The largest number of messages on their way.
const IN_FLIGHT: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Message {
    Join {
        node: usize,
        sent: u8,
    },
    Renew {
        nodes: [bool; NODES],
        sent: u8,
    },
    /// The nodes of the request, and those that the server has.
    Reply {
        asked: [bool; NODES],
        there: [bool; NODES],
        sent: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Own {
    joined: bool,
    deadline: Moment,
    renew_at: Moment,
    /// The client saw the loss, so it is final.
    seen: bool,
    gone: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    now: u8,
    slept: u8,
    server: [Option<u8>; NODES],
    forgotten: [bool; NODES],
    own: [Own; NODES],
    net: Vec<Message>,
    forgets: u8,
    broken: Option<Broken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Join(usize),
    Renew([bool; NODES]),
    Deliver(Message),
    Lose(Message),
    /// `is_held()` is called.
    Look(usize),
    Forget(usize),
    Tick,
    Sleep,
}

impl State {
    fn local(&self, model: &Nodes) -> u8 {
        BASE + self.now - if model.fault == Some(Fault::MonotonicClock) { self.slept } else { 0 }
    }

    fn in_time(&self, model: &Nodes, node: usize) -> bool {
        moment(self.local(model)) < self.own[node].deadline
    }

    fn believes(&self, model: &Nodes, node: usize) -> bool {
        let own = &self.own[node];
        own.joined && !own.gone && self.in_time(model, node)
    }

    fn there(&self, node: usize) -> bool {
        self.server[node].is_some_and(|expires| expires > self.now)
    }

    fn send(&mut self, message: Message) {
        self.net.push(message);
        self.net.sort_unstable();
    }

    fn deliver(&mut self, model: &Nodes, message: Message) {
        match message {
            Message::Join { node, sent } => {
                // A join that arrives after the server gave the node up would make another node,
                // which this model leaves out.
                if self.server[node].is_none() && !self.forgotten[node] {
                    self.server[node] = Some(self.now + model.ttl);
                    let asked = std::array::from_fn(|other| other == node);
                    self.send(Message::Reply { asked, there: asked, sent });
                }
            }
            Message::Renew { nodes, sent } => {
                let there = std::array::from_fn(|node| nodes[node] && self.there(node));
                for node in (0..NODES).filter(|&node| there[node]) {
                    self.server[node] = Some(self.now + model.ttl);
                }
                self.send(Message::Reply { asked: nodes, there, sent });
            }
            Message::Reply { asked, there, sent } => self.hear(model, asked, there, sent),
        }
    }

    fn hear(&mut self, model: &Nodes, asked: [bool; NODES], there: [bool; NODES], sent: u8) {
        let proven = valid_until(moment(sent), ttl_of(model.ttl));
        let now = moment(self.local(model));
        for node in 0..NODES {
            let wide =
                model.fault == Some(Fault::LeaseWide) && there.contains(&true) && self.own[node].joined;
            let own = &mut self.own[node];
            if asked[node] && !there[node] && model.fault != Some(Fault::GoneIgnored) {
                own.gone = true;
            } else if there[node] || wide {
                let first = !own.joined;
                own.joined = true;
                // What the clock has ended stays lost, whatever the reply says
                // (LEASE-LOST-IS-FINAL).
                if first || now < own.deadline || model.fault == Some(Fault::LateReplies) {
                    own.deadline = own.deadline.max(proven);
                    own.renew_at = own.renew_at.max(moment(sent) + renewal_period(ttl_of(model.ttl)));
                }
                if own.seen && now < own.deadline && !own.gone {
                    self.broken = Some(Broken::Revived);
                }
            }
        }
    }

    /// Goes on without a fault. Returns whether the client knows within a third of the TTL that a
    /// forgotten node is gone (LEASE-REMOVAL-IS-REPORTED).
    fn reported_in_time(&self, model: &Nodes) -> bool {
        let mut run = self.clone();
        for _ in 0..=model.ttl.div_ceil(3) {
            loop {
                while !run.net.is_empty() {
                    let message = run.net.remove(0);
                    run.deliver(model, message);
                }
                let now = moment(run.local(model));
                let due =
                    std::array::from_fn(|node| run.believes(model, node) && now >= run.own[node].renew_at);
                if !due.contains(&true) {
                    break;
                }
                run.renew(model, due);
            }
            run.now += 1;
        }
        (0..NODES).all(|node| !run.forgotten[node] || !run.believes(model, node))
    }

    fn renew(&mut self, model: &Nodes, nodes: [bool; NODES]) {
        let sent = self.local(model);
        for node in (0..NODES).filter(|&node| nodes[node]) {
            self.own[node].renew_at = moment(sent) + renewal_period(ttl_of(model.ttl));
        }
        self.send(Message::Renew { nodes, sent });
    }
}

impl Protocol for Nodes {
    fn verdict(&self, state: &State) -> Option<Broken> {
        let judged = |node: usize| self.strict || !state.forgotten[node];
        if (0..NODES).any(|node| state.believes(self, node) && !state.there(node) && judged(node)) {
            return Some(Broken::Believes);
        }
        let unreported = self.forgets > 0 && !self.strict && !state.reported_in_time(self);
        state.broken.or(unreported.then_some(Broken::Slow))
    }
}

impl Model for Nodes {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let own =
            Own { joined: false, deadline: Moment::PAST, renew_at: Moment::PAST, seen: false, gone: false };
        vec![State {
            now: 0,
            slept: 0,
            server: [None; NODES],
            forgotten: [false; NODES],
            own: [own; NODES],
            net: Vec::new(),
            forgets: 0,
            broken: None,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if state.net.len() < IN_FLIGHT {
            let joining = |node: usize| {
                state
                    .net
                    .iter()
                    .any(|message| matches!(message, Message::Join { node: other, .. } if *other == node))
            };
            for node in 0..NODES {
                if state.server[node].is_none() && !state.own[node].joined && !joining(node) {
                    steps.push(Step::Join(node));
                }
            }
            let now = moment(state.local(self));
            let due = |node: usize| state.believes(self, node) && now >= state.own[node].renew_at;
            for nodes in [[true, false], [false, true], [true, true]] {
                if (0..NODES).all(|node| !nodes[node] || due(node)) {
                    steps.push(Step::Renew(nodes));
                }
            }
        }
        for &message in &state.net {
            steps.push(Step::Deliver(message));
            steps.push(Step::Lose(message));
        }
        for node in 0..NODES {
            let own = &state.own[node];
            if own.joined && !own.seen && !state.in_time(self, node) {
                steps.push(Step::Look(node));
            }
            if state.forgets < self.forgets && state.there(node) {
                steps.push(Step::Forget(node));
            }
        }
        if state.now < self.ticks {
            steps.push(Step::Tick);
            if state.slept < self.sleeps {
                steps.push(Step::Sleep);
            }
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Join(node) => {
                let sent = next.local(self);
                next.send(Message::Join { node, sent });
            }
            Step::Renew(nodes) => next.renew(self, nodes),
            Step::Deliver(message) | Step::Lose(message) => {
                let place = next.net.iter().position(|other| *other == message)?;
                next.net.remove(place);
                if matches!(step, Step::Deliver(_)) {
                    next.deliver(self, message);
                }
            }
            Step::Look(node) => next.own[node].seen = true,
            Step::Forget(node) => {
                next.forgets += 1;
                next.server[node] = None;
                next.forgotten[node] = true;
            }
            Step::Tick => next.now += 1,
            Step::Sleep => {
                next.now += 1;
                next.slept += 1;
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        sound()
    }
}
