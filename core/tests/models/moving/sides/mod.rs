//! The model of the two sides of a move, over [`judge`](evidence::judge) and [`Found`] (MIGRATE-SAME-SIDES,
//! the MIGRATE-RECORD- rules, MIGRATE-ONE-LIST, MIGRATE-REPAIR-KEEPS): clients with different sides, and
//! sides that lose data.
//!
//! Each participant and each operator names two of three servers. A server has the stage of a move from it
//! and the record of a move to it. It loses both when it is wiped, and their last write when it returns to an
//! earlier copy. A hold is a set of servers on which no other client has a node, and a value is on the
//! servers that have its latest change. A participant reads stage and record in one step. The writes of an
//! operator are separate steps, and so are the two looks of a repair. A state is broken if two clients hold,
//! if a token's epoch goes back, if a client uses an old value, or if an operator deletes the latest one.
//! Losses of a server itself do not count. Markers, plain clients and epochs of stamps are in the model of
//! the gate.

mod operator;
mod participant;
mod rules;

use latchwork_core::backend::decide::moving::evidence::{Contradiction, MoveId, MoveRecord, StageRead};
use latchwork_core::backend::decide::moving::obstacles::MemberSays;
use latchwork_core::backend::decide::moving::{MovePhase, Side, Sides, Way};

use self::operator::Doing;
use crate::explore::{Broken, Protocol};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// MIGRATE-SAME-SIDES: a participant follows a stage without a look at the record.
    IgnoresTheRecord,
    /// MIGRATE-RECORD-FIRST: no phase is announced, and participants look at the record only if there is no
    /// stage.
    RecordsNothing,
    /// MIGRATE-RECORD-FIRST: only changes of the phase are announced, and no change of the values alone.
    RecordsPhasesOnly,
    /// MIGRATE-RECORD-COMPLETED: an operator takes another step than the announced one.
    CompletesNothing,
    /// MIGRATE-REPAIR-KEEPS: the record of a new side that had the values is restored.
    RepairsOverLoss,
    /// MIGRATE-REPAIR-KEEPS: only the first look of a repair asks for the only copy.
    KeepsByTheFirstLook,
}

pub(super) type Ends = (usize, usize);

#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) participants: Vec<Ends>,
    pub(super) operators: Vec<Ends>,
    pub(super) writes: u8,
    pub(super) wipes: u8,
    /// How often a server returns to the data before its last write.
    pub(super) backs: u8,
    pub(super) uses: u8,
    pub(super) rounds: u8,
    pub(super) fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Staged {
    read: StageRead,
    copies: bool,
}

/// The report of a member, and the identity of the move that it is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Member {
    id: Option<MoveId>,
    says: MemberSays,
}

