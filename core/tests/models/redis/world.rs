use latchwork_core::backend::Patience;
use latchwork_core::backend::decide::queue::{Answer, Micros, QueueJoin};
use latchwork_core::{Limit, Moment};

use super::server::Row;
use super::{Asked, Attempt, BASE, Message, Redis, State, Told};
use crate::explore::{Broken, damage};
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
        if message.is_request() {
            self.serve(model, message);
        } else if self.clients[message.client()].alive {
            self.hear(model, message);
        }
    }

    fn serve(&mut self, model: &Redis, request: Message) {
        let (by, now, before) = (request.attempt(), self.server_time(), self.server.nodes());
        let (id, left) = (model.id(by), Message::Left { to: by });
        let answered = |asked, at, answer| Message::Answer { to: by, asked, at, told: tell(answer, now) };
        let (told, reply) = match request {
            Message::Join { sent, wait, .. } => {
                let ask = QueueJoin {
                    id,
                    claim: model.claims[usize::from(by.client)],
                    limit: Limit::Exactly(model.limit),
                    ttl: Micros::from(model.ttl) * TICK.as_micros() as Micros,
                    patience: if wait { Patience::Wait } else { Patience::Try },
                };
                let (answer, told) = self.server.join(now, &ask);
                (told, answered(Asked::Join, sent, answer))
            }
            Message::Renew { sequence, sent, .. } => {
                let (answer, told) = self.server.renew(now, id, sequence);
                (told, answered(Asked::Renew { sequence }, sent, answer))
            }
            Message::Leave { sequence, .. } => (self.server.leave(now, id, Some(sequence)), left),
            Message::Abandon { .. } => (self.server.leave(now, id, None), left),
            _ => unreachable!("only requests are served"),
        };
        let after = self.server.nodes();
        let is_in = |nodes: &[Row], sequence| nodes.iter().any(|node| node.sequence == sequence);
        let crowd = told.iter().any(|(id, _)| !after.iter().any(|node| node.slot.id == *id && node.admitted));
        let mut gone = before.iter().filter(|node| !is_in(&after, node.sequence));
        let foreign = gone.any(|node| node.slot.expires > now && !self.made.contains(&(node.sequence, by)));
        let mut living = after.iter().filter(|node| node.slot.expires > now).skip_while(|node| node.admitted);
        let wrong = [
            (living.any(|node| node.admitted), Broken::Overtaken),
            (foreign, Broken::ForeignLeave),
            (crowd, Broken::Crowd),
        ];
        self.broken = damage(None, wrong).or(self.broken);
        self.made.retain(|(sequence, _)| is_in(&after, *sequence));
        let new = after.iter().filter(|node| !is_in(&before, node.sequence));
        self.made.extend(new.map(|node| (node.sequence, by)));
        for (id, sequence) in told {
            if let Some((_, to)) = self.made.iter().find(|(made, _)| *made == sequence) {
                debug_assert_eq!(model.id(*to), id);
                self.send_alive(Message::HandOff { to: *to, sequence });
            }
        }
        self.send_alive(reply);
    }

    fn send_alive(&mut self, message: Message) {
        if self.clients[message.client()].alive {
            self.send(message);
        }
    }

    pub(super) fn request_of(&self, attempt: Attempt) -> bool {
        self.net.iter().any(|message| message.is_request() && message.attempt() == attempt)
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
