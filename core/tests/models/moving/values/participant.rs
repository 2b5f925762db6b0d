use latchwork_core::backend::decide::moving::Side;
use latchwork_core::backend::decide::moving::values::{WholeStage, answer_counts};

use super::{Changes, Copying, Fault, Id, Kind, State, Step};
use crate::explore::Broken;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Request {
    who: Id,
    change: usize,
    to_new: bool,
}

impl Request {
    fn side(self) -> Side {
        if self.to_new { Side::New } else { Side::Old }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Doing {
    change: usize,
    /// The side that was asked, if an answer is awaited.
    asked: Option<Side>,
    answered: bool,
    tries: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    live: bool,
    pub(super) registered: bool,
    pub(super) acknowledged: Option<u8>,
    read: Option<(u8, WholeStage)>,
    changes: usize,
    doing: Option<Doing>,
    /// The side that it reads, and the changes that were known before.
    reading: Option<(Side, Changes)>,
    reads: u8,
}

impl Client {
    pub(super) fn reading(whole: WholeStage) -> Self {
        Self {
            live: true,
            registered: true,
            acknowledged: None,
            read: Some((0, whole)),
            changes: 0,
            doing: None,
            reading: None,
            reads: 0,
        }
    }

    fn under_way(&self) -> usize {
        usize::from(self.reading.is_some())
            + usize::from(self.doing.is_some_and(|doing| doing.asked.is_some()))
    }
}

impl Copying {
    fn change(who: Id, change: usize) -> Changes {
        1 << (4 * usize::from(who) + change)
    }

    fn asks(&self, client: &Client, reads: bool) -> Option<Side> {
        let (_, whole) = client.read.filter(|_| client.live)?;
        let always = if reads { Fault::ReadsWhileFrozen } else { Fault::FreezesNothing };
        whole.values.open().or_else(|| self.has(always).then(|| whole.values.side()))
    }

    pub(super) fn steps_of(&self, state: &State, who: Id, steps: &mut Vec<Step>) {
        let client = &state.clients[usize::from(who)];
        match (client.live, client.registered) {
            (true, false) => steps.push(Step::Registers(who)),
            (true, true) => {
                steps.extend([Step::ReadsStage(who), Step::Acknowledges(who)]);
                if state.losses < self.losses {
                    steps.push(Step::Loses(who));
                }
            }
            (false, true) => steps.push(Step::Expires(who)),
            (false, false) => steps.push(Step::Returns(who)),
        }
        match client.doing {
            None if client.changes < self.changes[usize::from(who)].len() => steps.push(Step::Sends(who)),
            None => {}
            Some(doing) if doing.asked.is_some() => {
                steps.push(Step::HearsNothing(who));
                steps.extend(doing.answered.then_some(Step::Hears(who)));
            }
            Some(_) => steps.extend([Step::SendsAgain(who), Step::GivesUp(who)]),
        }
        match client.reading {
            Some(_) => steps.push(Step::Reads(who)),
            None if client.reads < self.reads => steps.push(Step::BeginsToRead(who)),
            None => {}
        }
    }

    pub(super) fn takes(&self, state: &mut State, step: Step) {
        let (version, whole, known) = (state.version, state.whole, state.known);
        match step {
            Step::Lands(which) => self.lands(state, which),
            Step::Sends(who) | Step::SendsAgain(who) => self.sends(state, who),
            Step::Hears(who) => self.hears(state, who),
            Step::Reads(who) => self.reads(state, who),
            Step::Registers(who) => {
                let client = &mut state.clients[usize::from(who)];
                (client.registered, client.acknowledged) = (true, None);
            }
            Step::ReadsStage(who) => state.clients[usize::from(who)].read = Some((version, whole)),
            Step::Acknowledges(who) => {
                let client = &mut state.clients[usize::from(who)];
                let under_way = if self.has(Fault::AcknowledgesAtOnce) { 0 } else { client.under_way() };
                if let Some((read, whole)) = client.read
                    && whole.values.may_acknowledge(under_way)
                {
                    client.acknowledged = Some(read);
                }
            }
            Step::HearsNothing(who) => {
                if let Some(doing) = &mut state.clients[usize::from(who)].doing {
                    (doing.asked, doing.answered) = (None, false);
                }
            }
            Step::GivesUp(who) => state.clients[usize::from(who)].doing = None,
            Step::BeginsToRead(who) => {
                let side = self.asks(&state.clients[usize::from(who)], true);
                state.clients[usize::from(who)].reading = side.map(|side| (side, known));
            }
            Step::Loses(who) => {
                state.losses += 1;
                state.clients[usize::from(who)].live = false;
            }
            Step::Expires(who) => {
                let client = &mut state.clients[usize::from(who)];
                (client.registered, client.acknowledged) = (false, None);
            }
            Step::Returns(who) => self.returns(state, who),
            Step::Of(..) | Step::CopyLands(_) => {}
        }
    }

    /// Answers to requests of its earlier membership do not count.
    fn returns(&self, state: &mut State, who: Id) {
        let client = &mut state.clients[usize::from(who)];
        (client.live, client.read) = (true, None);
        if !self.has(Fault::CountsAnyAnswer) {
            client.reading = None;
            if let Some(doing) = &mut client.doing {
                (doing.asked, doing.answered) = (None, false);
            }
        }
    }

    fn sends(&self, state: &mut State, who: Id) {
        let client = &mut state.clients[usize::from(who)];
        let Some(side) = self.asks(client, false) else { return };
        let doing = match client.doing {
            Some(doing) => {
                let kind = self.changes[usize::from(who)][doing.change];
                if kind == Kind::Delete || doing.tries == self.tries {
                    return;
                }
                Doing { asked: Some(side), tries: doing.tries + 1, ..doing }
            }
            None => {
                client.changes += 1;
                Doing { change: client.changes - 1, asked: Some(side), answered: false, tries: 1 }
            }
        };
        client.doing = Some(doing);
        state.requests.push(Request { who, change: doing.change, to_new: side == Side::New });
        state.requests.sort_unstable();
    }

    fn lands(&self, state: &mut State, which: usize) {
        let request = state.requests.remove(which);
        let Request { who, change, .. } = request;
        let kind = self.changes[usize::from(who)][change];
        let twice = state.server_mut(request.side()).count.apply(Self::change(who, change), kind);
        if twice {
            state.broken = Some(Broken::Miscounted);
        }
        if let Some(doing) = &mut state.clients[usize::from(who)].doing
            && (doing.change, doing.asked) == (change, Some(request.side()))
        {
            doing.answered = true;
        }
    }

    fn counts(&self, client: &Client) -> bool {
        self.has(Fault::CountsAnyAnswer)
            || client.read.is_some_and(|(_, whole)| answer_counts(whole.stage.phase, client.live))
    }

    fn hears(&self, state: &mut State, who: Id) {
        let client = &mut state.clients[usize::from(who)];
        let counts = self.counts(client);
        let Some(doing) = &mut client.doing else { return };
        if counts {
            state.known |= Self::change(who, doing.change);
            client.doing = None;
        } else {
            (doing.asked, doing.answered) = (None, false);
        }
    }

    fn reads(&self, state: &mut State, who: Id) {
        let client = &mut state.clients[usize::from(who)];
        let Some((side, known)) = client.reading.take() else { return };
        client.reads += 1;
        let client = *client;
        // By the fault: a count that was read during the copy counts only if the stage is the same.
        let is_frozen = client.read.is_some_and(|(_, whole)| whole.values.open().is_none());
        let is_there = !self.has(Fault::ReadsWhileFrozen)
            || !is_frozen
            || client.read.is_some_and(|(version, _)| version == state.version);
        if self.counts(&client) && is_there {
            let shown = state.server(side).count.made;
            if known & !shown != 0 {
                state.broken = Some(Broken::ReadBack);
            }
            state.known |= shown;
        }
    }
}