/// The data that a server may lose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Data {
    stage: Option<Staged>,
    versions: u64,
    record: Option<MoveRecord>,
    /// The other side of the move from here.
    leaves_to: Option<usize>,
    members: Vec<Option<Member>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Server {
    now: Data,
    before: Option<Data>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Client {
    came: bool,
    known: Option<Staged>,
    done: bool,
    is_read: bool,
    stopped: Option<Contradiction>,
    awaits: bool,
    hold: Sides,
    rounds: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    servers: Vec<Server>,
    clients: Vec<Client>,
    operators: Vec<Doing>,
    writes: u8,
    wipes: u8,
    backs: u8,
    uses: u8,
    ids: u128,
    /// The servers that have the latest change of the value. `None` after a server has lost it.
    latest: Option<[bool; 3]>,
    /// No client can use a value on a wiped server.
    wiped: [bool; 3],
    epoch: u16,
    token_back: bool,
    lost_value: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Reads(usize),
    Acknowledges(usize),
    Acquires(usize),
    Covers(usize),
    Releases(usize),
    Uses(usize),
    Walks(usize, Way),
    Repairs(usize),
    Operator(usize),
    Wiped(usize),
    GoesBack(usize),
}

impl Places {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn servers_of(&self, who: usize, sides: Sides) -> Vec<usize> {
        let (old, new) = self.participants[who];
        let on = [(sides.old, old), (sides.new, new)];
        on.into_iter().filter_map(|(is_on, server)| is_on.then_some(server)).collect()
    }
}

impl State {
    fn phase(client: &Client) -> MovePhase {
        match client.known {
            _ if client.done => MovePhase::Done,
            Some(staged) if !client.awaits => staged.read.stage.phase,
            _ => MovePhase::Old,
        }
    }

    fn write(&mut self, server: usize, change: impl FnOnce(&mut Data)) {
        let server = &mut self.servers[server];
        server.before = Some(server.now.clone());
        change(&mut server.now);
    }

    fn wiped(&mut self, places: &Places, server: usize) {
        let members = vec![None; places.participants.len()];
        self.servers[server] = Server { now: Data { members, ..Data::default() }, before: None };
        for who in 0..self.clients.len() {
            let ends = places.participants[who];
            let hold = places.servers_of(who, self.clients[who].hold);
            let client = &mut self.clients[who];
            if ends.0 == server && !client.done {
                (client.is_read, client.hold) = (false, Sides::default());
            }
            if hold.contains(&server) {
                client.hold = Sides::default();
            }
        }
        self.wiped[server] = true;
        if let Some(latest) = &mut self.latest {
            latest[server] = false;
            if *latest == [false; 3] {
                self.latest = None;
            }
        }
    }

    fn is_free(&self, places: &Places, who: usize, server: usize) -> bool {
        let others = (0..self.clients.len()).filter(|other| *other != who);
        others.into_iter().all(|other| !places.servers_of(other, self.clients[other].hold).contains(&server))
    }
}

impl Protocol for Places {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let client = Client {
            came: false,
            known: None,
            done: false,
            is_read: false,
            stopped: None,
            awaits: false,
            hold: Sides::default(),
            rounds: 0,
        };
        let members = vec![None; self.participants.len()];
        let server = Server { now: Data { members, ..Data::default() }, before: None };
        vec![State {
            servers: vec![server; 3],
            clients: vec![client; self.participants.len()],
            operators: vec![Doing::Idle; self.operators.len()],
            writes: 0,
            wipes: 0,
            backs: 0,
            uses: 0,
            ids: 0,
            latest: Some([true, false, false]),
            wiped: [false; 3],
            epoch: 0,
            token_back: false,
            lost_value: false,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for who in 0..self.participants.len() {
            self.steps_of(state, who, steps);
        }
        for (who, doing) in state.operators.iter().enumerate() {
            match doing {
                Doing::Idle if state.writes < self.writes => {
                    steps.extend([Step::Walks(who, Way::Forward), Step::Walks(who, Way::Back)]);
                    if self.wipes + self.backs > 0 {
                        steps.push(Step::Repairs(who));
                    }
                }
                Doing::Idle => {}
                _ => steps.push(Step::Operator(who)),
            }
        }
        for server in 0..2 {
            if state.wipes < self.wipes {
                steps.push(Step::Wiped(server));
            }
            if state.backs < self.backs && state.servers[server].before.is_some() {
                steps.push(Step::GoesBack(server));
            }
        }
    }

    fn step(&self, state: &mut State, step: Step) {
        match step {
            Step::Walks(who, way) => self.walks(state, who, way),
            Step::Repairs(who) => self.repairs(state, who),
            Step::Operator(who) => self.operator(state, who),
            Step::Wiped(server) => {
                state.wipes += 1;
                state.wiped(self, server);
            }
            Step::GoesBack(server) => {
                state.backs += 1;
                if let Some(before) = state.servers[server].before.take() {
                    state.servers[server].now = before;
                }
                // A member that the copy does not have loses its membership and its hold.
                for who in 0..state.clients.len() {
                    let is_member = state.servers[server].now.members[who].is_some();
                    let client = &mut state.clients[who];
                    if self.participants[who].0 == server && !is_member && !client.done {
                        (client.is_read, client.hold) = (false, Sides::default());
                    }
                }
            }
            step => self.takes(state, step),
        }
    }

    fn verdict(&self, state: &State) -> Option<Broken> {
        if state.clients.iter().filter(|client| client.hold != Sides::default()).count() > 1 {
            return Some(Broken::TwoHolders);
        }
        // A client that does not know of the lost switch gives tokens of the earlier side.
        if state.token_back && state.backs == 0 {
            return Some(Broken::TokenBack);
        }
        state.lost_value.then_some(Broken::ReadBack)
    }
}

fn at(ends: Ends, side: Side) -> usize {
    match side {
        Side::Old => ends.0,
        Side::New => ends.1,
    }
}
