//! Model A: clients, a network that delays, loses and reorders, and the Redis node queue.

mod client;
mod recovery;
mod rules;
mod server;

use latchwork_core::Moment;
use latchwork_core::contracts::{NodeId, Patience};
use latchwork_core::decide::queue::{Answer, Ask, Micros, Queue};
use latchwork_core::decide::{Claim, fits};
use stateright::{Model, Property};

use crate::explore::{Broken, Protocol, sound};
use crate::{TICK, moment, ttl_of};
use client::{Client, Phase};
use server::{Second, Server};

/// What can be planted, by the rule that forbids it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// A1: only the first node of the queue is looked at for expiry.
    PruneFirstOnly,
    /// A1: whoever fits beside the holders is admitted, whoever waits before it.
    AgainstHoldersOnly,
    /// A3: the deadline counts from the arrival of the reply.
    FromArrival,
    /// A4: the client believes as long as the server does.
    NoMargin,
    /// A5: late replies are acted on, and RENEW finds the node by id alone.
    LateRepliesAndNamesById,
    /// A6: the hand-off message counts as a renewal.
    HandOffRenews,
    /// A6: any hand-off message of the queue admits whoever waits.
    HandOffByQueueOnly,
    /// A7: a hand-off message that overtakes the reply of JOIN is thrown away.
    NoLatch,
    /// A8: admission gives the node a new TTL.
    AdmissionExtends,
    /// A9: JOIN always adds a node.
    NoLookUpById,
    /// A9: all attempts of a client have one id (so no tombstone can be kept, and LEAVE is by id).
    OneIdForAllAttempts,
    /// A10: LEAVE removes the client's node, whichever it is.
    LeaveByClient,
    /// A11: the leave of an unknown JOIN keeps nothing for the JOIN to meet.
    NoTombstone,
    /// A12: a waiter learns nothing from the answer of RENEW.
    RenewalTellsNothing,
    /// A12: RENEW neither drops the expired nor admits.
    RenewDoesNotPrune,
    /// A13: a waiter looks again at its own renewals only.
    LooksAtRenewalsOnly,
    /// A14: JOIN and RENEW tell nobody whom they admit.
    OnlyLeavesPublish,
    /// A17: expiries are not clamped when the server's clock steps back.
    NoClamp,
}

/// The bounds of an exploration, and the fault that is planted.
#[derive(Clone, Debug)]
pub(crate) struct Redis {
    /// One client each.
    pub(crate) claims: Vec<Claim>,
    pub(crate) limit: u32,
    /// The TTL in ticks.
    pub(crate) ttl: u8,
    /// How far time goes.
    pub(crate) ticks: u8,
    /// How often each client joins.
    pub(crate) attempts: Vec<u8>,
    /// How often a client repeats a JOIN, and a leave.
    pub(crate) repeats: u8,
    /// How many messages may be on their way when a client sends one more.
    pub(crate) in_flight: usize,
    pub(crate) losses: u8,
    pub(crate) crashes: u8,
    /// How many ticks one client's clock may miss.
    pub(crate) slow: u8,
    /// How many ticks the server's clock may step back.
    pub(crate) back: u8,
    pub(crate) tries: bool,
    pub(crate) fault: Option<Fault>,
    /// What alone is judged; everything when there is no fault.
    pub(crate) only: Option<Broken>,
}

