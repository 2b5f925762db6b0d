//! The model of the ends of a move, over [`Stage`], [`Holding`] and [`GateMarker`] (MIGRATE-BACK-TO-OLD,
//! MIGRATE-GIVEN-UP-LAST, MIGRATE-FINISHED-SHUT). A move is given up or finished, and then its cell is
//! deleted.
//!
//! Participants keep their knowledge while they are away from the old side, come back through its marker, and
//! may find no cell. Operators take steps, begin, give up and finish, with a step of the model for each
//! request. Cells and markers are written over the versions that were read. The record is written together
//! with the cell, and a participant reads cell, record and stamp in one step: the model of the sides
//! separates them. A lease on the old side is lost first to the participant, then on the server with
//! registration, membership and place. A server may lose the cell in phase *New*, with the later writes of
//! the stamp; after that no operator continues. A state is broken if two clients hold, if a token is not
//! above all earlier ones, if two clients wait for each other on different sides, or if a participant finds
//! no cell, although the server lost none, and does not use the old side.

mod operator;
mod participant;
mod rules;
mod state;

use latchwork_core::backend::decide::moving::evidence::{MoveId, MoveRecord, StageRead};
use latchwork_core::backend::decide::moving::{MovePhase, Side, Stage};

use self::operator::Operator;
use self::state::{Cell, Client, Entry, Mark, Member, Stamp, State, Work};
use super::{Id, Server, circle};
use crate::explore::{Broken, Protocol};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// MIGRATE-BACK-TO-OLD: a participant that comes back and finds no stage uses the stage that it knew.
    GoesOnByWhatItKnew,
    /// MIGRATE-BACK-TO-OLD: a participant that finds no stage uses the old side without a look at the record.
    GoesBackUnasked,
}

#[derive(Clone, Debug)]
pub(super) struct Ends {
    pub(super) participants: usize,
    /// The number of participants that are members at first, and have acknowledged the phase.
    pub(super) members: usize,
    /// The phase in which the others were cut off. `None`: they know no move.
    pub(super) knew: Option<MovePhase>,
    /// The phase at first. `None`: no move has begun.
    pub(super) from: Option<MovePhase>,
    pub(super) rounds: u8,
    /// The number of participants that may lose their lease on the old side.
    pub(super) cut_off: usize,
    pub(super) losses: u8,
    pub(super) operators: usize,
    /// The number of writes of the cell and the stamp.
    pub(super) writes: u8,
    pub(super) forgets: bool,
    pub(super) fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Enters(Id),
    ReadsTheMarker(Id),
    Registers(Id),
    Reads(Id),
    Acknowledges(Id),
    LeavesTheGroup(Id),
    LeavesTheOldSide(Id),
    Begins(Id),
    Acquires(Id),
    Extends(Id),
    Trims(Id),
    Releases(Id),
    GivesBack(Id, Side),
    Loses(Id),
    Expires(Id),
    Forward(usize),
    Back(usize),
    Finishes(usize),
    Operator(usize),
    /// An operator that begins finds a plain client in its list.
    NamesAnOutsider(usize),
    Forgets,
}

impl Ends {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

fn record(id: u8, from: MovePhase, to: Option<MovePhase>, over: u8) -> MoveRecord {
    let values = to.unwrap_or(from).token().into();
    MoveRecord { id: MoveId::new(id.into()), from, to, values, over: over.into(), epoch: 0 }
}

impl Protocol for Ends {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let stage = |phase: MovePhase| Stage { phase, epoch: u16::from(phase.token() == Side::New) };
        let read = |version, stage: Stage| StageRead {
            id: MoveId::new(1),
            version,
            stage,
            values: stage.phase.token().into(),
        };
        let (now, knew) = (self.from.map(stage), self.knew.map(|phase| read(0, stage(phase))));
        let client = Client {
            entry: Entry::In,
            live: true,
            known: now.map(|stage| read(1, stage)),
            awaits: false,
            stopped: false,
            done: self.from == Some(MovePhase::Done),
            epoch: now.map_or(0, |stage| stage.epoch),
            is_read: true,
            work: Work::Idle,
            rounds: 0,
        };
        let comes = Client {
            entry: Entry::Out,
            live: false,
            known: knew,
            epoch: knew.map_or(0, |known| known.stage.epoch),
            done: false,
            is_read: false,
            ..client
        };
        let member = Member { registered: true, acknowledged: now.map(|_| 1) };
        let (mut clients, mut members) = (vec![client; self.members], vec![member; self.members]);
        clients.resize(self.participants, comes);
        members.resize(self.participants, Member::default());
        // The old side's numbers are higher, so a token without an epoch would go back.
        let server = |next| Server { queue: Vec::new(), next };
        let mark = if now.is_some() { Mark::Leaves } else { Mark::Nothing };
        vec![State {
            cell: Cell { version: 1, stage: now, id: 1 },
            stamp: Stamp { version: 0, mark, epoch: 0 },
            record: now.map(|stage| record(1, stage.phase, Some(stage.phase), 0)),
            ids: 1,
            old: server(100),
            new: server(0),
            members,
            clients,
            operators: vec![Operator::Idle; self.operators],
            highest: None,
            losses: 0,
            forgotten: false,
            token_back: false,
            left_behind: false,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for who in 0..self.participants {
            self.steps_of(state, u8::try_from(who).expect("few"), steps);
        }
        if state.forgotten {
            return;
        }
        for (who, doing) in state.operators.iter().enumerate() {
            self.operator_steps(state, who, *doing, steps);
        }
        if self.forgets && state.cell.stage.is_some_and(|stage| stage.phase == MovePhase::New) {
            steps.push(Step::Forgets);
        }
    }

    fn step(&self, state: &mut State, step: Step) {
        match step {
            Step::Forward(who) => self.goes_forward(state, who),
            Step::Back(who) => self.goes_back(state, who),
            Step::Finishes(who) => self.finishes(state, who),
            Step::Operator(who) => self.operator(state, who),
            Step::NamesAnOutsider(who) => self.names_an_outsider(state, who),
            Step::Forgets => {
                state.forgotten = true;
                state.cell = Cell { version: state.cell.version + 1, stage: None, id: 0 };
                // The marker and each later epoch were written after the cell.
                state.stamp = Stamp { version: 0, mark: Mark::Nothing, epoch: 0 };
            }
            step => self.takes(state, step),
        }
    }

    fn verdict(&self, state: &State) -> Option<Broken> {
        if state.clients.iter().filter(|client| client.work == Work::Holding).count() > 1 {
            return Some(Broken::TwoHolders);
        }
        if state.token_back {
            return Some(Broken::TokenBack);
        }
        if state.left_behind {
            return Some(Broken::Stuck);
        }
        circle(&state.old, &state.new)
    }
}
