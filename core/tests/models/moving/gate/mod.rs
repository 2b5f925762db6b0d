//! The model of the gate of a move, over [`GateMarker`] and [`Stage`], the code that decides it.
//!
//! Plain clients of either side connect, read the marker, work, lose their place, come back, and leave.
//! Operators begin the move, continue it, give it up, and open the new side; each request is a separate step.
//! The participants acknowledge at once, and give a token in each stage: the model of the move itself has
//! their steps. A state is broken if a plain client works on a side that is not the only one, or gives a
//! token there that is below an earlier one.

mod operator;
mod rules;
mod tokens;

use latchwork_core::backend::decide::moving::gate::{Course, GateMarker, Who};
use latchwork_core::backend::decide::moving::{MovePhase, Side, Stage};

use self::operator::Operator;
use crate::explore::{Broken, Protocol};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// CLIENT-REGISTER-FIRST: a client reads the marker, and then registers.
    ReadsFirst,
    /// CLIENT-ACTS-REGISTERED: a client that has lost its place continues to work until it has read again.
    WorksUnregistered,
    /// MIGRATE-GATE: the clients are listed before the marker is written.
    ListsFirst,
    /// MIGRATE-GATE: only the old side is marked.
    LeavesTheNewSideOpen,
    /// MIGRATE-GATE-ANEW: an existing marker is not written again.
    KeepsTheMarker,
    /// MIGRATE-GATE-ANEW: the markers are written before there is a cell with the phase.
    MarksBeforeTheCell,
    /// MIGRATE-GATE-ANEW: an operator lifts the marker without a comparison of its version.
    LiftsAnyMarker,
    /// MIGRATE-GATE-OPENS-LAST: the new side is opened when holds are only there, before the move is done.
    OpensEarly,
    /// MIGRATE-GATE-EACH-STEP: an operator takes a step without listing the clients after it read the
    /// markers.
    StepsUnlisted,
    /// MIGRATE-GATE-EACH-STEP: an operator lists the clients before a step, but does not read the markers
    /// before that.
    StepsUnmarked,
    /// MIGRATE-GATE-EACH-STEP: an operator that repairs records the epoch before it lists the clients.
    RecordsBeforeTheList,
    /// MIGRATE-EPOCH-RECORDED: a move is given up although the stamp of the old side has an earlier epoch.
    GivesUpBelow,
    /// MIGRATE-EPOCH-RECORDED: the epoch is recorded after the phase.
    RecordsLate,
    /// MIGRATE-EPOCH-RECORDED: the phase is not read again before the epoch is recorded.
    RecordsUnchecked,
    /// MIGRATE-EPOCH-RECORDED: a move begins with the higher epoch of the two sides.
    BeginsHigher,
}

#[derive(Clone, Debug)]
pub(super) struct Gate {
    /// The side of each plain client.
    pub(super) clients: Vec<Side>,
    /// How often each client connects.
    pub(super) rounds: u8,
    /// How often places are lost.
    pub(super) losses: u8,
    pub(super) operators: usize,
    /// How often cells are written.
    pub(super) writes: u8,
    /// How often a side goes back to its first stamp, while no operator acts. If it may happen, operators
    /// check each step, and repair.
    pub(super) forgets: u8,
    /// The epoch in the stamp of each side at first.
    pub(super) epochs: [u16; 2],
    pub(super) fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Doing {
    Outside,
    /// It has read the marker, and is not registered. The flag: it was admitted.
    Early(bool),
    Registered,
    Works,
    /// It knows that it has lost its place, and its holds with it.
    Away,
}

/// A cell, which may be absent, and its version. Versions are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Cell<T> {
    version: u8,
    value: Option<T>,
}

/// The stamp of a side: whether it contains the move's marker, and its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Stamp {
    version: u8,
    marked: bool,
    epoch: u16,
}

/// A plain client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Client {
    doing: Doing,
    rounds: u8,
    // The epoch that the client has read.
    epoch: u16,
    // It was admitted while the marker was forgotten: operators must notice it, but cannot prevent its work.
    came_in: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    phase: Cell<Stage>,
    // The stamps of the old side and of the new side.
    stamps: [Stamp; 2],
    clients: Vec<Client>,
    operators: Vec<Operator>,
    writes: u8,
    losses: u8,
    forgets: u8,
    // The sides whose marker was forgotten, and was not written since.
    forgotten: [bool; 2],
    // A step was taken while a client that came in worked.
    passed_by: bool,
    // The epoch and the side of the highest token.
    highest: (u16, Side),
    // The highest epoch of plain tokens of the new side without a move: they are tokens of other locks.
    beside: u16,
    token_back: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The next step of this client.
    Client(usize),
    Leaves(usize),
    LosesItsPlace(usize),
    /// This side goes back to the stamp that it had at first.
    Forgets(Side),
    /// The operator writes again the markers that were forgotten.
    Repairs(usize),
    /// The next step of this operator.
    Operator(usize),
    /// The operator begins, or continues.
    Forward(usize),
    /// It goes back, or gives the move up.
    Back(usize),
}

fn index(side: Side) -> usize {
    usize::from(side == Side::New)
}

/// The marker that this move has on a side.
fn marker(side: Side) -> GateMarker {
    let course = if side == Side::Old { Course::Leaves } else { Course::Arrives };
    GateMarker { course, name: Some("m".to_owned()), url: "memory://there".to_owned() }
}

