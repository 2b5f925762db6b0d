//! The model of a hold, over [`Life`] and [`Joining`], from the first join until the server has nothing of it
//! (the HOLD- rules, LEASE-LOST-IS-FINAL).
//!
//! The network loses, delays and reorders requests, the lease ends, an operator removes the node, and the
//! owner drops its futures at any instant. A state is broken if a node remains without an owner, if a release
//! reports something wrong, or if a loss is revised. The model has no time: a deadline is the event that the
//! lease ends.

mod rules;

use latchwork_core::backend::decide::life::{
    Advance, AfterTry, By, Failure, Joining, Life, Outcome, Phase, Residue, Seen,
};
use latchwork_core::{LostReason, Moment};

use crate::explore::{Broken, Protocol, offer};
use crate::ttl_of;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// A dropped attempt without an answer is forgotten.
    UnknownForgotten,
    /// A dropped attempt with a node is forgotten.
    NodeForgotten,
    ReleaseForgotten,
    TriedOnce,
    /// A leave is not recorded in the life.
    TryUncounted,
    /// The clean-up after an unanswered join writes no tombstone.
    NoTombstone,
    LossUnseen,
}

#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) requests: u8,
    pub(super) failures: u8,
    pub(super) operator: bool,
    pub(super) lease_ends: bool,
    pub(super) fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Request {
    Join,
    Leave { tombstone: bool },
    Abandon,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reply {
    Admitted,
    Queued,
    // The join met its own tombstone.
    Buried,
    Left { was_there: bool },
    Abandoned,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Client {
    Joining(Joining),
    Node(Life),
    Abandoning,
    #[default]
    Done,
}

/// The first cause of the removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Hand {
    Owner,
    Operator,
    Lease,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Release {
    #[default]
    None,
    Awaited,
    Answered(Outcome),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    client: Client,
    awaited: Option<u8>,
    requests: Vec<(u8, Request)>,
    replies: Vec<(u8, Reply)>,
    sent: u8,
    failures: u8,
    // The clean-up writes a tombstone.
    join_unanswered: bool,
    node: bool,
    tombstone: bool,
    lease: bool,
    taken_by: Option<Hand>,
    release: Release,
    lost: Option<LostReason>,
    revived: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Send(Request),
    Serve(usize),
    Hear(usize),
    LoseRequest(usize),
    LoseReply(usize),
    TimeOut,
    Refuse(Request),
    Admit,
    Drop,
    Release,
    Operator,
    LeaseEnds,
}

impl State {
    fn seen(&self) -> Seen {
        let ended = (LostReason::Expired, Moment::from_nanos(0));
        Seen { now: Moment::from_nanos(1), lease: (!self.lease).then_some(ended) }
    }

    fn next_request(&self, model: &Hold) -> Option<Request> {
        if self.awaited.is_some() {
            return None;
        }
        let tombstone = self.join_unanswered && model.fault != Some(Fault::NoTombstone);
        match &self.client {
            Client::Joining(_) => Some(Request::Join),
            Client::Node(life) if life.outcome().is_none() && life.phase() == Phase::Ending => {
                Some(Request::Leave { tombstone })
            }
            Client::Abandoning => Some(Request::Abandon),
            Client::Node(_) | Client::Done => None,
        }
    }

    fn begin_try(&mut self, counted: bool) {
        match &mut self.client {
            Client::Joining(joining) => drop(joining.sent()),
            Client::Node(life) if counted => life.leave_sent(),
            _ => {}
        }
    }

    fn take(&mut self, hand: Hand) {
        if std::mem::take(&mut self.node) {
            self.taken_by.get_or_insert(hand);
        }
    }

    fn serve(&mut self, request: Request, admitted: bool) -> Option<Reply> {
        Some(match request {
            Request::Join if !self.lease => return None,
            Request::Join if self.tombstone => Reply::Buried,
            Request::Join => {
                if !std::mem::replace(&mut self.node, true) {
                    self.taken_by = None;
                }
                if admitted { Reply::Admitted } else { Reply::Queued }
            }
            Request::Leave { tombstone } => {
                self.tombstone |= tombstone;
                let was_there = self.node;
                self.take(Hand::Owner);
                Reply::Left { was_there }
            }
            Request::Abandon => {
                self.tombstone = true;
                self.take(Hand::Owner);
                Reply::Abandoned
            }
        })
    }

    fn fail(&mut self, model: &Hold, failure: Failure) {
        self.awaited = None;
        let obsolete = !self.lease && self.requests.is_empty();
        let next = match &mut self.client {
            Client::Joining(joining) => {
                self.join_unanswered |= failure == Failure::Unanswered;
                if joining.failed(failure) != Advance::JoinAgain {
                    self.give_up(model);
                }
                return;
            }
            Client::Node(life) => life.left(Err(failure), obsolete),
            _ => AfterTry::of(Some(failure), obsolete),
        };
        if next != AfterTry::Again || model.fault == Some(Fault::TriedOnce) {
            self.client = Client::Done;
        }
    }

    fn give_up(&mut self, model: &Hold) {
        self.awaited = None;
        self.client = match &mut self.client {
            Client::Joining(joining) => match joining.give_up() {
                Residue::Unknown if model.fault != Some(Fault::UnknownForgotten) => {
                    self.join_unanswered = true;
                    Client::Abandoning
                }
                _ => Client::Done,
            },
            Client::Node(life) if model.fault != Some(Fault::NodeForgotten) => {
                life.begin_end();
                return;
            }
            _ => Client::Done,
        };
    }

    fn hear(&mut self, reply: Reply, model: &Hold) {
        let seen = self.seen();
        match (reply, &mut self.client) {
            (Reply::Admitted | Reply::Queued, Client::Joining(joining)) => {
                let advance = joining.joined(reply == Reply::Admitted);
                joining.keep();
                self.client = Client::Node(Life::new());
                if advance == Advance::Hold {
                    self.hold(model);
                }
            }
            (Reply::Buried, Client::Joining(joining)) => {
                let _ = joining.failed(Failure::Lost(LostReason::Revoked));
                self.give_up(model);
            }
            (Reply::Left { was_there }, Client::Node(life)) => {
                let absent = (!was_there).then(|| life.lost(seen).unwrap_or(LostReason::Revoked));
                let _ = life.left(Ok(absent), false);
            }
            (Reply::Abandoned, Client::Abandoning) => self.client = Client::Done,
            (reply, client) => unreachable!("{reply:?} to {client:?}"),
        }
        if let (Client::Node(life), Release::Awaited) = (&self.client, self.release)
            && let Some(outcome) = life.outcome()
        {
            self.release = Release::Answered(outcome);
        }
    }

    fn hold(&mut self, model: &Hold) {
        let seen = self.seen();
        if let Client::Node(life) = &mut self.client
            && life.hold(seen.now, None, seen).is_err()
        {
            self.give_up(model);
        }
    }

    fn is_held(&self) -> bool {
        matches!(&self.client, Client::Node(life) if life.phase() == Phase::Held)
    }

    fn drop_future(&mut self, model: &Hold) {
        let ends_hold = self.is_held();
        match (&mut self.client, self.release) {
            (Client::Node(_), Release::Awaited) => {
                self.release = Release::None;
                self.awaited = None;
                if model.fault == Some(Fault::ReleaseForgotten) {
                    self.client = Client::Done;
                }
            }
            (Client::Node(life), _) if ends_hold => life.begin_end(),
            _ => self.give_up(model),
        }
    }

    fn look(&mut self, model: &Hold) {
        let seen = self.seen();
        let lease = seen.lease.filter(|_| model.fault != Some(Fault::LossUnseen));
        if let Client::Node(life) = &mut self.client {
            let lost = life.lost(Seen { lease, ..seen });
            self.revived |= self.lost.is_some() && lost != self.lost;
            self.lost = lost;
        }
    }
}

impl Protocol for Hold {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State { client: Client::Joining(Joining::new()), lease: true, ..State::default() }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        let fails = state.failures < self.failures;
        if let Some(request) = state.next_request(self).filter(|_| state.sent < self.requests) {
            steps.push(Step::Send(request));
            offer(steps, fails, Step::Refuse(request));
        }
        for at in 0..state.requests.len() {
            steps.push(Step::Serve(at));
            offer(steps, fails, Step::LoseRequest(at));
        }
        for (at, (number, _)) in state.replies.iter().enumerate() {
            offer(steps, state.awaited == Some(*number), Step::Hear(at));
            offer(steps, fails, Step::LoseReply(at));
        }
        offer(steps, state.awaited.is_some() && fails, Step::TimeOut);
        let waits = matches!(&state.client, Client::Node(life) if life.phase() == Phase::Waiting);
        offer(steps, waits, Step::Admit);
        offer(steps, waits || matches!(state.client, Client::Joining(_)), Step::Drop);
        if state.is_held() {
            steps.extend([Step::Drop, Step::Release]);
        }
        match (&state.client, state.release) {
            (_, Release::Awaited) if state.awaited.is_some() => steps.push(Step::Drop),
            // A second call waits for the end that the first one began.
            (Client::Node(life), Release::None) if life.phase() == Phase::Ending => steps.push(Step::Release),
            _ => {}
        }
        offer(steps, self.operator && state.node && state.taken_by.is_none(), Step::Operator);
        offer(steps, self.lease_ends && state.lease, Step::LeaseEnds);
    }

    fn step(&self, state: &mut State, step: Step) {
        if let Step::LoseRequest(_) | Step::LoseReply(_) | Step::TimeOut | Step::Refuse(_) = step {
            state.failures += 1;
        }
        match step {
            Step::Send(request) => {
                state.begin_try(self.fault != Some(Fault::TryUncounted));
                state.requests.push((state.sent, request));
                state.awaited = Some(state.sent);
                state.sent += 1;
            }
            Step::Serve(at) => {
                let (number, request) = state.requests.remove(at);
                // Alternates, so that both answers occur.
                if let Some(reply) = state.serve(request, number % 2 == 0) {
                    state.replies.push((number, reply));
                }
            }
            Step::Hear(at) => {
                let (_, reply) = state.replies.remove(at);
                state.awaited = None;
                state.hear(reply, self);
            }
            Step::LoseRequest(at) => drop(state.requests.remove(at)),
            Step::LoseReply(at) => drop(state.replies.remove(at)),
            Step::TimeOut => state.fail(self, Failure::Unanswered),
            Step::Refuse(_) => {
                state.begin_try(true);
                state.fail(self, Failure::Unsent);
            }
            Step::Admit => state.hold(self),
            Step::Drop => state.drop_future(self),
            Step::Release => {
                state.look(self);
                let (seen, ttl) = (state.seen(), ttl_of(10));
                if let Client::Node(life) = &mut state.client {
                    let lost = life.lost(seen);
                    let _ = life.end(By::Release, lost, seen.now, ttl);
                    life.begin_end();
                    state.release = if lost.is_none() { Release::Awaited } else { Release::None };
                }
            }
            Step::Operator => state.take(Hand::Operator),
            Step::LeaseEnds => {
                state.lease = false;
                state.take(Hand::Lease);
            }
        }
        state.look(self);
    }

    fn verdict(&self, state: &State) -> Option<Broken> {
        let quiet = state.requests.is_empty() && state.awaited.is_none();
        let left = matches!(&state.client, Client::Node(life) if life.outcome().is_some());
        let over = left || state.client == Client::Done;
        if state.node && state.lease && quiet && over {
            return Some(Broken::Ghost);
        }
        if state.revived {
            return Some(Broken::Revived);
        }
        let own = state.taken_by == Some(Hand::Owner);
        match state.release {
            Release::Answered(Outcome::Removed) if !own => Some(Broken::Believes),
            Release::Answered(Outcome::Absent(_)) if own => Some(Broken::Believes),
            _ if state.is_held() && !state.lease && state.lost.is_none() => Some(Broken::Believes),
            _ => None,
        }
    }
}
