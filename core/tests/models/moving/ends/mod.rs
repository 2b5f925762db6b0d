//! The model of the ends of a move, over [`Stage`], [`Holding`] and [`GateMarker`], the code that decides it:
//! it is given up, or finished, and its cell is deleted.
//!
//! The model of the move itself has its phases, with a cell that always stands. Here participants keep what
//! they know while they are away from the old side, come back by its marker, and may find no cell. Operators
//! take steps, begin, give up and finish, each request a step of its own: they record the epoch of a stage
//! before they write it, and write cells and markers over the versions that they read. A participant reads the
//! cell and the stamp behind it in one step. Its lease on the old side is lost first to itself and then on the server, where
//! all that hangs on it ends at once: its place among the clients, its membership and its place in the queue.
//! A server may lose the cell while the phase is *New*, and with it what was written to the stamp later; no operator
//! goes on then.
//!
//! A state is broken if two clients hold, if a token is not above all earlier ones, if two wait for each other
//! on different sides, or if a member that never was away finds no cell and does not go by the old side.

mod operator;
mod participant;
mod rules;
mod state;

use latchwork_core::backend::decide::moving::{MovePhase, Side, Stage};

use self::operator::Operator;
use self::state::{Cell, Client, Entry, Mark, Member, Stamp, State, Work};
use super::{Id, Server, circle};
use crate::explore::{Broken, Protocol};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// MIGRATE-BACK-TO-OLD: who comes back and finds no stage goes on by the one that it knew.
    GoesOnByWhatItKnew,
    /// MIGRATE-BACK-TO-OLD: who finds no stage goes by the old side, whatever its stamp says.
    GoesBackUnasked,
    /// MIGRATE-EPOCH-RISES: the epoch stays on the way back.
    KeepsTheEpoch,
    /// MIGRATE-EPOCH-RECORDED: the epoch is recorded after the phase, and its operator dies between the two.
    RecordsLate,
    /// MIGRATE-GIVEN-UP-LAST: an operator gives up without asking the members.
    GivesUpUnasked,
    /// MIGRATE-GIVEN-UP-LAST: it deletes the first phase that stands by then, and not the one that was acknowledged.
    GivesUpAnother,
    /// MIGRATE-GIVEN-UP-LAST: one who begins, and names an outsider, deletes a first phase that it has not made.
    TakesBackAnothers,
    /// MIGRATE-GATE-ANEW: an operator lifts whatever marker stands by now.
    LiftsAnyMarker,
    /// MIGRATE-FINISHED-SHUT: the marker goes with the cell.
    FinishLiftsTheMarker,
    /// MIGRATE-FINISHED-SHUT: the clients are listed before the marker is written.
    FinishListsFirst,
    /// MIGRATE-FINISHED-SHUT: a marker that admits nobody already is not written again.
    FinishKeepsTheMarker,
    /// MIGRATE-FINISHED-SHUT: who lets clients in again leaves the stage as it is.
    FinishKeepsTheStage,
}

#[derive(Clone, Debug)]
pub(super) struct Ends {
    pub(super) participants: usize,
    /// So many of them are members at first, and have acknowledged the phase.
    pub(super) members: usize,
    /// The phase that the others know, who come later: they were cut off in it. `None`: they know of no move.
    pub(super) knew: Option<MovePhase>,
    /// The phase at first; `None`: no move has begun.
    pub(super) from: Option<MovePhase>,
    /// How often each acquires.
    pub(super) rounds: u8,
    /// So many of them may lose their lease on the old side.
    pub(super) cut_off: usize,
    /// How often that is lost.
    pub(super) losses: u8,
    pub(super) operators: usize,
    /// How often operators write the cell or the stamp.
    pub(super) writes: u8,
    /// Whether the server may lose the cell.
    pub(super) forgets: bool,
    pub(super) fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It registers among the old side's clients.
    Enters(Id),
    /// It reads the marker there.
    ReadsTheMarker(Id),
    /// It becomes a member.
    Registers(Id),
    Reads(Id),
    Acknowledges(Id),
    /// The move is done: it is no member any more.
    LeavesTheGroup(Id),
    /// It needs the new side alone, and is connected to that alone.
    LeavesTheOldSide(Id),
    Begins(Id),
    /// The next step of its acquisition.
    Acquires(Id),
    /// Its hold joins the new side.
    Extends(Id),
    /// Its hold gives back what the phase does not need.
    Trims(Id),
    Releases(Id),
    /// A node without a hold is given back.
    GivesBack(Id, Side),
    /// Its lease on the old side.
    Loses(Id),
    Expires(Id),
    Forward(usize),
    /// Or gives the move up.
    Back(usize),
    Finishes(usize),
    /// The next step of this operator.
    Operator(usize),
    /// Beside a plain client that it lists as it begins.
    NamesAnOutsider(usize),
    /// The server loses the cell.
    Forgets,
}

impl Ends {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

impl Protocol for Ends {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let stage = |phase: MovePhase| Stage { phase, epoch: u16::from(phase.token() == Side::New) };
        let (now, knew) = (self.from.map(stage), self.knew.map(|phase| (0, stage(phase))));
        let client = Client {
            entry: Entry::In,
            live: true,
            known: now.map(|stage| (1, stage)),
            epoch: now.map_or(0, |stage| stage.epoch),
            is_read: true,
            was_away: false,
            work: Work::Idle,
            rounds: 0,
        };
        let comes = Client {
            entry: Entry::Out,
            live: false,
            known: knew,
            epoch: knew.map_or(0, |(_, stage)| stage.epoch),
            is_read: false,
            was_away: true,
            ..client
        };
        let member = Member { registered: true, acknowledged: now.map(|_| 1) };
        let (mut clients, mut members) = (vec![client; self.members], vec![member; self.members]);
        clients.resize(self.participants, comes);
        members.resize(self.participants, Member::default());
        // The old side's numbers are the higher ones: a token without an epoch would go back.
        let server = |next| Server { queue: Vec::new(), next };
        let mark = if now.is_some() { Mark::Leaves } else { Mark::Nothing };
        vec![State {
            cell: Cell { version: 1, stage: now },
            stamp: Stamp { version: 0, mark, epoch: 0 },
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
                state.cell = Cell { version: state.cell.version + 1, stage: None };
                // The marker and each later epoch were written behind the cell.
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