impl Gate {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn client(&self, state: &mut State, who: usize) {
        let side = self.clients[who];
        let stamp = state.stamps[index(side)];
        let marked = stamp.marked.then(|| marker(side));
        let admitted = GateMarker::admits(marked.as_ref(), Who::Plain);
        let enters = |admitted| if admitted { Doing::Works } else { Doing::Outside };
        let client = &mut state.clients[who];
        let before = client.doing;
        client.doing = match before {
            Doing::Outside => {
                client.rounds += 1;
                if self.has(Fault::ReadsFirst) { Doing::Early(admitted) } else { Doing::Registered }
            }
            Doing::Early(admitted) => enters(admitted),
            Doing::Registered => enters(admitted),
            Doing::Away => Doing::Registered,
            Doing::Works => Doing::Works,
        };
        let came_in = state.forgotten[index(side)];
        if before == Doing::Registered || client.doing == Doing::Outside {
            client.came_in = came_in && client.doing == Doing::Works;
        }
        match (before, client.doing) {
            // A refusal ends everything that the client has read.
            (_, Doing::Outside) => client.epoch = 0,
            (Doing::Outside, Doing::Early(_)) | (Doing::Registered, _) => client.epoch = stamp.epoch,
            _ => {}
        }
        if client.doing == Doing::Works && !client.came_in {
            let epoch = client.epoch;
            state.plain_gives(epoch, side);
        }
    }

    /// Whether a plain client that is registered on this side is listed.
    fn lists_an_outsider(&self, state: &State, side: Side) -> bool {
        let stands = |client: &Client| matches!(client.doing, Doing::Registered | Doing::Works);
        state.clients.iter().zip(&self.clients).any(|(client, of)| *of == side && stands(client))
    }

    fn works(&self, doing: Doing) -> bool {
        doing == Doing::Works || doing == Doing::Away && self.has(Fault::WorksUnregistered)
    }
}

impl Protocol for Gate {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            phase: Cell { version: 0, value: None },
            stamps: self.epochs.map(|epoch| Stamp { version: 0, marked: false, epoch }),
            clients: vec![
                Client { doing: Doing::Outside, rounds: 0, epoch: 0, came_in: false };
                self.clients.len()
            ],
            operators: vec![Operator::Idle; self.operators],
            writes: 0,
            losses: 0,
            forgets: 0,
            forgotten: [false; 2],
            passed_by: false,
            highest: (self.epochs[0], Side::Old),
            beside: self.epochs[1],
            token_back: false,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (who, client) in state.clients.iter().enumerate() {
            match client.doing {
                Doing::Outside if client.rounds < self.rounds => steps.push(Step::Client(who)),
                Doing::Outside => {}
                Doing::Works => {
                    steps.push(Step::Leaves(who));
                    if state.losses < self.losses {
                        steps.push(Step::LosesItsPlace(who));
                    }
                }
                _ => steps.push(Step::Client(who)),
            }
        }
        let idle = state.operators.iter().all(|doing| *doing == Operator::Idle);
        if idle && state.forgets < self.forgets && state.phase.value.is_some() {
            let marked = [Side::Old, Side::New].into_iter().filter(|side| state.stamps[index(*side)].marked);
            steps.extend(marked.map(Step::Forgets));
        }
        let may_write = state.writes < self.writes;
        for (who, doing) in state.operators.iter().enumerate().filter(|_| may_write) {
            match doing {
                Operator::Idle => {
                    steps.extend([Step::Forward(who), Step::Back(who)]);
                    if self.forgets > 0 && state.phase.value.is_some() {
                        steps.push(Step::Repairs(who));
                    }
                }
                _ => steps.push(Step::Operator(who)),
            }
        }
    }

    fn step(&self, state: &mut State, step: Step) {
        match step {
            Step::Client(who) => self.client(state, who),
            Step::Leaves(who) => {
                let client = &mut state.clients[who];
                (client.doing, client.epoch, client.came_in) = (Doing::Outside, 0, false);
            }
            Step::LosesItsPlace(who) => {
                state.clients[who].doing = Doing::Away;
                state.losses += 1;
            }
            Step::Forgets(side) => {
                let stamp = &mut state.stamps[index(side)];
                (stamp.version, stamp.marked) = (stamp.version + 1, false);
                stamp.epoch = self.epochs[index(side)];
                state.forgets += 1;
                state.forgotten[index(side)] = true;
            }
            Step::Repairs(who) => state.operators[who] = Operator::Repairs(Side::New, [None; 2]),
            Step::Operator(who) => self.operator(state, who),
            Step::Forward(who) => self.goes_forward(state, who),
            Step::Back(who) => self.goes_back(state, who),
        }
    }

    fn verdict(&self, state: &State) -> Option<Broken> {
        let phase = state.phase();
        let stands_outside = |side| match side {
            Side::Old => phase != MovePhase::Old,
            Side::New => !matches!(phase, MovePhase::Old | MovePhase::Done),
        };
        let plain = || state.clients.iter().zip(&self.clients);
        let outside = |(client, side): (&Client, &Side)| {
            !client.came_in && self.works(client.doing) && stands_outside(*side)
        };
        if state.passed_by || plain().any(outside) {
            return Some(Broken::Outside);
        }
        let goes_back = |(client, side): (&Client, &Side)| {
            !client.came_in && client.doing == Doing::Works && state.goes_back(client.epoch, *side)
        };
        (state.token_back || plain().any(goes_back)).then_some(Broken::TokenBack)
    }
}
