//! The model of the clients' registry and of raising a layout, over [`Stamp`], the code that runs.
//!
//! Clients of several builds register, read the stamp, work, lose their place (to an operator, or
//! with their lease), come back, and leave. Operators raise the layout: each reads, announces, lists
//! and settles in steps of its own, and may stop after any of them for good. A state is broken if a
//! registered client works below the layout that is stamped, or if the stamp goes back.

mod rules;

use latchwork_core::backend::decide::layout::{Admission, Raise, Stamp};
use stateright::{Model, Property};

use crate::explore::{Broken, Protocol, sound};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// CLIENT-REGISTER-FIRST: a client reads, and then registers.
    ReadsFirst,
    /// CLIENT-READ-AGAIN: a client that lost its place registers anew, and works on.
    TrustsWhatItRead,
    /// LAYOUT-ANNOUNCE-FIRST: an operator lists without an announcement.
    ListsFirst,
    /// LAYOUT-TWO-STEPS: the announcement counts at once.
    RaisesAtOnce,
    /// LAYOUT-UNDER-VERSION: an operator writes whatever the stamp is by now.
    ComparesNothing,
}

#[derive(Clone, Debug)]
pub(super) struct Layouts {
    /// The layouts of the clients' builds.
    pub(super) clients: Vec<u32>,
    /// How often each connects.
    pub(super) rounds: u8,
    /// How often places are lost.
    pub(super) losses: u8,
    /// The layouts of the operators' builds.
    pub(super) operators: Vec<u32>,
    /// How often each calls.
    pub(super) calls: u8,
    pub(super) fault: Option<Fault>,
}

/// A stamp and its version.
type Cell = Option<(u8, Stamp)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Doing {
    Outside,
    /// It has read, and is not registered.
    Early(Admission),
    Registered,
    /// It has found no stamp.
    Stamps(Stamp),
    Works,
    /// It has lost its place, and works on until it hears of it.
    Away,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Raising {
    Idle,
    /// It has read this, and writes that.
    Writes(Cell, Stamp),
    /// It has read its announcement.
    Lists(Cell),
    /// It has read this and listed, and writes that.
    Settles(Cell, Stamp),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    cell: Cell,
    versions: u8,
    clients: Vec<(Doing, u8)>,
    losses: u8,
    operators: Vec<(Raising, u8)>,
    // The highest layout that was ever in force.
    highest: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The next step of this client.
    Client(usize),
    Leaves(usize),
    LosesItsPlace(usize),
    /// The next step of this operator.
    Operator(usize),
}

impl Layouts {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn admitted(&self, admission: Admission) -> Doing {
        match admission {
            Admission::Enter => Doing::Works,
            Admission::Write(stamp) => Doing::Stamps(stamp),
            Admission::Refused(_) => Doing::Outside,
        }
    }

    fn client(&self, state: &mut State, who: usize) {
        let read = Stamp::admission(state.cell.map(|(_, stamp)| stamp), self.clients[who]);
        let (doing, rounds) = &mut state.clients[who];
        match *doing {
            Doing::Outside => {
                *rounds += 1;
                *doing = if self.has(Fault::ReadsFirst) { Doing::Early(read) } else { Doing::Registered };
            }
            Doing::Early(read) => *doing = self.admitted(read),
            Doing::Registered => *doing = self.admitted(read),
            Doing::Stamps(_) if state.cell.is_some() => *doing = Doing::Registered,
            Doing::Stamps(stamp) => {
                *doing = Doing::Works;
                self.write(state, stamp);
            }
            Doing::Works => {}
            Doing::Away if self.has(Fault::TrustsWhatItRead) => *doing = Doing::Works,
            Doing::Away => *doing = Doing::Registered,
        }
    }

    fn write(&self, state: &mut State, stamp: Stamp) {
        state.versions += 1;
        state.cell = Some((state.versions, stamp));
        state.highest = state.highest.max(stamp.layout);
    }

    /// The layouts of those who are registered.
    fn listed(&self, state: &State) -> Vec<Option<u32>> {
        let stands =
            |(doing, _): &(Doing, u8)| matches!(doing, Doing::Registered | Doing::Stamps(_) | Doing::Works);
        let clients = state.clients.iter().zip(&self.clients);
        clients.filter(|(client, _)| stands(client)).map(|(_, layout)| Some(*layout)).collect()
    }

    fn operator(&self, state: &mut State, who: usize) {
        let own = self.operators[who];
        let (doing, calls) = state.operators[who];
        let next = match doing {
            Raising::Idle => {
                let stamp = state.cell.map(|(_, stamp)| stamp);
                match Stamp::raise(stamp, own) {
                    Raise::Write(announced) if self.has(Fault::ListsFirst) && stamp.is_some() => {
                        Raising::Settles(state.cell, announced.settled(self.listed(state)))
                    }
                    Raise::Write(announced) if self.has(Fault::RaisesAtOnce) && stamp.is_some() => {
                        let layout = announced.next.unwrap_or(announced.layout);
                        Raising::Writes(state.cell, Stamp { layout, ..announced })
                    }
                    Raise::Write(stamp) => Raising::Writes(state.cell, stamp),
                    Raise::List(_) => Raising::Lists(state.cell),
                    Raise::Done | Raise::Refused(_) => {
                        return state.operators[who] = (Raising::Idle, calls + 1);
                    }
                }
            }
            Raising::Lists(read) => {
                let announced = read.map_or(Stamp::of(own), |(_, stamp)| stamp);
                Raising::Settles(read, announced.settled(self.listed(state)))
            }
            Raising::Writes(read, stamp) | Raising::Settles(read, stamp) => {
                let stands = read.map(|read| read.0) == state.cell.map(|cell| cell.0);
                if stands || self.has(Fault::ComparesNothing) && read.is_some() {
                    self.write(state, stamp);
                }
                // One that was too early ends here; the others read again.
                let ends = stands && matches!(doing, Raising::Settles(..)) && stamp.layout < own;
                return state.operators[who] = (Raising::Idle, calls + u8::from(ends));
            }
        };
        state.operators[who].0 = next;
    }
}

impl Model for Layouts {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            cell: None,
            versions: 0,
            clients: vec![(Doing::Outside, 0); self.clients.len()],
            losses: 0,
            operators: vec![(Raising::Idle, 0); self.operators.len()],
            highest: 0,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (who, (doing, rounds)) in state.clients.iter().enumerate() {
            match doing {
                Doing::Outside if *rounds < self.rounds => steps.push(Step::Client(who)),
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
        // A stamp is written so often at most.
        let writes = state.versions < 7;
        let calls = |(_, (_, calls)): &(usize, &(Raising, u8))| *calls < self.calls && writes;
        steps.extend(state.operators.iter().enumerate().filter(calls).map(|(who, _)| Step::Operator(who)));
    }

    fn next_state(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        match step {
            Step::Client(who) => self.client(&mut state, who),
            Step::Leaves(who) => state.clients[who].0 = Doing::Outside,
            Step::LosesItsPlace(who) => {
                state.clients[who].0 = Doing::Away;
                state.losses += 1;
            }
            Step::Operator(who) => self.operator(&mut state, who),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        sound()
    }
}

impl Protocol for Layouts {
    fn verdict(&self, state: &State) -> Option<Broken> {
        let (_, stamp) = state.cell?;
        if stamp.layout < state.highest {
            return Some(Broken::StampBack);
        }
        let too_old = |((doing, _), own): (&(Doing, u8), &u32)| *doing == Doing::Works && *own < stamp.layout;
        state.clients.iter().zip(&self.clients).any(too_old).then_some(Broken::TooOld)
    }
}
