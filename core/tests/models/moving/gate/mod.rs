//! The model of the gate of a move, over [`GateMarker`] and [`Stage`] (the MIGRATE-GATE rules,
//! MIGRATE-EPOCH-RECORDED, CLIENT-REGISTER-FIRST, CLIENT-ACTS-REGISTERED).
//!
//! Plain clients of either side connect, read the marker, work, lose their place, come back and leave.
//! Operators begin the move, continue it, give it up, and open the new side, with a step for each request.
//! Participants acknowledge at once, and give a token in each stage. A state is broken if a plain client
//! works on a side that is not the only one, or gives a token there below an earlier one.

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
    /// CLIENT-ACTS-REGISTERED: a client that has lost its place works until it has read again.
    WorksUnregistered,
    /// MIGRATE-GATE: the clients are listed before the marker is written.
    ListsFirst,
    /// MIGRATE-GATE: only the old side is marked.
    LeavesTheNewSideOpen,
    /// MIGRATE-GATE-ANEW: an existing marker is not written again.
    KeepsTheMarker,
    /// MIGRATE-GATE-ANEW: the markers are written before the cell.
    MarksBeforeTheCell,
    /// MIGRATE-GATE-ANEW: a marker is lifted without a comparison of its version.
    LiftsAnyMarker,
    /// MIGRATE-GATE-OPENS-LAST: the new side opens before the move is done.
    OpensEarly,
    /// MIGRATE-GATE-EACH-STEP: a step is taken without a list of the clients.
    StepsUnlisted,
    /// MIGRATE-GATE-EACH-STEP: the clients are listed before a step, but the markers are not read.
    StepsUnmarked,
    /// MIGRATE-GATE-EACH-STEP: a repair records the epoch before it lists the clients.
    RecordsBeforeTheList,
    /// MIGRATE-EPOCH-RECORDED: a move is given up while the old side's stamp has an earlier epoch.
    GivesUpBelow,
    /// MIGRATE-EPOCH-RECORDED: the epoch is recorded after the phase.
    RecordsLate,
    /// MIGRATE-EPOCH-RECORDED: the stage is not read again before the epoch is recorded.
    RecordsUnchecked,
    /// MIGRATE-EPOCH-RECORDED: a move begins with the higher epoch of both sides.
    BeginsHigher,
}

#[derive(Clone, Debug)]
pub(super) struct Gate {
    pub(super) clients: Vec<Side>,
    pub(super) rounds: u8,
    pub(super) losses: u8,
    pub(super) operators: usize,
    pub(super) writes: u8,
    /// How often a side returns to its first stamp while no operator acts. If it may, operators check each
    /// step, and repair.
    pub(super) forgets: u8,
    /// The first epoch of each side's stamp.
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
    /// It knows that it has lost its place and its holds.
    Away,
}

/// Versions are not used again, even after a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Cell<T> {
    version: u8,
    value: Option<T>,
}

/// The stamp of a side: whether it has the move's marker, and its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Stamp {
    version: u8,
    marked: bool,
    epoch: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Client {
    doing: Doing,
    rounds: u8,
    epoch: u16,
    // It was admitted while the marker was forgotten: operators must notice it, but cannot prevent its work.
    came_in: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    phase: Cell<Stage>,
    stamps: [Stamp; 2],
    clients: Vec<Client>,
    operators: Vec<Operator>,
    writes: u8,
    losses: u8,
    forgets: u8,
    // Sides whose marker was forgotten and not written since.
    forgotten: [bool; 2],
    // A step was taken while a client that `came_in` worked.
    passed_by: bool,
    // The epoch and the side of the highest token.
    highest: (u16, Side),
    // The highest epoch of plain tokens of the new side without a move: they are tokens of other locks.
    beside: u16,
    token_back: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Client(usize),
    Leaves(usize),
    LosesItsPlace(usize),
    /// The side returns to its first stamp.
    Forgets(Side),
    /// The operator writes forgotten markers again.
    Repairs(usize),
    Operator(usize),
    Forward(usize),
    Back(usize),
}

fn index(side: Side) -> usize {
    usize::from(side == Side::New)
}

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
            (_, Doing::Outside) => client.epoch = 0,
            (Doing::Outside, Doing::Early(_)) | (Doing::Registered, _) => client.epoch = stamp.epoch,
            _ => {}
        }
        if client.doing == Doing::Works && !client.came_in {
            let epoch = client.epoch;
            state.plain_gives(epoch, side);
        }
    }

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
