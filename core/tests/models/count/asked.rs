//! The model of a count that the server changes by itself.
//!
//! [`Count::decide`] is the code that runs, and on Redis a script that a test holds equal to it. What
//! a client does around it (`src/recipes/count_request.rs`) is stated here. Two writers have two
//! operations each, one of them a swap. A request may arrive at any time, also after its writer has
//! gone on; a reply may be lost; an operation may be given up at any instant. A state is broken if an
//! operation was applied twice, or if its writer was told something else than what happens.

use latchwork_core::backend::decide::count::request::{CountOutcome, CountRequest, Decided};
use latchwork_core::backend::decide::count::{Change, Count, Operation};
use stateright::{Model, Property};

use crate::explore::{Broken, Protocol, sound};

const WRITERS: usize = 2;
const OPERATIONS: u64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// COUNT-ONE-NUMBER: what is sent again is another operation.
    CountsAgain,
    /// COUNT-ENDED-STAYS-ENDED: an operation that its writer has ended is taken for a new one.
    TakesTheEnded,
    /// COUNT-REFUSED-FOR-GOOD: no record of a refusal keeps a late request out.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Doing {
    Idle,
    Asks,
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Writer {
    number: u64,
    doubts: bool,
    since: Option<u64>,
    known: Option<u64>,
    doing: Doing,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Sends its operation, or sends it again.
    Asks(usize),
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
}

/// The first writer's first operation is a swap, which fits after one add of the second.
fn change(writer: usize, number: u64) -> Change {
    match (writer, number) {
        (0, 1) => Change::Swap { from: 1, to: 5 },
        _ => Change::Add(1),
    }
}

fn begin_next(writer: &mut Writer) {
    writer.number += 1;
    writer.doubts = false;
    writer.since = writer.known;
    writer.doing = if writer.number > OPERATIONS { Doing::Done } else { Doing::Idle };
}

impl Asking {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn request(&self, sent: Sent, later: Option<u64>) -> CountRequest {
        let again = if self.has(Fault::CountsAgain) && sent.in_doubt { 100 } else { 0 };
        let ended = later.filter(|later| self.has(Fault::TakesTheEnded) && *later > 2 * sent.number);
        let number = ended.map_or(2 * sent.number + again, |later| later + 2);
        CountRequest {
            change: change(sent.writer, sent.number),
            operation: Operation { writer: sent.writer as u64, number },
            initial: None,
            since: sent.since,
            in_doubt: sent.in_doubt && !self.has(Fault::RefusesForNow),
        }
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
        if writer.doing != Doing::Asks || writer.number != sent.number || writer.doubts != sent.in_doubt {
            return;
        }
        if !heard {
            (writer.doing, writer.doubts) = (Doing::Idle, true);
            return;
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
        begin_next(&mut state.writers[sent.writer]);
    }
}

impl Model for Asking {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let writer = Writer { number: 1, doubts: false, since: None, known: None, doing: Doing::Idle };
        vec![State {
            count: Count::default().to_string(),
            writers: vec![writer; WRITERS],
            requests: Vec::new(),
            applied: Vec::new(),
            refused: Vec::new(),
            misled: false,
            unknown: 0,
            given_up: 0,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (who, writer) in state.writers.iter().enumerate() {
            match writer.doing {
                Doing::Idle => steps.push(Step::Asks(who)),
                Doing::Asks if state.unknown < self.unknown => steps.push(Step::Doubts(who)),
                Doing::Asks | Doing::Done => {}
            }
            if writer.doing != Doing::Done && state.given_up < self.given_up {
                steps.push(Step::GivesUp(who));
            }
        }
        for (place, sent) in state.requests.iter().enumerate() {
            steps.push(Step::Arrives(place));
            let writer = &state.writers[sent.writer];
            let awaited =
                writer.doing == Doing::Asks && writer.number == sent.number && writer.doubts == sent.in_doubt;
            match awaited {
                true if state.unknown < self.unknown => steps.push(Step::ArrivesUnheard(place)),
                true => {}
                false => steps.push(Step::Vanishes(place)),
            }
        }
    }

    fn next_state(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        match step {
            Step::Asks(who) => {
                let Writer { number, doubts, since, .. } = state.writers[who];
                state.requests.push(Sent { writer: who, number, in_doubt: doubts, since });
                state.writers[who].doing = Doing::Asks;
            }
            Step::Arrives(place) => self.arrives(&mut state, place, true),
            Step::ArrivesUnheard(place) => {
                state.unknown += 1;
                self.arrives(&mut state, place, false);
            }
            Step::Doubts(who) => {
                state.unknown += 1;
                (state.writers[who].doing, state.writers[who].doubts) = (Doing::Idle, true);
            }
            Step::Vanishes(place) => drop(state.requests.remove(place)),
            Step::GivesUp(who) => {
                state.given_up += 1;
                begin_next(&mut state.writers[who]);
            }
        }
        state.requests.sort_unstable();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        sound()
    }
}

impl Protocol for Asking {
    fn verdict(&self, state: &State) -> Option<Broken> {
        let twice = state.applied.windows(2).any(|pair| pair[0] == pair[1]);
        (twice || state.misled).then_some(Broken::Miscounted)
    }
}
