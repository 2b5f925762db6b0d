//! The model of a move between two coordinators under live locks, over
//! [`moving`](latchwork_core::backend::decide::moving) (the MIGRATE- rules of holds, tokens and stages).
//!
//! One mutex is on two coordinators, each a queue with a counter. Participants register on the old one, read
//! the phase, acquire, hold, release and acknowledge, with a separate step for each join and leave. A lease
//! is lost first to its client and then on the server; a crash is both at once. Acknowledgements may be
//! written again, late. Operators go forward and back: they read and list in one step, and write in another.
//! A state is broken if two clients believe that they hold, if a token is not above all earlier ones, or if
//! two clients wait for each other on different sides.

mod ends;
mod gate;
mod limits;
mod participant;
mod rules;
mod sides;
mod values;

use std::hash::{DefaultHasher, Hash, Hasher};

use latchwork_core::backend::decide::moving::{
    Holding, MovePhase, Side, Sides, Stage, Step as Decision, Way,
};
use stateright::Representative;

use crate::explore::{Broken, Protocol};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// MIGRATE-SHARED-COORDINATOR: an operator waits for no acknowledgement.
    AsksNobody,
    /// MIGRATE-SHARED-COORDINATOR: an operator skips the phases on both sides.
    SkipsPhases,
    /// MIGRATE-REGISTER-THEN-READ: a participant reads before it registers.
    ReadsFirst,
    /// MIGRATE-ACK-COVERS-HOLDS: a participant acknowledges without regard to its holds.
    AcknowledgesAtOnce,
    /// MIGRATE-DECIDE-AT-END: an acquisition completes by the phase in which it began.
    DecidesAtStart,
    /// MIGRATE-MEMBERSHIP-LIVES: a hold on the new side outlives the membership.
    NeedsNoMembership,
    /// MIGRATE-FINAL-PHASE: an operator goes back from the last phase.
    TakesDoneBack,
    /// MIGRATE-EITHER-LOST-IS-LOST: a hold over both is kept while one lease lives.
    KeptWhileOneLives,
    /// MIGRATE-TOKEN-SWITCH-PHASE: there is only one phase on both sides.
    SwitchesWithTheNewSide,
    /// MIGRATE-TOKEN-SWITCH-PHASE: an acquisition on both sides completes by the phase that it read before
    /// its admission.
    TrustsWhatItRead,
    /// MIGRATE-EPOCH-RISES: the epoch does not rise on the way back.
    KeepsTheEpoch,
    /// MIGRATE-ACK-NAMES-VERSION: an acknowledgement names only the phase.
    NamesThePhase,
    /// MIGRATE-CANONICAL-ORDER: a participant with a place on the new side waits for the old one.
    KeepsTheNewSide,
    /// MIGRATE-COMPARE-AND-SET: an operator writes the stage without a comparison.
    ComparesNothing,
}

#[derive(Clone, Debug)]
pub(super) struct Moving {
    pub(super) participants: usize,
    /// All participants have registered and read when the move begins.
    pub(super) registered: bool,
    pub(super) rounds: u8,
    pub(super) losses: u8,
    /// The number of acknowledgements that are written again, late.
    pub(super) repeats: u8,
    pub(super) operators: usize,
    pub(super) writes: u8,
    pub(super) fault: Option<Fault>,
}

type Id = u8;

type Ack = (u8, MovePhase);

/// The queue of the mutex on one coordinator, with sequence numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Server {
    queue: Vec<(Id, u8)>,
    next: u8,
}

impl Server {
    fn has(&self, who: Id) -> bool {
        self.queue.iter().any(|(of, _)| *of == who)
    }

    fn first(&self) -> Option<Id> {
        self.queue.first().map(|(of, _)| *of)
    }

    fn join(&mut self, who: Id) {
        self.queue.push((who, self.next));
        self.next += 1;
    }

    fn leave(&mut self, who: Id) {
        self.queue.retain(|(of, _)| *of != who);
    }
}

