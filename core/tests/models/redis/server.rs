use std::collections::BTreeSet;

use latchwork_core::backend::decide::fits;
use latchwork_core::backend::decide::queue::{Admissions, Answer, Micros, Queue, QueueJoin, Slot};
use latchwork_core::backend::{NodeId, Patience};
use latchwork_core::{Claim, Limit};

use super::Fault;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    pub(crate) sequence: u64,
    pub(crate) slot: Slot,
    pub(crate) admitted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Server {
    Core(Queue),
    Second(Second),
}

impl Server {
    pub(crate) fn join(&mut self, now: Micros, ask: &QueueJoin) -> (Answer, Admissions) {
        match self {
            Server::Core(queue) => queue.join(now, ask),
            Server::Second(second) => second.join(now, ask),
        }
    }

    pub(crate) fn renew(&mut self, now: Micros, id: NodeId, sequence: u64) -> (Answer, Admissions) {
        match self {
            Server::Core(queue) => queue.renew(now, id, sequence),
            Server::Second(second) => second.renew(now, id, sequence),
        }
    }

    pub(crate) fn leave(&mut self, now: Micros, id: NodeId, sequence: Option<u64>) -> Admissions {
        match (self, sequence) {
            (Server::Core(queue), Some(sequence)) => queue.leave(now, id, sequence).1,
            (Server::Core(queue), None) => queue.abandon(now, id).1,
            (Server::Second(second), _) => second.leave(now, id, sequence),
        }
    }

    pub(crate) fn nodes(&self) -> Vec<Row> {
        let row =
            |(sequence, slot, admitted): (u64, &Slot, bool)| Row { sequence, slot: slot.clone(), admitted };
        match self {
            Server::Core(queue) => queue.iter().map(row).collect(),
            Server::Second(second) => second.rows.clone(),
        }
    }
}

impl Default for Server {
    fn default() -> Self {
        Server::Core(Queue::new())
    }
}

/// A second queue, with each rule in its plainest form, for planted faults. Without a fault it answers as core
/// does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Second {
    pub(crate) fault: Option<Fault>,
    last: u64,
    rows: Vec<Row>,
    closed: BTreeSet<NodeId>,
    limit: u32,
}

