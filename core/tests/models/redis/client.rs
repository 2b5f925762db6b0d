use latchwork_core::Moment;
use latchwork_core::backend::decide::{recheck, renewal_period};

use super::{Asked, Attempt, Fault, Message, Redis, State, Told};
use crate::{TICK, ttl_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Idle,
    Joining { wait: bool },
    Waiting,
    Holding,
    // Without a sequence number, it ends the attempt with a tombstone.
    Leaving { sequence: Option<u64> },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) alive: bool,
    pub(crate) phase: Phase,
    /// QUEUE-ID-PER-ATTEMPT.
    pub(crate) number: u8,
    pub(crate) sequence: u64,
    pub(crate) deadline: Moment,
    pub(crate) look_at: Moment,
    renew_at: Moment,
    unanswered: u8,
    pub(crate) repeats: u8,
    /// QUEUE-INBOX-BEFORE-JOIN.
    latched: Option<u64>,
    pub(crate) lag: u8,
}

impl Client {
    pub(crate) fn new() -> Self {
        Self {
            alive: true,
            phase: Phase::Idle,
            number: 0,
            sequence: 0,
            deadline: Moment::PAST,
            look_at: Moment::PAST,
            renew_at: Moment::PAST,
            unanswered: 0,
            repeats: 0,
            latched: None,
            lag: 0,
        }
    }

    pub(crate) fn dead() -> Self {
        Self { alive: false, ..Self::new() }
    }

    pub(crate) fn idle(&mut self) {
        *self = Self { alive: self.alive, number: self.number, lag: self.lag, ..Self::new() };
    }
}

impl State {
    /// LEASE-CLOCK-COUNTS-SLEEP.
    pub(crate) fn believes(&self, index: usize) -> bool {
        let client = &self.clients[index];
        client.alive && client.phase == Phase::Holding && self.local_moment(index) < client.deadline
    }

    pub(crate) fn attempt(&self, index: usize) -> Attempt {
        Attempt { client: u8::try_from(index).expect("few"), number: self.clients[index].number }
    }

    pub(crate) fn join(&mut self, index: usize, wait: bool) {
        let client = &mut self.clients[index];
        client.idle();
        client.number += 1;
        client.unanswered = 1;
        client.phase = Phase::Joining { wait };
        let (by, sent) = (self.attempt(index), self.local(index));
        self.send(Message::Join { by, sent, wait });
    }

    pub(crate) fn join_again(&mut self, index: usize) {
        let Phase::Joining { wait } = self.clients[index].phase else { return };
        self.clients[index].unanswered += 1;
        self.clients[index].repeats += 1;
        let (by, sent) = (self.attempt(index), self.local(index));
        self.send(Message::Join { by, sent, wait });
    }

    pub(crate) fn renew(&mut self, model: &Redis, index: usize) {
        let (by, sent, now) = (self.attempt(index), self.local(index), self.local_moment(index));
        let client = &mut self.clients[index];
        client.renew_at = now + renewal_period(ttl_of(model.ttl));
        client.look_at = client.renew_at;
        let sequence = client.sequence;
        self.send(Message::Renew { by, sequence, sent });
    }

    /// QUEUE-LEAVE-NAMES-NODE, or QUEUE-TOMBSTONE-FOR-UNKNOWN-JOIN if a join is unknown.
    pub(crate) fn leave(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let known = matches!(client.phase, Phase::Waiting | Phase::Holding) && client.unanswered == 0;
        let phase = Phase::Leaving { sequence: known.then_some(client.sequence) };
        client.idle();
        client.phase = phase;
        self.send_leave(index);
    }

    pub(crate) fn leave_again(&mut self, index: usize) {
        self.clients[index].repeats += 1;
        self.send_leave(index);
    }

    fn send_leave(&mut self, index: usize) {
        let by = self.attempt(index);
        let Phase::Leaving { sequence } = self.clients[index].phase else { return };
        self.send(match sequence {
            Some(sequence) => Message::Leave { by, sequence },
            None => Message::Abandon { by },
        });
    }

    pub(crate) fn hear(&mut self, model: &Redis, message: Message) {
        let index = message.client();
        let current = message.attempt() == self.attempt(index);
        match message {
            Message::Left { .. } if current && matches!(self.clients[index].phase, Phase::Leaving { .. }) => {
                self.clients[index].idle();
            }
            Message::HandOff { sequence, .. } => self.hear_hand_off(model, index, current, sequence),
            Message::Answer { asked, at, told, .. } if current => {
                self.hear_answer(model, index, asked, at, told);
            }
            _ => {}
        }
    }

