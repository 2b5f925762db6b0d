//! The model of a count in a cell: counters, ids and latches.
//!
//! [`Count`] is the code that runs; what a client does around it (`src/recipes/count_cell.rs`) is
//! stated here. Two writers apply two operations each. A request may arrive at any time, also after
//! its writer was told that its outcome is unknown; a reply may be lost; an operation may be given
//! up at any instant; another client may delete the cell. A state is broken if an operation was
//! applied twice to one incarnation of the cell, if its writer was told something else than what
//! happened, or if the value is not the sum of what was applied.

mod asked;
mod rules;

use latchwork_core::backend::decide::count::{Change, Changed, Count, Operation, Told};
use stateright::{Model, Property};

use crate::explore::{Broken, Protocol, sound};

pub(super) const WRITERS: usize = 2;
const OPERATIONS: u64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// COUNT-ASK-THE-RECORD: after an unknown outcome the records are not asked.
    ForgetsItsDoubt,
    /// COUNT-ONE-NUMBER: what is sent again is another operation.
    CountsAgain,
    /// CELL-CAS: the server does not compare the version.
    ComparesNothing,
    /// COUNT-KEEPS-RECORDS: a write keeps the writer's own record only.
    KeepsOwnRecord,
}

#[derive(Clone, Debug)]
pub(super) struct Counting {
    pub(super) unknown: u8,
    pub(super) given_up: u8,
    pub(super) deletions: u8,
    pub(super) fault: Option<Fault>,
}

