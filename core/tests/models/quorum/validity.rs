//! The model of the holders of a majority by the clock, over `decide::quorum` and [`Trial`] (QUORUM-VALIDITY,
//! QUORUM-AMNESIA, QUORUM-SAME-MEMORY).
//!
//! Two clients with different TTLs join three servers and renew there, with late requests and replies. A
//! server expires a hold a TTL after the request arrived. A server that starts again has forgotten its holds,
//! and perhaps its marker. A state is broken if both clients believe that they hold. No client releases.
//! Reads of a marker take no time, and a server may start again between such a read and a join.

use latchwork_core::Moment;
use latchwork_core::backend::decide::quorum::{majority, valid_for};
use latchwork_core::backend::decide::trial::{Marker, Terms, Trial, Verdict};
use latchwork_core::backend::decide::valid_until;

use super::MEMBERS;
use crate::explore::{Broken, Protocol, offer};
use crate::{TICK, moment, ttl_of};

const CLIENTS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// QUORUM-VALIDITY: deadlines count from the arrival of answers.
    FromArrival,
    /// QUORUM-VALIDITY: the last answer of any member counts for all.
    AnyAnswer,
    /// QUORUM-AMNESIA: a server without a ripe marker counts.
    CountsAtOnce,
    /// QUORUM-AMNESIA: a client waits for its own TTL only.
    OwnTtl,
    /// QUORUM-AMNESIA: a marker counts that survived a loss of other data.
    AnyIncarnation,
    /// QUORUM-SAME-MEMORY: an answer of any incarnation counts.
    LooksOnce,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Servers {
    pub(super) ttls: [u8; CLIENTS],
    pub(super) until: u8,
    pub(super) reach: [&'static [usize]; CLIENTS],
    pub(super) restarts: u8,
    pub(super) restarted: &'static [usize],
    /// A server starts again only while the first client holds, and then the second client begins.
    pub(super) late: bool,
    pub(super) messages: usize,
    pub(super) fault: Option<Fault>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Server {
    // The holder, and the expiry of its hold.
    hold: Option<(usize, u8)>,
    incarnation: u8,
    marker: Option<Marker>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Member {
    deadline: Moment,
    trial: Trial,
    counts: Option<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Message {
    client: usize,
    server: usize,
    sent: u8,
    answer: Option<u8>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    now: u8,
    servers: Vec<Server>,
    clients: Vec<Vec<Member>>,
    messages: Vec<Message>,
    restarts: u8,
    markers: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Tick,
    Look(usize, usize),
    Join(usize, usize),
    Arrives(usize),
    Answered(usize),
    Restart(usize, bool),
}

fn name(incarnation: u8) -> String {
    format!("server {incarnation}")
}

impl Servers {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn terms(&self, client: usize) -> Terms {
        let longest = self.ttls[0].max(self.ttls[1]);
        Terms::new(ttl_of(if self.has(Fault::OwnTtl) { self.ttls[client] } else { longest }), [])
    }

    fn holds(&self, state: &State, client: usize) -> bool {
        let left = state.clients[client].iter().map(|member| member.deadline.since(moment(state.now)));
        let known = || state.clients[client].iter().filter(|member| member.deadline > Moment::PAST).count();
        let left = match self.has(Fault::AnyAnswer) {
            true => left.max().filter(|_| known() >= majority(MEMBERS)),
            false => valid_for(majority(MEMBERS), left),
        };
        left.is_some_and(|left| !left.is_zero())
    }

    fn look(&self, state: &mut State, client: usize, server: usize) {
        let (terms, now) = (self.terms(client), moment(state.now));
        let State { servers, clients, markers, .. } = state;
        let (server, member) = (&mut servers[server], &mut clients[client][server]);
        let running = (!self.has(Fault::AnyIncarnation)).then(|| name(server.incarnation));
        // The read and the write are one step: a refused write equals another order of the steps.
        for _ in 0..3 {
            let stored = server.marker.clone().map(|marker| Marker {
                terms: if self.has(Fault::OwnTtl) { terms.clone() } else { marker.terms.clone() },
                ..marker
            });
            match member.trial.judge(&terms, running.as_deref(), stored.as_ref(), now, *markers) {
                Verdict::NotBefore(_) if !self.has(Fault::CountsAtOnce) => {}
                Verdict::NotBefore(_) | Verdict::Counts => member.counts = Some(server.incarnation),
                Verdict::Write(marker) => {
                    *markers += 1;
                    server.marker = Some(marker);
                    continue;
                }
                Verdict::Conflict => unreachable!("all have the same terms"),
            }
            return;
        }
    }

    fn arrives(&self, state: &mut State, message: usize) {
        let Message { client, server, .. } = state.messages[message];
        let (now, ttl) = (state.now, self.ttls[client]);
        let server = &mut state.servers[server];
        let free = server.hold.is_none_or(|(holder, expires)| holder == client || expires <= now);
        if free {
            server.hold = Some((client, now + ttl));
            state.messages[message].answer = Some(server.incarnation);
        } else {
            state.messages.remove(message);
        }
    }

    fn answered(&self, state: &mut State, message: usize) {
        let Message { client, server, sent, answer } = state.messages.remove(message);
        let now = state.now;
        let member = &mut state.clients[client][server];
        let counts = self.has(Fault::LooksOnce) || member.counts == answer;
        let from = if self.has(Fault::FromArrival) { now } else { sent };
        let deadline = valid_until(moment(from), ttl_of(self.ttls[client]));
        if counts && deadline > moment(now) {
            member.deadline = member.deadline.max(deadline);
        }
    }
}

impl Protocol for Servers {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let server = |number: usize| {
            let running = (!self.has(Fault::AnyIncarnation)).then(|| name(0));
            let id = u64::try_from(number).expect("few");
            let marker = Marker::new(&self.terms(0), running.as_deref(), id, true);
            Server { hold: None, incarnation: 0, marker: Some(marker) }
        };
        let member = Member { deadline: Moment::PAST, trial: Trial::default(), counts: Some(0) };
        let (servers, clients) = ((0..MEMBERS).map(server).collect(), vec![vec![member; MEMBERS]; CLIENTS]);
        vec![State { now: 1, servers, clients, markers: 10, ..State::default() }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        offer(steps, state.now < self.until, Step::Tick);
        let begun = if self.late && state.restarts < self.restarts { 1 } else { CLIENTS };
        for client in 0..begun {
            for server in self.reach[client].iter().copied() {
                let member = &state.clients[client][server];
                let counts = member.counts == Some(state.servers[server].incarnation);
                offer(steps, !counts, Step::Look(client, server));
                let joining = |message: &Message| (message.client, message.server) == (client, server);
                let proves = valid_until(moment(state.now), ttl_of(self.ttls[client]));
                let useful = proves > member.deadline && !state.messages.iter().any(joining);
                offer(steps, useful && state.messages.len() < self.messages, Step::Join(client, server));
            }
        }
        for (number, message) in state.messages.iter().enumerate() {
            steps.push(match message.answer {
                None => Step::Arrives(number),
                Some(_) => Step::Answered(number),
            });
        }
        if state.restarts < self.restarts && (!self.late || self.holds(state, 0)) {
            for server in self.restarted {
                steps.extend([true, false].map(|keeps| Step::Restart(*server, keeps)));
            }
        }
    }

    fn step(&self, state: &mut State, step: Step) {
        match step {
            Step::Tick => state.now += 1,
            Step::Look(client, server) => self.look(state, client, server),
            Step::Join(client, server) => {
                state.messages.push(Message { client, server, sent: state.now, answer: None });
            }
            Step::Arrives(message) => self.arrives(state, message),
            Step::Answered(message) => self.answered(state, message),
            Step::Restart(server, keeps_marker) => {
                state.restarts += 1;
                let server = &mut state.servers[server];
                server.incarnation += 1;
                server.hold = None;
                server.marker.take_if(|_| !keeps_marker);
            }
        }
        // Differences in the past do not matter.
        let now = moment(state.now);
        for member in state.clients.iter_mut().flatten() {
            if member.deadline <= now && member.deadline > Moment::PAST {
                member.deadline = Moment::PAST + TICK / 2;
            }
        }
        for server in &mut state.servers {
            server.hold.take_if(|(_, expires)| *expires <= state.now);
        }
        state.messages.sort();
    }

    fn verdict(&self, state: &State) -> Option<Broken> {
        (0..CLIENTS).all(|client| self.holds(state, client)).then_some(Broken::TwoHolders)
    }
}
