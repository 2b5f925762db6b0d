//! The model of a count that the server itself changes, over [`Count`]. Its steps are those of
//! `src/recipes/count_request.rs`.
//!
//! Two writers have two operations each, one of them a swap. A request may arrive after its writer has
//! continued, a reply may be lost, and an operation may be given up at any instant. A state is broken if an
//! operation was applied twice, or if its writer got a wrong answer.

use latchwork_core::backend::decide::count::request::{CountOutcome, CountRequest, Decided};
use latchwork_core::backend::decide::count::{Change, Count, Operation};

use super::{Doing, OPERATIONS, Step, WRITERS, steps_of, twice};
use crate::explore::{Broken, Protocol};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// COUNT-ONE-NUMBER: a repeated request counts as another operation.
    CountsAgain,
    /// COUNT-ENDED-STAYS-ENDED: a request of an ended operation is applied.
    TakesTheEnded,
    /// COUNT-REFUSED-FOR-GOOD: a refused request leaves no record.
    RefusesForNow,
}

#[derive(Clone, Debug)]
pub(super) struct Asking {
    pub(super) unknown: u8,
    pub(super) given_up: u8,
    pub(super) fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Sent {
    writer: usize,
    number: u64,
    in_doubt: bool,
    since: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Writer {
    number: u64,
    doubts: bool,
    since: Option<u64>,
    known: Option<u64>,
    doing: Doing,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    count: String,
    writers: Vec<Writer>,
    requests: Vec<Sent>,
    applied: Vec<(usize, u64)>,
    refused: Vec<(usize, u64)>,
    misled: bool,
    unknown: u8,
    given_up: u8,
}

impl Writer {
    fn awaits(&self, sent: &Sent) -> bool {
        self.doing == Doing::Asks && self.number == sent.number && self.doubts == sent.in_doubt
    }

    fn doubts(&mut self) {
        (self.doing, self.doubts) = (Doing::Idle, true);
    }

    fn begins_next(&mut self) {
        self.number += 1;
        self.doubts = false;
        self.since = self.known;
        self.doing = if self.number > OPERATIONS { Doing::Done } else { Doing::Idle };
    }
}

impl Asking {
    fn request(&self, sent: Sent, later: Option<u64>) -> CountRequest {
        let again = if self.fault == Some(Fault::CountsAgain) && sent.in_doubt { 100 } else { 0 };
        let ended =
            later.filter(|later| self.fault == Some(Fault::TakesTheEnded) && *later > 2 * sent.number);
        let number = ended.map_or(2 * sent.number + again, |later| later + 2);
        let operation = Operation { writer: sent.writer as u64, number };
        // The swap fits after one add of the other writer.
        let change = match (sent.writer, sent.number) {
            (0, 1) => Change::Swap { from: 1, to: 5 },
            _ => Change::Add(1),
        };
        let in_doubt = sent.in_doubt && self.fault != Some(Fault::RefusesForNow);
        CountRequest { change, operation, initial: None, since: sent.since, in_doubt }
    }

    fn arrives(&self, state: &mut State, place: usize, heard: bool) {
        let sent = state.requests.remove(place);
        let its = (sent.writer, sent.number);
        let count: Count = state.count.parse().expect("a count");
        let mark = format!(" {:016x}:", sent.writer);
        let record = state.count.split_once(&mark).and_then(|(_, rest)| rest.split_once(':'));
        let later = record.map(|(number, _)| number.parse().expect("a number"));
        let (Decided { outcome, writes }, next) = count.decide(&self.request(sent, later));
        if next.is_some() && matches!(outcome, CountOutcome::Applied(_)) {
            state.misled |= state.refused.contains(&its);
            state.applied.push(its);
            state.applied.sort_unstable();
        }
        if let Some(next) = next {
            state.count = next.to_string();
        }
        let writer = &mut state.writers[sent.writer];
        if !writer.awaits(&sent) {
            return;
        }
        if !heard {
            return writer.doubts();
        }
        writer.known = Some(writes);
        match outcome {
            CountOutcome::Applied(_) => state.misled |= !state.applied.contains(&its),
            CountOutcome::Refused => {
                state.misled |= state.applied.contains(&its);
                state.refused.push(its);
            }
            CountOutcome::Untold => unreachable!("the list is not full"),
        }
        state.writers[sent.writer].begins_next();
    }
}

impl Protocol for Asking {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let writer = Writer { number: 1, doubts: false, since: None, known: None, doing: Doing::Idle };
        let (count, writers) = (Count::default().to_string(), vec![writer; WRITERS]);
        vec![State { count, writers, ..State::default() }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        let writers = state.writers.iter().map(|writer| writer.doing);
        let requests = state.requests.iter().map(|sent| state.writers[sent.writer].awaits(sent));
        let may = (state.unknown < self.unknown, state.given_up < self.given_up);
        steps_of(writers, requests, may, steps);
    }

    fn step(&self, state: &mut State, step: Step) {
        match step {
            Step::Asks(who) => {
                let Writer { number, doubts, since, .. } = state.writers[who];
                state.requests.push(Sent { writer: who, number, in_doubt: doubts, since });
                state.writers[who].doing = Doing::Asks;
            }
            Step::Arrives(place, heard) => {
                state.unknown += u8::from(!heard);
                self.arrives(state, place, heard);
            }
            Step::Doubts(who) => {
                state.unknown += 1;
                state.writers[who].doubts();
            }
            Step::Vanishes(place) => drop(state.requests.remove(place)),
            Step::GivesUp(who) => {
                state.given_up += 1;
                state.writers[who].begins_next();
            }
            Step::Deletes => unreachable!("no client deletes the cell"),
        }
        state.requests.sort_unstable();
    }

    fn verdict(&self, state: &State) -> Option<Broken> {
        (twice(&state.applied) || state.misled).then_some(Broken::Miscounted)
    }
}