impl Second {
    pub(crate) fn new(fault: Option<Fault>) -> Self {
        Self { fault, ..Self::default() }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn join(&mut self, now: Micros, ask: &QueueJoin) -> (Answer, Admissions) {
        let mut told = self.prune(now);
        if self.closed.contains(&ask.id) {
            return (Answer::Gone, without(told, ask.id));
        }
        let known = self.rows.iter_mut().find(|row| row.slot.id == ask.id);
        let sequence = match known {
            Some(row) if self.fault != Some(Fault::NoLookUpById) => {
                row.slot.expires = now + ask.ttl;
                row.sequence
            }
            _ => {
                self.limit = ask.limit.beside(None).unwrap_or(self.limit);
                let free = self.rows.iter().all(|row| row.admitted) && self.lets_in(ask.claim);
                if ask.patience == Patience::Try && !free {
                    return (Answer::Refused, without(told, ask.id));
                }
                let sequence = now.max(self.last + 1);
                self.last = sequence;
                let slot = Slot { id: ask.id, claim: ask.claim, ttl: ask.ttl, expires: now + ask.ttl };
                self.rows.push(Row { sequence, slot, admitted: false });
                told.extend(self.admit(now));
                sequence
            }
        };
        let answer = self.answer(sequence);
        if self.has(Fault::OnlyLeavesPublish) {
            told.clear();
        }
        (answer, without(told, ask.id))
    }

    fn renew(&mut self, now: Micros, id: NodeId, sequence: u64) -> (Answer, Admissions) {
        let mut told = if self.has(Fault::RenewDoesNotPrune) { Admissions::new() } else { self.prune(now) };
        let by_id = self.has(Fault::LateRepliesAndNamesById);
        let row = self.rows.iter_mut().find(|row| row.slot.id == id && (by_id || row.sequence == sequence));
        let found = row.map(|row| {
            row.slot.expires = now + row.slot.ttl;
            row.sequence
        });
        let answer = found.map_or(Answer::Gone, |sequence| self.answer(sequence));
        if self.has(Fault::OnlyLeavesPublish) {
            told.clear();
        }
        (answer, without(told, id))
    }

    /// Without a sequence number, removes the attempt's node.
    fn leave(&mut self, now: Micros, id: NodeId, sequence: Option<u64>) -> Admissions {
        let mut told = self.prune(now);
        let one_id = self.has(Fault::OneIdForAllAttempts);
        if sequence.is_none() && !one_id && !self.has(Fault::NoTombstone) {
            self.closed.insert(id);
        }
        let own = |row: &Row| match self.fault {
            Some(Fault::LeaveByClient) => super::client_of(row.slot.id) == super::client_of(id),
            Some(Fault::OneIdForAllAttempts) => row.slot.id == id,
            _ => row.slot.id == id && sequence.is_none_or(|sequence| row.sequence == sequence),
        };
        if let Some(index) = self.rows.iter().position(own) {
            self.rows.remove(index);
            told.extend(self.admit(now));
        }
        without(told, id)
    }

    fn prune(&mut self, now: Micros) -> Admissions {
        if !self.has(Fault::NoClamp) {
            for row in &mut self.rows {
                row.slot.expires = row.slot.expires.min(now + row.slot.ttl);
            }
        }
        let kept = |row: &Row| row.slot.expires > now;
        let first = self.rows.first().filter(|_| self.has(Fault::PruneFirstOnly)).map(|row| row.sequence);
        self.rows.retain(|row| kept(row) || first.is_some_and(|first| row.sequence != first));
        self.admit(now)
    }

    fn admit(&mut self, now: Micros) -> Admissions {
        let mut told = Admissions::new();
        for index in 0..self.rows.len() {
            if self.rows[index].admitted {
                continue;
            }
            if self.lets_in(self.rows[index].slot.claim) {
                let extends = self.has(Fault::AdmissionExtends);
                let row = &mut self.rows[index];
                row.admitted = true;
                row.slot.expires = if extends { now + row.slot.ttl } else { row.slot.expires };
                told.push((row.slot.id, row.sequence));
            } else if !self.has(Fault::AgainstHoldersOnly) {
                break;
            }
        }
        told
    }

    /// Applies only if no node waits before the claim.
    fn lets_in(&self, claim: Claim) -> bool {
        fits(self.rows.iter().filter(|row| row.admitted).map(|row| row.slot.claim), claim, self.limit)
    }

    fn answer(&self, sequence: u64) -> Answer {
        let Some(index) = self.rows.iter().position(|row| row.sequence == sequence) else {
            return Answer::Gone;
        };
        let row = &self.rows[index];
        if row.admitted {
            return Answer::Admitted { sequence };
        }
        let mut ahead = self.rows[..index].iter().rev();
        let blocker = match row.slot.claim {
            Claim::Exclusive => ahead.next().map(|row| row.slot.expires),
            Claim::Shared => ahead.find(|row| row.slot.claim == Claim::Exclusive).map(|row| row.slot.expires),
            Claim::Permits(_) => self.rows.iter().map(|row| row.slot.expires).min(),
        };
        Answer::Waiting { sequence, ahead_expires: blocker.unwrap_or(row.slot.expires) }
    }
}

fn without(mut told: Admissions, id: NodeId) -> Admissions {
    told.retain(|(other, _)| *other != id);
    told
}

mod tests {
    use super::*;
    use crate::explore::Random;

    /// Both were written independently, so a difference is a bug in one of them.
    #[test]
    fn core_and_the_plain_list_answer_the_same_histories_alike() {
        let seed = std::env::var("LATCHWORK_SEED").map_or(1, |text| text.parse().expect("a number"));
        println!("LATCHWORK_SEED={seed}");
        let mut random = Random(seed);
        let histories = if crate::explore::long() { 200_000 } else { 20_000 };
        for history in 0..histories {
            let (mut core, mut second) = (Server::Core(Queue::new()), Server::Second(Second::new(None)));
            let (kinds, mut now) = (random.below(3), 1_000);
            for step in 0..60 {
                // QUEUE-CLAMP-EXPIRY.
                now = if random.below(20) == 0 { now - now.min(300) } else { now + random.next() % 60 };
                let id = NodeId::from_bytes([u8::try_from(random.below(6)).expect("small"); 16]);
                let known =
                    core.nodes().iter().find(|node| node.slot.id == id).map_or(7, |node| node.sequence);
                let claim = match kinds {
                    0 => Claim::Exclusive,
                    1 if random.below(2) == 0 => Claim::Exclusive,
                    1 => Claim::Shared,
                    _ => Claim::Permits(u32::try_from(1 + random.below(3)).expect("small")),
                };
                let patience = if random.below(4) == 0 { Patience::Try } else { Patience::Wait };
                let ask = QueueJoin { id, claim, limit: Limit::Exactly(3), ttl: 150, patience };
                let choice = random.below(12);
                let answers = [&mut core, &mut second].map(|server| match choice {
                    0..6 => server.join(now, &ask),
                    6..9 => server.renew(now, id, known),
                    9..11 => (Answer::Gone, server.leave(now, id, Some(known))),
                    _ => (Answer::Gone, server.leave(now, id, None)),
                });
                let case =
                    format!("LATCHWORK_SEED={seed}, history {history}, step {step}, choice {choice} {ask:?}");
                assert_eq!(answers[0], answers[1], "{case}");
                assert_eq!(core.nodes(), second.nodes(), "{case}");
            }
        }
    }
}
