//! Messages on their way, and the server that serves them.

use latchwork_core::backend::Patience;
use latchwork_core::backend::decide::queue::{Answer, Micros, QueueJoin};
use latchwork_core::{Limit, Moment};

use super::{Asked, Attempt, BASE, Message, Redis, State, Told};
use crate::explore::Broken;
use crate::{TICK, moment};

impl State {
    pub(super) fn server_time(&self) -> Micros {
        (Micros::from(BASE) + Micros::from(self.now) - Micros::from(self.back)) * TICK.as_micros() as Micros
    }

    pub(super) fn local(&self, client: usize) -> u8 {
        BASE + self.now - self.clients[client].lag
    }

    pub(super) fn local_moment(&self, client: usize) -> Moment {
        moment(self.local(client))
    }

    pub(super) fn send(&mut self, message: Message) {
        let place = self.net.binary_search(&message).unwrap_or_else(|place| place);
        self.net.insert(place, message);
    }

    pub(super) fn take(&mut self, message: Message) {
        let place = self.net.binary_search(&message).expect("it is on its way");
        self.net.remove(place);
    }

    pub(super) fn deliver(&mut self, model: &Redis, message: Message) {
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

    /// The server serves a request, and the judge looks at the effect.
    pub(super) fn serve(&mut self, model: &Redis, request: Message) {
        let now = self.server_time();
        let before = self.server.nodes();
        let (by, told, reply) = match request {
            Message::Join { by, sent, wait } => {
                let ask = QueueJoin {
                    id: model.id(by),
                    claim: model.claims[usize::from(by.client)],
                    limit: Limit::Exactly(model.limit),
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

    pub(super) fn send_alive(&mut self, message: Message, to: Attempt) {
        if self.clients[usize::from(to.client)].alive {
            self.send(message);
        }
    }

    /// Whether a request of this attempt may still reach the server.
    pub(super) fn request_of(&self, attempt: Attempt) -> bool {
        self.net.iter().any(|message| match message {
            Message::Join { by, .. }
            | Message::Renew { by, .. }
            | Message::Leave { by, .. }
            | Message::Abandon { by } => *by == attempt,
            _ => false,
        })
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