/// A version never comes twice, also across deletions.
type Cell = Option<(u8, String)>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Request {
    operation: (usize, u64),
    expected: Option<u8>,
    value: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Doing {
    /// It looks at the cell as it was seen last.
    Looking {
        since: Option<u64>,
    },
    /// Its request is on the way.
    Asking {
        since: Option<u64>,
    },
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Writer {
    number: u64,
    seen: Cell,
    doing: Doing,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    cell: Cell,
    versions: u8,
    writers: Vec<Writer>,
    // On their way, whether or not somebody waits for the reply.
    requests: Vec<Request>,
    // Which operations this incarnation of the cell has.
    applied: Vec<(usize, u64)>,
    // A writer was told what did not happen.
    misled: bool,
    unknown: u8,
    given_up: u8,
    deletions: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Looks, and sends a request or is done.
    Looks(usize),
    /// The request of this place arrives, and its writer hears of it if it waits.
    Arrives(usize),
    /// As before, and the reply is lost.
    ArrivesUnheard(usize),
    /// The writer is told that the outcome is unknown; the request may arrive later.
    Doubts(usize),
    /// The request is lost on its way.
    Vanishes(usize),
    /// The operation's future is dropped, and the next one begins.
    GivesUp(usize),
    /// Another client deletes the cell.
    Deletes,
}

fn count(cell: &Cell) -> Count {
    cell.as_ref().map_or_else(Count::default, |(_, text)| text.parse().expect("a count"))
}

impl Counting {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn operation(&self, writer: usize, number: u64, since: Option<u64>) -> Operation {
        // As though a retry were an operation of its own.
        let again = if self.has(Fault::CountsAgain) && since.is_some() { 10 } else { 0 };
        Operation { writer: writer as u64, number: number + again }
    }

    fn looks(&self, state: &mut State, who: usize, since: Option<u64>) {
        let Writer { number, seen, .. } = state.writers[who].clone();
        let now = count(&seen);
        let operation = self.operation(who, number, since);
        if let Some(first) = since.filter(|_| !self.has(Fault::ForgetsItsDoubt)) {
            match now.told(operation, first) {
                Told::Applied(_) => return self.ends(state, who, true),
                Told::Nothing => return self.ends(state, who, false),
                Told::NotApplied => {}
            }
        }
        let Changed::To(mut next) = now.changed(Change::Add(1), operation) else { return };
        if self.has(Fault::KeepsOwnRecord) {
            let text = next.to_string();
            let kept: Vec<_> = text.split(' ').take(3).collect();
            next = kept.join(" ").parse().expect("a count");
        }
        let expected = seen.map(|(version, _)| version);
        state.requests.push(Request { operation: (who, number), expected, value: next.to_string() });
        state.writers[who].doing = Doing::Asking { since };
    }

    /// The operation ends; its writer believes that it was applied, or that nobody can tell.
    fn ends(&self, state: &mut State, who: usize, applied: bool) {
        let writer = &mut state.writers[who];
        if applied && state.deletions == 0 && !state.applied.contains(&(who, writer.number)) {
            state.misled = true;
        }
        self.begins_next(writer);
    }

    fn begins_next(&self, writer: &mut Writer) {
        writer.number += 1;
        writer.doing = if writer.number > OPERATIONS { Doing::Done } else { Doing::Looking { since: None } };
    }

    fn arrives(&self, state: &mut State, place: usize, heard: bool) {
        let request = state.requests.remove(place);
        let now = state.cell.as_ref().map(|(version, _)| *version);
        let made = now == request.expected || self.has(Fault::ComparesNothing);
        if made {
            state.versions += 1;
            state.cell = Some((state.versions, request.value));
            state.applied.push(request.operation);
            state.applied.sort_unstable();
        }
        let (who, number) = request.operation;
        let writer = &mut state.writers[who];
        let Doing::Asking { since } = writer.doing else { return };
        if writer.number != number {
            return;
        }
        if !heard {
            let first = since.unwrap_or_else(|| count(&writer.seen).writes());
            writer.doing = Doing::Looking { since: Some(first) };
            return;
        }
        writer.seen.clone_from(&state.cell);
        match made {
            true => self.ends(state, who, true),
            false => writer.doing = Doing::Looking { since },
        }
    }
}

impl Model for Counting {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let writer = Writer { number: 1, seen: None, doing: Doing::Looking { since: None } };
        vec![State {
            cell: None,
            versions: 0,
            writers: vec![writer; WRITERS],
            requests: Vec::new(),
            applied: Vec::new(),
            misled: false,
            unknown: 0,
            given_up: 0,
            deletions: 0,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (who, writer) in state.writers.iter().enumerate() {
            match writer.doing {
                Doing::Looking { .. } => steps.push(Step::Looks(who)),
                Doing::Asking { .. } if state.unknown < self.unknown => steps.push(Step::Doubts(who)),
                Doing::Asking { .. } | Doing::Done => {}
            }
            if writer.doing != Doing::Done && state.given_up < self.given_up {
                steps.push(Step::GivesUp(who));
            }
        }
        for (place, request) in state.requests.iter().enumerate() {
            steps.push(Step::Arrives(place));
            let writer = &state.writers[request.operation.0];
            let awaited =
                matches!(writer.doing, Doing::Asking { .. }) && writer.number == request.operation.1;
            if awaited && state.unknown < self.unknown {
                steps.push(Step::ArrivesUnheard(place));
            }
            if !awaited {
                steps.push(Step::Vanishes(place));
            }
        }
        if state.cell.is_some() && state.deletions < self.deletions {
            steps.push(Step::Deletes);
        }
    }

    fn next_state(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        match step {
            Step::Looks(who) => {
                if let Doing::Looking { since } = state.writers[who].doing {
                    self.looks(&mut state, who, since);
                }
            }
            Step::Arrives(place) => self.arrives(&mut state, place, true),
            Step::ArrivesUnheard(place) => {
                state.unknown += 1;
                self.arrives(&mut state, place, false);
            }
            Step::Doubts(who) => {
                state.unknown += 1;
                let writer = &mut state.writers[who];
                if let Doing::Asking { since } = writer.doing {
                    let first = since.unwrap_or_else(|| count(&writer.seen).writes());
                    writer.doing = Doing::Looking { since: Some(first) };
                }
            }
            Step::Vanishes(place) => drop(state.requests.remove(place)),
            Step::GivesUp(who) => {
                state.given_up += 1;
                // The next operation reads first.
                state.writers[who].seen.clone_from(&state.cell);
                self.begins_next(&mut state.writers[who]);
            }
            Step::Deletes => {
                state.deletions += 1;
                state.cell = None;
                state.applied.clear();
            }
        }
        state.requests.sort_by_key(|request| (request.operation, request.expected, request.value.clone()));
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        sound()
    }
}

impl Protocol for Counting {
    fn verdict(&self, state: &State) -> Option<Broken> {
        let twice = state.applied.windows(2).any(|pair| pair[0] == pair[1]);
        let sum = i64::try_from(state.applied.len()).expect("few");
        (twice || state.misled || count(&state.cell).value() != sum).then_some(Broken::Miscounted)
    }
}