    /// QUEUE-MESSAGE-ADMITS-ONE-ATTEMPT.
    fn hear_hand_off(&mut self, model: &Redis, index: usize, current: bool, sequence: u64) {
        let any = model.has(Fault::HandOffByQueueOnly);
        let (now, at) = (self.local_moment(index), self.local(index));
        let client = &mut self.clients[index];
        let mine = sequence == client.sequence;
        match client.phase {
            _ if !current && !any => {}
            Phase::Joining { .. } if !model.has(Fault::NoLatch) => client.latched = Some(sequence),
            Phase::Waiting if model.has(Fault::HandOffRenews) && mine => {
                client.deadline = model.deadline(at);
                self.hold(index);
            }
            Phase::Waiting if (mine || any) && now < client.deadline => self.hold(index),
            _ => {}
        }
    }

    fn hear_answer(&mut self, model: &Redis, index: usize, asked: Asked, sent: u8, told: Told) {
        let (now, local) = (self.local_moment(index), self.local(index));
        let lost = now >= self.clients[index].deadline;
        let late = model.has(Fault::LateRepliesAndNamesById);
        let counts_from = if model.has(Fault::FromArrival) { local } else { sent };
        let client = &mut self.clients[index];
        client.unanswered = client.unanswered.saturating_sub(u8::from(asked == Asked::Join));
        let place = match told {
            Told::Admitted { sequence } | Told::Waiting { sequence, .. } => Some(sequence),
            Told::Refused | Told::Gone => None,
        };
        let admitted = matches!(told, Told::Admitted { .. });
        match (client.phase, place) {
            (Phase::Joining { .. }, Some(sequence)) => {
                let latched = client.latched.take() == Some(sequence);
                client.sequence = sequence;
                client.repeats = 0;
                client.deadline = model.deadline(counts_from);
                self.schedule(model, index, sent, told);
                // LEASE-DEADLINE-FROM-SEND.
                if now >= self.clients[index].deadline {
                    self.leave(index);
                } else if latched || admitted {
                    self.hold(index);
                } else {
                    self.clients[index].phase = Phase::Waiting;
                }
            }
            (Phase::Joining { .. }, None) if told == Told::Refused && client.unanswered == 0 => client.idle(),
            (Phase::Joining { .. }, None) => self.leave(index),
            (Phase::Waiting | Phase::Holding, None) if told == Told::Gone => self.leave(index),
            (Phase::Waiting | Phase::Holding, Some(sequence)) if sequence != client.sequence && !late => {
                // A leave by this sequence number would miss the new node.
                client.unanswered += 1;
                self.leave(index);
            }
            (Phase::Waiting | Phase::Holding, Some(_)) if !lost || late => {
                client.deadline = client.deadline.max(model.deadline(counts_from));
                self.schedule(model, index, sent, told);
                let waits = self.clients[index].phase == Phase::Waiting;
                if waits && admitted && !model.has(Fault::RenewalTellsNothing) {
                    self.hold(index);
                }
            }
            // QUEUE-LATE-REPLY-REVIVES-NOTHING, LEASE-LOST-IS-FINAL. No reply stops a leave.
            _ => {}
        }
    }

    /// QUEUE-LOOK-AT-EXPIRY.
    fn schedule(&mut self, model: &Redis, index: usize, sent: u8, told: Told) {
        let now = self.local_moment(index);
        let client = &mut self.clients[index];
        client.renew_at = client.renew_at.max(crate::moment(sent) + renewal_period(ttl_of(model.ttl)));
        client.look_at = client.renew_at;
        if let Told::Waiting { ahead, .. } = told {
            // The server did not drop the expired node ahead, so another request at once would not help.
            if ahead > 0 && !model.has(Fault::LooksAtRenewalsOnly) {
                client.look_at = recheck(client.renew_at, now + TICK * u32::from(ahead));
            }
        }
    }

    fn hold(&mut self, index: usize) {
        let client = &mut self.clients[index];
        client.phase = Phase::Holding;
        client.look_at = client.renew_at;
        self.highest_token = self.highest_token.max(client.sequence);
    }
}
