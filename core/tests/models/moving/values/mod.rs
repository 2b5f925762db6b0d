//! The model of values that move with their locks, over
//! [`moving::values`](latchwork_core::backend::decide::moving::values) (the MIGRATE-VALUES- rules).
//!
//! A count is in a cell on one side, and moves to the other and back. Participants add to it, delete it and
//! read it, by the stage that they know. A request is carried out later or never, its answer may be lost, and
//! an add is then sent again. A membership is lost first by the participant's clock, then on the server. An
//! operator freezes the count, waits until it is alone in a queue on the target, copies, compares, and takes
//! the step. In a pass of the same form it deletes cells of a side that no client uses. Operators' writes may
//! be late, and operators lose their nodes. A state is broken if a read shows less than was confirmed or
//! shown before it began, or if a change is made twice: each side records which changes have made its cell.

mod operator;
mod participant;
mod rules;

use latchwork_core::backend::decide::moving::Side;
use latchwork_core::backend::decide::moving::values::WholeStage;

use self::operator::Operator;
use self::participant::{Client, Request};
use crate::explore::{Broken, Protocol};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    FreezesNothing,
    /// MIGRATE-VALUES-FREEZE: participants read during the copy, and accept the count if the stage is the
    /// same afterwards.
    ReadsWhileFrozen,
    /// MIGRATE-VALUES-ACK-WAITS: a participant acknowledges before its requests are answered.
    AcknowledgesAtOnce,
    /// MIGRATE-VALUES-LIVE-MEMBER: a client that is no longer a member uses an answer.
    CountsAnyAnswer,
    /// MIGRATE-VALUES-HELD-COPY: an operator's write is carried out after its node has ended.
    CopiesWithoutHold,
    /// MIGRATE-VALUES-STAGE-ANEW: an operator acts under the version that it read.
    KeepsTheVersion,
    /// MIGRATE-VALUES-STAGE-ANEW: an operator reads the stage only after its admission, and writes it
    /// again.
    ReadsBehindAdmission,
    /// MIGRATE-VALUES-ACK-WAITS: an operator waits for no acknowledgement.
    AsksNobody,
    /// MIGRATE-VALUES-FRESH-HOLD: an operator takes the step under the node of its write.
    StepsByTheSameHold,
    /// MIGRATE-VALUES-VERIFY: an operator takes the step without a comparison.
    ComparesNoCells,
    /// MIGRATE-VALUES-MIRROR: cells that the source does not have remain.
    LeavesExtras,
    /// MIGRATE-VALUES-MIRROR: only the number is copied, without its records.
    CopiesTheNumber,
    /// MIGRATE-VALUES-CLEAR: an operator deletes by the stage that it read, and does not write it again.
    ClearsByWhatItRead,
    /// MIGRATE-COMPARE-AND-SET: an operator writes the stage without a comparison.
    ComparesNothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Add,
    /// The recipes never send a deletion again, nor does the model.
    Delete,
}

#[derive(Clone, Debug)]
pub(super) struct Copying {
    pub(super) begins: WholeStage,
    /// The changes of each participant, in order.
    pub(super) changes: Vec<Vec<Kind>>,
    pub(super) tries: u8,
    pub(super) reads: u8,
    pub(super) losses: u8,
    pub(super) operators: usize,
    pub(super) writes: u8,
    /// How often an operator sends its writes.
    pub(super) copies: u8,
    /// Operators also delete the cells of a side that no client uses.
    pub(super) clears: bool,
    pub(super) expiries: u8,
    pub(super) fault: Option<Fault>,
}

type Id = u8;

/// A set of changes, one bit each.
type Changes = u8;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Count {
    /// The changes of which the cell has records. `None`: there is no cell.
    records: Option<Changes>,
    // All changes that made the cell, and the changes since its last deletion.
    made: Changes,
    since: Changes,
}

impl Count {
    /// Makes a change, unless the cell has a record of it. Returns whether it was made before since the last
    /// deletion.
    fn apply(&mut self, change: Changes, kind: Kind) -> bool {
        match (kind, self.records) {
            (Kind::Delete, _) => {
                *self = Self { records: None, made: self.made | change, since: 0 };
                false
            }
            (Kind::Add, Some(records)) if records & change != 0 => false,
            (Kind::Add, records) => {
                let twice = self.since & change != 0;
                let records = Some(records.unwrap_or_default() | change);
                *self = Self { records, made: self.made | change, since: self.since | change };
                twice
            }
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Server {
    count: Count,
    /// The nodes of operators.
    queue: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Copy {
    node: u8,
    to: Side,
    count: Count,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    version: u8,
    whole: WholeStage,
    old: Server,
    new: Server,
    clients: Vec<Client>,
    operators: Vec<Operator>,
    requests: Vec<Request>,
    copies: Vec<Copy>,
    // Changes that were confirmed, or shown by a read.
    known: Changes,
    next_node: u8,
    losses: u8,
    sent: u8,
    expiries: u8,
    broken: Option<Broken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Registers(Id),
    ReadsStage(Id),
    Acknowledges(Id),
    Sends(Id),
    Lands(usize),
    Hears(Id),
    HearsNothing(Id),
    SendsAgain(Id),
    GivesUp(Id),
    BeginsToRead(Id),
    Reads(Id),
    Loses(Id),
    Expires(Id),
    Returns(Id),
    Of(usize, operator::Move),
    /// The write is carried out if its node still exists.
    CopyLands(usize),
}

impl State {
    fn server(&self, side: Side) -> &Server {
        match side {
            Side::Old => &self.old,
            Side::New => &self.new,
        }
    }

    fn server_mut(&mut self, side: Side) -> &mut Server {
        match side {
            Side::Old => &mut self.old,
            Side::New => &mut self.new,
        }
    }

    fn acknowledged(&self) -> Vec<Option<u8>> {
        self.clients.iter().filter(|client| client.registered).map(|client| client.acknowledged).collect()
    }
}

fn other(side: Side) -> Side {
    match side {
        Side::Old => Side::New,
        Side::New => Side::Old,
    }
}

impl Copying {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn copy_lands(&self, state: &mut State, which: usize) {
        let Copy { node, to, count } = state.copies.remove(which);
        let server = state.server_mut(to);
        if server.queue.contains(&node) || self.has(Fault::CopiesWithoutHold) {
            server.count = count;
        }
    }
}

impl Protocol for Copying {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let client = Client::reading(self.begins);
        vec![State {
            version: 0,
            whole: self.begins,
            old: Server::default(),
            new: Server::default(),
            clients: vec![client; self.changes.len()],
            operators: vec![Operator::default(); self.operators],
            requests: Vec::new(),
            copies: Vec::new(),
            known: 0,
            next_node: 0,
            losses: 0,
            sent: 0,
            expiries: 0,
            broken: None,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for who in 0..self.changes.len() {
            self.steps_of(state, u8::try_from(who).expect("few"), steps);
        }
        steps.extend((0..state.requests.len()).map(Step::Lands));
        steps.extend((0..state.copies.len()).map(Step::CopyLands));
        for operator in 0..self.operators {
            self.moves_of(state, operator, steps);
        }
    }

    fn step(&self, state: &mut State, step: Step) {
        match step {
            Step::Of(operator, what) => self.moves(state, operator, what),
            Step::CopyLands(which) => self.copy_lands(state, which),
            step => self.takes(state, step),
        }
    }

    fn verdict(&self, state: &State) -> Option<Broken> {
        state.broken
    }
}