/// Zero of every clock, so that no clock is ever before its origin.
const BASE: u8 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Attempt {
    client: u8,
    number: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Message {
    Join {
        by: Attempt,
        sent: u8,
        wait: bool,
    },
    Renew {
        by: Attempt,
        sequence: u64,
        sent: u8,
    },
    Leave {
        by: Attempt,
        sequence: u64,
    },
    Abandon {
        by: Attempt,
    },
    /// Answers JOIN and RENEW. `at` is the client's clock when the request was sent.
    Answer {
        to: Attempt,
        asked: Asked,
        at: u8,
        told: Told,
    },
    Left {
        to: Attempt,
    },
    HandOff {
        to: Attempt,
        sequence: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Asked {
    Join,
    Renew { sequence: u64 },
}

/// What an answer tells; `ahead` is how many ticks what it waits for has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Told {
    Admitted { sequence: u64 },
    Waiting { sequence: u64, ahead: u8 },
    Refused,
    Gone,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    now: u8,
    back: u8,
    server: Server,
    /// On its way, in no order: sorted, so that states that differ in history only are one.
    net: Vec<Message>,
    clients: Vec<Client>,
    losses: u8,
    crashes: u8,
    slow: u8,
    // What follows is for the judge alone.
    made: Vec<(u64, Attempt)>,
    highest_token: u64,
    broken: Option<Broken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Join(usize),
    Try(usize),
    JoinAgain(usize),
    Renew(usize),
    Leave(usize),
    LeaveAgain(usize),
    Deliver(Message),
    Lose(Message),
    Crash(usize),
    Tick,
    SlowTick(usize),
    ClockBack,
}

pub(crate) fn client_of(id: NodeId) -> char {
    id.hyphenated().chars().nth(1).expect("the client's digit")
}

impl Redis {
    fn id(&self, attempt: Attempt) -> NodeId {
        let number = if self.fault == Some(Fault::OneIdForAllAttempts) { 0 } else { attempt.number };
        let mut bytes = [0; 16];
        (bytes[0], bytes[1]) = (attempt.client, number);
        NodeId::from_bytes(bytes)
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn judges(&self, broken: Broken) -> bool {
        self.only.is_none_or(|only| only == broken)
    }

    /// Faults of the server are planted in the list; otherwise it is core's queue that is explored.
    fn server(&self) -> Server {
        use Fault::*;
        match self.fault {
            Some(
                PruneFirstOnly
                | AgainstHoldersOnly
                | LateRepliesAndNamesById
                | AdmissionExtends
                | NoLookUpById
                | OneIdForAllAttempts
                | LeaveByClient
                | NoTombstone
                | RenewDoesNotPrune
                | OnlyLeavesPublish
                | NoClamp,
            ) => Server::Second(Second::new(self.fault)),
            _ => Server::Core(Queue::new()),
        }
    }
}

impl State {
    fn server_time(&self) -> Micros {
        (Micros::from(BASE) + Micros::from(self.now) - Micros::from(self.back)) * TICK.as_micros() as Micros
    }

    fn local(&self, client: usize) -> u8 {
        BASE + self.now - self.clients[client].lag
    }

    fn local_moment(&self, client: usize) -> Moment {
        moment(self.local(client))
    }

    fn send(&mut self, message: Message) {
        let place = self.net.binary_search(&message).unwrap_or_else(|place| place);
        self.net.insert(place, message);
    }

    fn take(&mut self, message: Message) {
        let place = self.net.binary_search(&message).expect("it is on its way");
        self.net.remove(place);
    }

    fn deliver(&mut self, model: &Redis, message: Message) {
        self.take(message);
        match message {
            Message::Join { .. }
            | Message::Renew { .. }
            | Message::Leave { .. }
            | Message::Abandon { .. } => {
                self.serve(model, message);
            }
            Message::Answer { to, .. } | Message::Left { to } | Message::HandOff { to, .. } => {
                if self.clients[usize::from(to.client)].alive {
                    self.hear(model, message);
                }
            }
        }
    }

    /// The server carries a request out, and the judge looks at what it did.
    fn serve(&mut self, model: &Redis, request: Message) {
        let now = self.server_time();
        let before = self.server.nodes();
        let (by, told, reply) = match request {
            Message::Join { by, sent, wait } => {
                let ask = Ask {
                    id: model.id(by),
                    claim: model.claims[usize::from(by.client)],
                    limit: Some(model.limit),
                    ttl: Micros::from(model.ttl) * TICK.as_micros() as Micros,
                    patience: if wait { Patience::Wait } else { Patience::Try },
                };
                let (answer, told) = self.server.join(now, &ask);
                let reply = Message::Answer { to: by, asked: Asked::Join, at: sent, told: tell(answer, now) };
                (by, told, reply)
            }
            Message::Renew { by, sequence, sent } => {
                let (answer, told) = self.server.renew(now, model.id(by), sequence);
                let asked = Asked::Renew { sequence };
                (by, told, Message::Answer { to: by, asked, at: sent, told: tell(answer, now) })
            }
            Message::Leave { by, sequence } => {
                (by, self.server.leave(now, model.id(by), sequence), Message::Left { to: by })
            }
            Message::Abandon { by } => (by, self.server.abandon(now, model.id(by)), Message::Left { to: by }),
            _ => unreachable!("only requests are served"),
        };
        let after = self.server.nodes();
        if told.iter().any(|(id, _)| !after.iter().any(|node| node.id == *id && node.admitted)) {
            self.broken = Some(Broken::Crowd);
        }
        for gone in before.iter().filter(|node| !after.iter().any(|left| left.sequence == node.sequence)) {
            let owner =
                self.made.iter().find(|(sequence, _)| *sequence == gone.sequence).map(|(_, owner)| *owner);
            if gone.expires > now && owner != Some(by) {
                self.broken = Some(Broken::ForeignLeave);
            }
        }
        self.made.retain(|(sequence, _)| after.iter().any(|node| node.sequence == *sequence));
        for new in after.iter().filter(|node| !before.iter().any(|old| old.sequence == node.sequence)) {
            self.made.push((new.sequence, by));
        }
        let mut waits = false;
        for node in after.iter().filter(|node| node.expires > now) {
            waits |= !node.admitted;
            if waits && node.admitted {
                self.broken = Some(Broken::Overtaken);
            }
        }
        for (id, sequence) in told {
            if let Some((_, to)) = self.made.iter().find(|(made, _)| *made == sequence) {
                debug_assert_eq!(model.id(*to), id);
                self.send_alive(Message::HandOff { to: *to, sequence }, *to);
            }
        }
        self.send_alive(reply, by);
    }

    fn send_alive(&mut self, message: Message, to: Attempt) {
        if self.clients[usize::from(to.client)].alive {
            self.send(message);
        }
    }

    /// Whether a message of this attempt may still reach the server.
    fn request_of(&self, attempt: Attempt) -> bool {
        self.net.iter().any(|message| match message {
            Message::Join { by, .. }
            | Message::Renew { by, .. }
            | Message::Leave { by, .. }
            | Message::Abandon { by } => *by == attempt,
            _ => false,
        })
    }

    /// What is wrong with who believes to hold.
    fn holders(&self, model: &Redis) -> Option<Broken> {
        let believers = (0..self.clients.len()).filter(|&index| self.believes(index));
        let mut holders = Vec::new();
        for index in believers.clone() {
            let claim = model.claims[index];
            // `fits` looks at the later claim alone, so an exclusive one that comes first is looked for.
            if !fits(holders.iter().copied(), claim, model.limit) || holders.contains(&Claim::Exclusive) {
                return Some(Broken::TwoHolders);
            }
            holders.push(claim);
        }
        let old = |index: usize| {
            model.claims[index] == Claim::Exclusive && self.clients[index].sequence < self.highest_token
        };
        believers.into_iter().any(old).then_some(Broken::TokenBack)
    }

    /// What is wrong with the nodes on the server.
    fn nodes(&self, model: &Redis) -> Option<Broken> {
        let nodes = self.server.nodes();
        let now = self.server_time();
        for (place, (sequence, owner)) in self.made.iter().enumerate() {
            let alone = self.made[..place].iter().all(|(_, other)| other != owner);
            if !alone && model.judges(Broken::TwoNodes) {
                return Some(Broken::TwoNodes);
            }
            let index = usize::from(owner.client);
            let client = &self.clients[index];
            let node = nodes.iter().find(|node| node.sequence == *sequence).expect("it was just made");
            if !client.alive || node.expires <= now {
                continue;
            }
            let closed = owner.number < client.number || client.phase == Phase::Idle;
            if closed && !self.request_of(*owner) && model.judges(Broken::Ghost) {
                return Some(Broken::Ghost);
            }
            let asleep = !closed && client.phase == Phase::Waiting && client.sequence == *sequence;
            let in_time = self.local_moment(index) < client.deadline;
            let silence = self.losses == 0 && !self.net.iter().any(|message| concerns(message, *owner));
            if node.admitted && asleep && in_time && silence && model.judges(Broken::Uninformed) {
                return Some(Broken::Uninformed);
            }
        }
        None
    }
}

fn concerns(message: &Message, attempt: Attempt) -> bool {
    match message {
        Message::Join { by, .. }
        | Message::Renew { by, .. }
        | Message::Leave { by, .. }
        | Message::Abandon { by } => *by == attempt,
        Message::Answer { to, .. } | Message::Left { to } | Message::HandOff { to, .. } => *to == attempt,
    }
}

fn tell(answer: Answer, now: Micros) -> Told {
    match answer {
        Answer::Admitted { sequence } => Told::Admitted { sequence },
        Answer::Waiting { sequence, ahead_expires } => {
            let ahead = ahead_expires.saturating_sub(now).div_ceil(TICK.as_micros() as Micros);
            Told::Waiting { sequence, ahead: u8::try_from(ahead).expect("a few ticks") }
        }
        Answer::Refused => Told::Refused,
        Answer::Gone => Told::Gone,
        Answer::Conflict { stored } => unreachable!("one limit for all, but {stored:?} was stored"),
    }
}

impl Protocol for Redis {
    fn verdict(&self, state: &State) -> Option<Broken> {
        let judged = |broken: &Broken| self.judges(*broken);
        let recovers = self.only.is_none_or(|only| matches!(only, Broken::Stuck | Broken::Slow));
        (state.broken.filter(judged))
            .or_else(|| state.holders(self).filter(judged))
            .or_else(|| state.nodes(self))
            .or_else(|| recovers.then(|| recovery::verdict(self, state)).flatten().filter(judged))
    }
}

impl Model for Redis {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let clients = self.claims.iter().map(|_| Client::new()).collect();
        vec![State {
            now: 0,
            back: 0,
            server: self.server(),
            net: Vec::new(),
            clients,
            losses: 0,
            crashes: 0,
            slow: 0,
            made: Vec::new(),
            highest_token: 0,
            broken: None,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        let room = state.net.len() < self.in_flight;
        for (index, client) in state.clients.iter().enumerate().filter(|(_, client)| client.alive) {
            if room {
                self.client_actions(state, index, client, steps);
            } else if !matches!(client.phase, Phase::Idle | Phase::Leaving { .. }) {
                steps.push(Step::Leave(index));
            }
            if state.crashes < self.crashes && client.phase != Phase::Idle {
                steps.push(Step::Crash(index));
            }
        }
        let mut last = None;
        for &message in &state.net {
            if last.replace(message) == Some(message) {
                continue;
            }
            steps.push(Step::Deliver(message));
            if state.losses < self.losses {
                steps.push(Step::Lose(message));
            }
        }
        if state.now < self.ticks {
            steps.push(Step::Tick);
            if state.slow < self.slow {
                let living = (0..state.clients.len()).filter(|&index| state.clients[index].alive);
                steps.extend(living.map(Step::SlowTick));
            }
        }
        if state.back < self.back {
            steps.push(Step::ClockBack);
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Join(index) => next.join(index, true),
            Step::Try(index) => next.join(index, false),
            Step::JoinAgain(index) => next.join_again(index),
            Step::Renew(index) => next.renew(self, index),
            Step::Leave(index) => next.leave(index),
            Step::LeaveAgain(index) => next.leave_again(index),
            Step::Deliver(message) => next.deliver(self, message),
            Step::Lose(message) => {
                next.take(message);
                next.losses += 1;
            }
            Step::Crash(index) => {
                next.clients[index] = Client::dead();
                next.crashes += 1;
                // Its mail is of no interest any more; what it sent is.
                next.net.retain(|message| {
                    !matches!(message,
                    Message::Answer { to, .. } | Message::Left { to } | Message::HandOff { to, .. }
                    if usize::from(to.client) == index)
                });
            }
            Step::Tick => next.now += 1,
            Step::SlowTick(index) => {
                next.now += 1;
                next.clients[index].lag += 1;
                next.slow += 1;
            }
            Step::ClockBack => next.back += 1,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        sound()
    }
}

impl Redis {
    fn client_actions(&self, state: &State, index: usize, client: &Client, steps: &mut Vec<Step>) {
        match client.phase {
            Phase::Idle => {
                // Clients of one claim are alike: the first attempts come in order, and nothing is missed.
                let in_turn = client.number > 0
                    || index == 0
                    || self.claims[index - 1] != self.claims[index]
                    || state.clients[index - 1].number > 0
                    || !state.clients[index - 1].alive;
                if client.number < self.attempts[index] && in_turn {
                    steps.push(Step::Join(index));
                    if self.tries {
                        steps.push(Step::Try(index));
                    }
                }
            }
            Phase::Joining { .. } => {
                if client.repeats < self.repeats {
                    steps.push(Step::JoinAgain(index));
                }
                steps.push(Step::Leave(index));
            }
            Phase::Waiting | Phase::Holding => {
                let lost = state.local_moment(index) >= client.deadline;
                if state.local_moment(index) >= client.look_at
                    && (!lost || self.has(Fault::LateRepliesAndNamesById))
                {
                    steps.push(Step::Renew(index));
                }
                steps.push(Step::Leave(index));
            }
            Phase::Leaving { .. } => {
                if client.repeats < self.repeats {
                    steps.push(Step::LeaveAgain(index));
                }
            }
        }
    }

    fn deadline(&self, sent: u8) -> Moment {
        if self.has(Fault::NoMargin) {
            moment(sent) + ttl_of(self.ttl)
        } else {
            latchwork_core::decide::valid_until(moment(sent), ttl_of(self.ttl))
        }
    }
}
