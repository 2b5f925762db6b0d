//! The model of the registry of clients and of raising a layout, over [`Stamp`] (CLIENT-REGISTER-FIRST,
//! CLIENT-READ-AGAIN, the LAYOUT- rules).
//!
//! Clients of several builds register, read the stamp, work, lose their registration, come back and leave. An
//! operator reads, announces, lists and settles in separate steps, and may stop after any of them. A state is
//! broken if a registered client works below the layout in the stamp, or if the stamp goes back.

mod rules;

use latchwork_core::backend::decide::layout::{Admission, Raise, Stamp};

use crate::explore::{Broken, Protocol, offer};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// CLIENT-REGISTER-FIRST: a client reads the stamp before it registers.
    ReadsFirst,
    /// CLIENT-READ-AGAIN: a client that comes back does not read the stamp.
    TrustsWhatItRead,
    /// LAYOUT-ANNOUNCE-FIRST: the clients are listed before the announcement.
    ListsFirst,
    /// LAYOUT-TWO-STEPS: an announced layout is in force.
    RaisesAtOnce,
    /// LAYOUT-UNDER-VERSION: the stamp is written without a comparison of its version.
    ComparesNothing,
}

#[derive(Clone, Debug)]
pub(super) struct Layouts {
    /// The layout of each client's build.
    pub(super) clients: Vec<u32>,
    pub(super) rounds: u8,
    pub(super) losses: u8,
    /// The layout of each operator's build.
    pub(super) operators: Vec<u32>,
    pub(super) calls: u8,
    pub(super) fault: Option<Fault>,
}

type Cell = Option<(u8, Stamp)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Doing {
    Outside,
    Early(Admission),
    Registered,
    Stamps(Stamp),
    Works,
    Away,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Raising {
    Idle,
    Writes(Cell, Stamp),
    Lists(Cell),
    Settles(Cell, Stamp),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    cell: Cell,
    versions: u8,
    clients: Vec<(Doing, u8)>,
    losses: u8,
    operators: Vec<(Raising, u8)>,
    highest: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Client(usize),
    Leaves(usize),
    LosesItsPlace(usize),
    Operator(usize),
}

impl State {
    fn write(&mut self, stamp: Stamp) {
        self.versions += 1;
        self.cell = Some((self.versions, stamp));
        self.highest = self.highest.max(stamp.layout);
    }
}

fn admitted(admission: Admission) -> Doing {
    match admission {
        Admission::Enter => Doing::Works,
        Admission::Write(stamp) => Doing::Stamps(stamp),
        Admission::Refused(_) => Doing::Outside,
    }
}

impl Layouts {
    fn client(&self, state: &mut State, who: usize) {
        let read = Stamp::admission(state.cell.map(|(_, stamp)| stamp), self.clients[who]);
        let doing = state.clients[who].0;
        state.clients[who].0 = match doing {
            Doing::Outside if self.fault == Some(Fault::ReadsFirst) => Doing::Early(read),
            Doing::Early(read) => admitted(read),
            Doing::Registered => admitted(read),
            Doing::Stamps(stamp) if state.cell.is_none() => {
                state.write(stamp);
                Doing::Works
            }
            Doing::Works => Doing::Works,
            Doing::Away if self.fault == Some(Fault::TrustsWhatItRead) => Doing::Works,
            Doing::Outside | Doing::Stamps(_) | Doing::Away => Doing::Registered,
        };
        state.clients[who].1 += u8::from(doing == Doing::Outside);
    }

    fn listed(&self, state: &State) -> Vec<Option<u32>> {
        let stands = |doing: Doing| matches!(doing, Doing::Registered | Doing::Stamps(_) | Doing::Works);
        let clients = state.clients.iter().zip(&self.clients);
        clients.filter(|((doing, _), _)| stands(*doing)).map(|(_, layout)| Some(*layout)).collect()
    }

    fn operator(&self, state: &mut State, who: usize) {
        let own = self.operators[who];
        let doing = state.operators[who].0;
        let mut ends = false;
        state.operators[who].0 = match doing {
            Raising::Idle => {
                let stamp = state.cell.map(|(_, stamp)| stamp);
                match Stamp::raise(stamp, own) {
                    Raise::Write(announced) if self.fault == Some(Fault::ListsFirst) && stamp.is_some() => {
                        Raising::Settles(state.cell, announced.settled(self.listed(state)))
                    }
                    Raise::Write(announced) if self.fault == Some(Fault::RaisesAtOnce) && stamp.is_some() => {
                        let layout = announced.next.unwrap_or(announced.layout);
                        Raising::Writes(state.cell, Stamp { layout, ..announced })
                    }
                    Raise::Write(stamp) => Raising::Writes(state.cell, stamp),
                    Raise::List(_) => Raising::Lists(state.cell),
                    Raise::Done | Raise::Refused(_) => {
                        ends = true;
                        Raising::Idle
                    }
                }
            }
            Raising::Lists(read) => {
                let announced = read.map_or(Stamp::of(own), |(_, stamp)| stamp);
                Raising::Settles(read, announced.settled(self.listed(state)))
            }
            Raising::Writes(read, stamp) | Raising::Settles(read, stamp) => {
                let unchanged = read == state.cell;
                if unchanged || self.fault == Some(Fault::ComparesNothing) && read.is_some() {
                    state.write(stamp);
                }
                ends = unchanged && matches!(doing, Raising::Settles(..)) && stamp.layout < own;
                Raising::Idle
            }
        };
        state.operators[who].1 += u8::from(ends);
    }
}

impl Protocol for Layouts {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let clients = vec![(Doing::Outside, 0); self.clients.len()];
        let operators = vec![(Raising::Idle, 0); self.operators.len()];
        vec![State { clients, operators, ..State::default() }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (who, (doing, rounds)) in state.clients.iter().enumerate() {
            match doing {
                Doing::Outside if *rounds < self.rounds => steps.push(Step::Client(who)),
                Doing::Outside => {}
                Doing::Works => {
                    steps.push(Step::Leaves(who));
                    offer(steps, state.losses < self.losses, Step::LosesItsPlace(who));
                }
                _ => steps.push(Step::Client(who)),
            }
        }
        let writes = state.versions < 7;
        let calls = |(_, (_, calls)): &(usize, &(Raising, u8))| *calls < self.calls && writes;
        steps.extend(state.operators.iter().enumerate().filter(calls).map(|(who, _)| Step::Operator(who)));
    }

    fn step(&self, state: &mut State, step: Step) {
        match step {
            Step::Client(who) => self.client(state, who),
            Step::Leaves(who) => state.clients[who].0 = Doing::Outside,
            Step::LosesItsPlace(who) => {
                state.clients[who].0 = Doing::Away;
                state.losses += 1;
            }
            Step::Operator(who) => self.operator(state, who),
        }
    }

    fn verdict(&self, state: &State) -> Option<Broken> {
        let (_, stamp) = state.cell?;
        if stamp.layout < state.highest {
            return Some(Broken::StampBack);
        }
        let too_old = |((doing, _), own): (&(Doing, u8), &u32)| *doing == Doing::Works && *own < stamp.layout;
        state.clients.iter().zip(&self.clients).any(too_old).then_some(Broken::TooOld)
    }
}