/// A participant's entries on the old side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Member {
    registered: bool,
    acknowledged: Option<Ack>,
    // The acknowledgement that will arrive again.
    late: Option<Ack>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Work {
    Idle,
    /// The phase in which it began. The flag: it has read the cell since it was admitted on both sides.
    Acquiring(MovePhase, bool),
    Holding,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Client {
    // The leases on which it counts.
    live: Sides,
    read: Option<(u8, Stage)>,
    work: Work,
    rounds: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    version: u8,
    stage: Stage,
    old: Server,
    new: Server,
    members: Vec<Member>,
    clients: Vec<Client>,
    // The stage that each operator writes next, and the version that it has read.
    operators: Vec<Option<(u8, Stage)>>,
    highest: Option<(u16, u8)>,
    losses: u8,
    repeats: u8,
    token_back: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Registers(Id),
    Reads(Id),
    Acknowledges(Id),
    AcknowledgesTwice(Id),
    LateAcknowledgement(Id),
    LeavesTheGroup(Id),
    Begins(Id),
    Acquires(Id),
    /// Its hold joins the new side.
    Extends(Id),
    /// Its hold releases the nodes that the phase does not need.
    Trims(Id),
    Releases(Id),
    /// It gives back a node without a hold.
    GivesBack(Id, Side),
    Loses(Id, Side),
    Expires(Id, Side),
    Returns(Id, Side),
    Checks(usize, Way),
    Writes(usize),
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

    fn client(&self, who: Id) -> &Client {
        &self.clients[usize::from(who)]
    }

    fn client_mut(&mut self, who: Id) -> &mut Client {
        &mut self.clients[usize::from(who)]
    }

    fn live_mut(&mut self, who: Id, side: Side) -> &mut bool {
        let live = &mut self.client_mut(who).live;
        match side {
            Side::Old => &mut live.old,
            Side::New => &mut live.new,
        }
    }

    fn member(&mut self, who: Id) -> &mut Member {
        &mut self.members[usize::from(who)]
    }

    /// The sides on which the participant is admitted and counts on its lease.
    fn holding(&self, who: Id) -> Holding {
        let live = self.client(who).live;
        let first = |side| live.has(side) && self.server(side).first() == Some(who);
        Holding { on: Sides { old: first(Side::Old), new: first(Side::New) } }
    }

    fn places(&self, who: Id) -> Sides {
        Sides { old: self.old.has(who), new: self.new.has(who) }
    }
}

impl Representative for State {
    /// The participants, sorted by their state. The model does not depend on their numbers.
    fn representative(&self) -> State {
        let place = |server: &Server, who| server.queue.iter().position(|(of, _)| *of == who);
        let is = |who: &Id| {
            let mut hasher = DefaultHasher::new();
            let member = self.members[usize::from(*who)];
            (self.client(*who), member, place(&self.old, *who), place(&self.new, *who)).hash(&mut hasher);
            hasher.finish()
        };
        let mut order: Vec<Id> = (0..).take(self.clients.len()).collect();
        order.sort_by_cached_key(is);
        let mut renamed = self.clone();
        for (to, from) in order.iter().enumerate() {
            renamed.clients[to] = *self.client(*from);
            renamed.members[to] = self.members[usize::from(*from)];
        }
        for (of, _) in renamed.old.queue.iter_mut().chain(&mut renamed.new.queue) {
            let to = order.iter().position(|from| from == of).expect("a participant's");
            *of = Id::try_from(to).expect("few");
        }
        renamed
    }
}

impl Moving {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// Reads and lists in one step. The order does not matter, because acknowledgements name the version.
    fn checks(&self, state: &mut State, operator: usize, way: Way) {
        let State { version, stage, .. } = *state;
        let registered = state.members.iter().filter(|member| member.registered);
        let acknowledged = registered.map(|member| match member.acknowledged {
            Some((_, phase)) if self.has(Fault::NamesThePhase) => (phase == stage.phase).then_some(version),
            acknowledged => acknowledged.map(|(version, _)| version),
        });
        let asked: Vec<_> = acknowledged.filter(|_| !self.has(Fault::AsksNobody)).collect();
        let decided = match stage.step(&version, asked.iter().copied(), way) {
            Decision::Ends if self.has(Fault::TakesDoneBack) && stage.phase == MovePhase::Done => {
                Decision::Write(Stage { phase: MovePhase::New, ..stage })
            }
            decided => decided,
        };
        let Decision::Write(next) = decided else { return };
        let mut next = next;
        while self.has(Fault::SkipsPhases) && next.phase.is_read_while_held()
            || self.has(Fault::SwitchesWithTheNewSide) && next.phase == MovePhase::BothByNew
        {
            let Decision::Write(behind) = next.step(&version, [], way) else { return };
            next = behind;
        }
        let epoch = if self.has(Fault::KeepsTheEpoch) { 0 } else { next.epoch };
        state.operators[operator] = Some((version, Stage { epoch, ..next }));
    }

    fn writes(&self, state: &mut State, operator: usize) {
        let Some((checked, next)) = state.operators[operator].take() else { return };
        if checked == state.version || self.has(Fault::ComparesNothing) {
            state.version += 1;
            state.stage = next;
        }
    }
}

impl Protocol for Moving {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let stage = Stage::before(0);
        let read = self.registered.then_some((0, stage));
        let client = Client { live: Sides::BOTH, read, work: Work::Idle, rounds: 0 };
        let member = Member { registered: self.registered, ..Member::default() };
        // The old side's numbers are higher, so a token without an epoch would go back.
        let server = |next| Server { queue: Vec::new(), next };
        vec![State {
            version: 0,
            stage,
            old: server(100),
            new: server(0),
            members: vec![member; self.participants],
            clients: vec![client; self.participants],
            operators: vec![None; self.operators],
            highest: None,
            losses: 0,
            repeats: 0,
            token_back: false,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for who in 0..self.participants {
            self.steps_of(state, u8::try_from(who).expect("few"), steps);
        }
        for (operator, checked) in state.operators.iter().enumerate() {
            match checked {
                Some(_) => steps.push(Step::Writes(operator)),
                None if state.version < self.writes => {
                    steps.extend([Step::Checks(operator, Way::Forward), Step::Checks(operator, Way::Back)]);
                }
                None => {}
            }
        }
    }

    fn step(&self, state: &mut State, step: Step) {
        match step {
            Step::Checks(operator, way) => self.checks(state, operator, way),
            Step::Writes(operator) => self.writes(state, operator),
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
        circle(&state.old, &state.new)
    }
}

fn circle(old: &Server, new: &Server) -> Option<Broken> {
    let (on_old, on_new) = (old.first()?, new.first()?);
    let each_waits = on_old != on_new && old.has(on_new) && new.has(on_old);
    each_waits.then_some(Broken::Stuck)
}
