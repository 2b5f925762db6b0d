//! Two nodes of one client on Redis, which expire separately and are renewed in batches. Requests and replies
//! may be late, lost or reordered. The client must not count on a node that the server has ended.

use latchwork_core::Moment;
use latchwork_core::backend::decide::{renewal_period, valid_until};

use crate::explore::{Broken, Protocol, offer};
use crate::{moment, ttl_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// LEASE-DEADLINE-PER-NODE: an answer about one node extends both deadlines.
    LeaseWide,
    /// LEASE-CLOCK-COUNTS-SLEEP: the client's clock stops while the machine sleeps.
    MonotonicClock,
    /// LEASE-REMOVAL-IS-REPORTED: the client ignores that a node is gone.
    GoneIgnored,
    /// LEASE-LOST-IS-FINAL: a reply after the deadline counts.
    LateReplies,
}

/// All times are in ticks.
#[derive(Clone, Debug)]
pub(super) struct Nodes {
    pub(super) ttl: u8,
    pub(super) ticks: u8,
    pub(super) sleeps: u8,
    pub(super) forgets: u8,
    /// A forgotten node counts at once, before an answer reports it.
    pub(super) strict: bool,
    pub(super) fault: Option<Fault>,
}

/// Zero of every clock.
const BASE: u8 = 8;
const NODES: usize = 2;
type Which = [bool; NODES];
const IN_FLIGHT: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Message {
    Join { node: usize, sent: u8 },
    Renew { nodes: Which, sent: u8 },
    Reply { asked: Which, there: Which, sent: u8 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Own {
    joined: bool,
    deadline: Moment,
    renew_at: Moment,
    seen: bool,
    gone: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    now: u8,
    slept: u8,
    server: [Option<u8>; NODES],
    forgotten: Which,
    own: Vec<Own>,
    net: Vec<Message>,
    forgets: u8,
    broken: Option<Broken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Join(usize),
    Renew(Which),
    Deliver(Message),
    Lose(Message),
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

    fn due(&self, model: &Nodes) -> Which {
        let now = moment(self.local(model));
        std::array::from_fn(|node| self.believes(model, node) && now >= self.own[node].renew_at)
    }

    fn send(&mut self, message: Message) {
        self.net.push(message);
        self.net.sort_unstable();
    }

    fn deliver(&mut self, model: &Nodes, message: Message) {
        match message {
            Message::Join { node, sent } => {
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

    fn hear(&mut self, model: &Nodes, asked: Which, there: Which, sent: u8) {
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
                // LEASE-LOST-IS-FINAL.
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

    /// LEASE-REMOVAL-IS-REPORTED: within a third of the TTL, in a run without faults.
    fn reported_in_time(&self, model: &Nodes) -> bool {
        let mut run = self.clone();
        for _ in 0..=model.ttl.div_ceil(3) {
            loop {
                while !run.net.is_empty() {
                    let message = run.net.remove(0);
                    run.deliver(model, message);
                }
                let due = run.due(model);
                if !due.contains(&true) {
                    break;
                }
                run.renew(model, due);
            }
            run.now += 1;
        }
        (0..NODES).all(|node| !run.forgotten[node] || !run.believes(model, node))
    }

    fn renew(&mut self, model: &Nodes, nodes: Which) {
        let sent = self.local(model);
        for node in (0..NODES).filter(|&node| nodes[node]) {
            self.own[node].renew_at = moment(sent) + renewal_period(ttl_of(model.ttl));
        }
        self.send(Message::Renew { nodes, sent });
    }
}

impl Protocol for Nodes {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let own =
            Own { joined: false, deadline: Moment::PAST, renew_at: Moment::PAST, seen: false, gone: false };
        vec![State { own: vec![own; NODES], ..State::default() }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if state.net.len() < IN_FLIGHT {
            for node in 0..NODES {
                let join =
                    |message: &Message| matches!(message, Message::Join { node: of, .. } if *of == node);
                let joined = state.server[node].is_some() || state.own[node].joined;
                offer(steps, !joined && !state.net.iter().any(join), Step::Join(node));
            }
            let due = state.due(self);
            let batches = [[true, false], [false, true], [true, true]];
            let all_due = |nodes: &Which| (0..NODES).all(|node| !nodes[node] || due[node]);
            steps.extend(batches.into_iter().filter(all_due).map(Step::Renew));
        }
        for &message in &state.net {
            steps.extend([Step::Deliver(message), Step::Lose(message)]);
        }
        for node in 0..NODES {
            let own = &state.own[node];
            offer(steps, own.joined && !own.seen && !state.in_time(self, node), Step::Look(node));
            offer(steps, state.forgets < self.forgets && state.there(node), Step::Forget(node));
        }
        offer(steps, state.now < self.ticks, Step::Tick);
        offer(steps, state.now < self.ticks && state.slept < self.sleeps, Step::Sleep);
    }

    fn step(&self, state: &mut State, step: Step) {
        match step {
            Step::Join(node) => {
                let sent = state.local(self);
                state.send(Message::Join { node, sent });
            }
            Step::Renew(nodes) => state.renew(self, nodes),
            Step::Deliver(message) | Step::Lose(message) => {
                let place = state.net.iter().position(|other| *other == message);
                state.net.remove(place.expect("it is on its way"));
                if matches!(step, Step::Deliver(_)) {
                    state.deliver(self, message);
                }
            }
            Step::Look(node) => state.own[node].seen = true,
            Step::Forget(node) => {
                state.forgets += 1;
                state.server[node] = None;
                state.forgotten[node] = true;
            }
            Step::Tick => state.now += 1,
            Step::Sleep => (state.now, state.slept) = (state.now + 1, state.slept + 1),
        }
    }

    fn verdict(&self, state: &State) -> Option<Broken> {
        let judged = |node: usize| self.strict || !state.forgotten[node];
        if (0..NODES).any(|node| state.believes(self, node) && !state.there(node) && judged(node)) {
            return Some(Broken::Believes);
        }
        let unreported = self.forgets > 0 && !self.strict && !state.reported_in_time(self);
        state.broken.or(unreported.then_some(Broken::Slow))
    }
}
