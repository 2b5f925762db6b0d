//! The model of a count in a cell, over [`Count`]. Its steps are those of
//! `src/recipes/count_cell.rs`.
//!
//! Two writers apply two operations each. A request may arrive after its writer got an unknown outcome, a
//! reply may be lost, an operation may be given up at any instant, and another client may delete the cell. A
//! state is broken if an operation was applied twice to one incarnation of the cell, if its writer got a
//! wrong answer, or if the value is not the sum of the applied operations.

mod asked;
mod rules;
mod turns;

use latchwork_core::backend::decide::count::{Change, Changed, Count, Operation, Told};

use crate::explore::{Broken, Protocol, offer};

pub(super) const WRITERS: usize = 2;
const OPERATIONS: u64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// COUNT-ASK-THE-RECORD: after an unknown outcome the client does not read the records.
    ForgetsItsDoubt,
    /// COUNT-ONE-NUMBER: a repeated request counts as another operation.
    CountsAgain,
    /// CELL-CAS: the server does not compare the version.
    ComparesNothing,
    /// COUNT-KEEPS-RECORDS: a write keeps only its own record.
    KeepsOwnRecord,
}

#[derive(Clone, Debug)]
pub(super) struct Counting {
    pub(super) unknown: u8,
    pub(super) given_up: u8,
    pub(super) deletions: u8,
    pub(super) fault: Option<Fault>,
}

/// A version never occurs again, even after a deletion.
type Cell = Option<(u8, String)>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Request {
    operation: (usize, u64),
    expected: Option<u8>,
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Doing {
    Idle,
    Asks,
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Writer {
    number: u64,
    seen: Cell,
    // The writes of the cell before the first request without an answer.
    since: Option<u64>,
    doing: Doing,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    cell: Cell,
    versions: u8,
    writers: Vec<Writer>,
    requests: Vec<Request>,
    // The operations in this incarnation of the cell.
    applied: Vec<(usize, u64)>,
    misled: bool,
    unknown: u8,
    given_up: u8,
    deletions: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Asks(usize),
    /// The flag: its writer gets the reply, if it waits.
    Arrives(usize, bool),
    /// The writer gets an unknown outcome. The request may arrive later.
    Doubts(usize),
    Vanishes(usize),
    GivesUp(usize),
    Deletes,
}

fn count(cell: &Cell) -> Count {
    cell.as_ref().map_or_else(Count::default, |(_, text)| text.parse().expect("a count"))
}

fn steps_of(
    writers: impl Iterator<Item = Doing>,
    requests: impl Iterator<Item = bool>,
    (may_doubt, may_give_up): (bool, bool),
    steps: &mut Vec<Step>,
) {
    for (who, doing) in writers.enumerate() {
        offer(steps, doing == Doing::Idle, Step::Asks(who));
        offer(steps, doing == Doing::Asks && may_doubt, Step::Doubts(who));
        offer(steps, doing != Doing::Done && may_give_up, Step::GivesUp(who));
    }
    for (place, awaited) in requests.enumerate() {
        steps.push(Step::Arrives(place, true));
        offer(steps, awaited && may_doubt, Step::Arrives(place, false));
        offer(steps, !awaited, Step::Vanishes(place));
    }
}

fn twice(applied: &[(usize, u64)]) -> bool {
    applied.windows(2).any(|pair| pair[0] == pair[1])
}

impl Writer {
    fn awaits(&self, number: u64) -> bool {
        self.doing == Doing::Asks && self.number == number
    }

    fn doubts(&mut self) {
        self.since = self.since.or_else(|| Some(count(&self.seen).writes()));
        self.doing = Doing::Idle;
    }

    fn begins_next(&mut self) {
        self.number += 1;
        self.since = None;
        self.doing = if self.number > OPERATIONS { Doing::Done } else { Doing::Idle };
    }
}

impl Counting {
    fn asks(&self, state: &mut State, who: usize) {
        let Writer { number, seen, since, .. } = state.writers[who].clone();
        let now = count(&seen);
        let again = if self.fault == Some(Fault::CountsAgain) && since.is_some() { 10 } else { 0 };
        let operation = Operation { writer: who as u64, number: number + again };
        if let Some(first) = since.filter(|_| self.fault != Some(Fault::ForgetsItsDoubt)) {
            match now.told(operation, first) {
                Told::Applied(_) => return Self::is_applied(state, who),
                Told::Nothing => return state.writers[who].begins_next(),
                Told::NotApplied => {}
            }
        }
        let Changed::To(mut next) = now.changed(Change::Add(1), operation) else { return };
        if self.fault == Some(Fault::KeepsOwnRecord) {
            let text = next.to_string();
            let kept: Vec<_> = text.split(' ').take(3).collect();
            next = kept.join(" ").parse().expect("a count");
        }
        let expected = seen.map(|(version, _)| version);
        state.requests.push(Request { operation: (who, number), expected, value: next.to_string() });
        state.writers[who].doing = Doing::Asks;
    }

    fn is_applied(state: &mut State, who: usize) {
        let writer = &mut state.writers[who];
        state.misled |= state.deletions == 0 && !state.applied.contains(&(who, writer.number));
        writer.begins_next();
    }

    fn arrives(&self, state: &mut State, place: usize, heard: bool) {
        let Request { operation, expected, value } = state.requests.remove(place);
        let now = state.cell.as_ref().map(|(version, _)| *version);
        let made = now == expected || self.fault == Some(Fault::ComparesNothing);
        if made {
            state.versions += 1;
            state.cell = Some((state.versions, value));
            state.applied.push(operation);
            state.applied.sort_unstable();
        }
        let (who, number) = operation;
        let writer = &mut state.writers[who];
        if !writer.awaits(number) {
            return;
        }
        if !heard {
            return writer.doubts();
        }
        writer.seen.clone_from(&state.cell);
        match made {
            true => Self::is_applied(state, who),
            false => writer.doing = Doing::Idle,
        }
    }
}

impl Protocol for Counting {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let writer = Writer { number: 1, seen: None, since: None, doing: Doing::Idle };
        vec![State { writers: vec![writer; WRITERS], ..State::default() }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        let writers = state.writers.iter().map(|writer| writer.doing);
        let awaited = |request: &Request| state.writers[request.operation.0].awaits(request.operation.1);
        let may = (state.unknown < self.unknown, state.given_up < self.given_up);
        steps_of(writers, state.requests.iter().map(awaited), may, steps);
        offer(steps, state.cell.is_some() && state.deletions < self.deletions, Step::Deletes);
    }

    fn step(&self, state: &mut State, step: Step) {
        match step {
            Step::Asks(who) => self.asks(state, who),
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
                state.writers[who].seen.clone_from(&state.cell);
                state.writers[who].begins_next();
            }
            Step::Deletes => {
                state.deletions += 1;
                state.cell = None;
                state.applied.clear();
            }
        }
        state.requests.sort_by_key(|request| (request.operation, request.expected, request.value.clone()));
    }

    fn verdict(&self, state: &State) -> Option<Broken> {
        let sum = i64::try_from(state.applied.len()).expect("few");
        let wrong = twice(&state.applied) || state.misled || count(&state.cell).value() != sum;
        wrong.then_some(Broken::Miscounted)
    }
}
