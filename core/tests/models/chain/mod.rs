//! Model B: nodes in create order, clients that list and watch (ZooKeeper with lagging views, etcd with late requests).

mod recovery;
mod rules;
mod world;

use std::collections::BTreeSet;

use latchwork_core::decide::chain::Listed;
use latchwork_core::decide::{Claim, fits};
use stateright::{Model, Property};

use crate::explore::{Broken, Protocol, sound};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Server {
    /// Each client reads a server that may lag behind the leader, never behind what the client saw.
    ZooKeeper,
    /// Reads are linearizable; a request whose answer is unknown may be carried out at any later time.
    Etcd,
}

/// What can be planted, by the rule that forbids it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// B1: the listing decides, whatever the own deadline says.
    NoDeadline,
    /// B1: neither the deadline nor the own node in the listing is looked at.
    NoOwnNode,
    /// B2: an event of the watched node means "admitted".
    EventAdmits,
    /// B3: arming does not look whether the node is still there.
    ArmingIgnoresAbsence,
    /// B3: arming does not look at what it shows (a mark, a downgrade).
    ArmingIgnoresContent,
    /// B4: a watch that was lost is not armed again.
    LostWatchIgnored,
    /// B5: readers watch the first writer.
    ReadersWatchFirstWriter,
    /// B5: readers watch their predecessor.
    ReadersWatchPredecessor,
    /// B6: whoever waits for permits watches the lowest node.
    PermitsWatchLowest,
    /// B6: whoever waits for permits watches its predecessor alone.
    PermitsWatchPredecessor,
    /// B6: nobody marks its node.
    NoMarks,
    /// B6b: the head does not look at the limit.
    HeadIgnoresLimit,
    /// B6b: a change of the limit makes no holder mark its node.
    LimitMarksNobody,
    /// B7: a mark is a put without a guard.
    MarkUnguarded,
    /// B8: what became of a create is read from a plain listing.
    PlainListing,
    /// B9: nothing is kept for a late join to meet.
    NoTombstone,
    /// B9: the leave of an attempt whose join was found again keeps nothing, though an earlier request may still land.
    NoTombstoneOnceFound,
    /// B10: one node name per client and queue, deleted without a guard.
    NamePerClient,
    /// B12: a downgrade makes a new node at the tail.
    DowngradeAtTail,
    /// B12: waiters wake when the node leaves only.
    WakeOnDeleteOnly,
    /// `Standing::Behind::sole` is trusted where a downgrade looks like a departure (ZooKeeper).
    SoleDespiteDowngrade,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Attempt {
    client: u8,
    number: u8,
}

/// The bounds of an exploration, and the fault that is planted.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    pub(crate) server: Server,
    pub(crate) claims: Vec<Claim>,
    pub(crate) limit: u32,
    /// The limits that an operator sets, one after the other.
    pub(crate) limits: Vec<u32>,
    pub(crate) attempts: u8,
    /// How many requests have an unknown outcome.
    pub(crate) unknowns: u8,
    /// How many clients crash, or lose their lease.
    pub(crate) failures: u8,
    pub(crate) reconnects: u8,
    pub(crate) downgrades: u8,
    pub(crate) fault: Option<Fault>,
    /// What alone is judged; everything when there is no fault.
    pub(crate) only: Option<Broken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    /// The create revision or czxid: its incarnation.
    sequence: u8,
    by: Attempt,
    claim: Claim,
    marked: bool,
}

/// The queue at one version, and how many the step to it has woken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct View {
    nodes: Vec<Node>,
    limit: u32,
    woken: u8,
    most_woken: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Watch {
    Node {
        sequence: u8,
        sole: bool,
    },
    /// Any departure, and the limit.
    Head,
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    /// The create has an unknown outcome.
    Unknown,
    Listing,
    /// ZooKeeper: the watch is set by a read of its own, after the listing.
    Arming {
        seen: Node,
        sole: bool,
    },
    Sleeping(Watch),
    Holding,
    Leaving,
    /// The lease is over.
    Out,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Client {
    alive: bool,
    /// Its deadline has not passed.
    valid: bool,
    /// The server has ended its lease.
    expired: bool,
    phase: Phase,
    number: u8,
    sequence: u8,
    claim: Claim,
    /// Which view its server shows, and its watches have reported.
    view: usize,
    owes_mark: bool,
    /// etcd: a join of this attempt had an unknown outcome.
    unknown: bool,
    /// Believes though its lease is over: only with B1's faults.
    phantom: bool,
}

/// A request that the client has given up on and that may still be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Late {
    Create(Attempt),
    Delete(Attempt, u8),
    Mark(Attempt, u8),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// From the oldest that a client still sees to the leader's.
    views: Vec<View>,
    clients: Vec<Client>,
    late: BTreeSet<Late>,
    tombstones: BTreeSet<Attempt>,
    last: u8,
    changes: usize,
    unknowns: u8,
    failures: u8,
    reconnects: u8,
    downgrades: u8,
    // What follows is for the judge alone.
    largest_limit: u32,
    highest_token: u8,
    broken: Option<Broken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Join(usize),
    /// The create's answer is lost; on ZooKeeper it was carried out or never will be.
    JoinUnknown(usize, bool),
    Resolve(usize),
    List(usize),
    Arm(usize),
    Advance(usize),
    Mark(usize),
    MarkLate(usize),
    Leave(usize),
    LeaveLate(usize),
    Land(Late),
    Deadline(usize),
    Crash(usize),
    Expire(usize),
    Reconnect(usize),
    Downgrade(usize),
    SetLimit,
}

impl Node {
    fn listed(&self) -> Listed {
        Listed { claim: self.claim, marked: self.marked }
    }
}

impl Chain {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn judges(&self, broken: Broken) -> bool {
        self.only.is_none_or(|only| only == broken)
    }
}

impl State {
    fn leader(&self) -> &View {
        self.views.last().expect("there is always a state")
    }

    fn believes(&self, index: usize) -> bool {
        let client = &self.clients[index];
        client.alive && client.phase == Phase::Holding && (client.valid || client.phantom)
    }

    /// What is wrong with who believes to hold.
    fn holders(&self, model: &Chain) -> Option<Broken> {
        let mut holders = Vec::new();
        for client in
            (0..self.clients.len()).filter(|&index| self.believes(index)).map(|index| &self.clients[index])
        {
            let there = self.leader().nodes.iter().any(|node| node.sequence == client.sequence);
            if !there && model.judges(Broken::Believes) {
                return Some(Broken::Believes);
            }
            let old = client.claim == Claim::Exclusive && client.sequence < self.highest_token;
            if old && model.judges(Broken::TokenBack) {
                return Some(Broken::TokenBack);
            }
            // `fits` looks at the later claim alone, so an exclusive one that comes first is looked for.
            let beside = fits(holders.iter().copied(), client.claim, self.largest_limit);
            if (!beside || holders.contains(&Claim::Exclusive)) && model.judges(Broken::TwoHolders) {
                return Some(Broken::TwoHolders);
            }
            holders.push(client.claim);
        }
        None
    }

    /// What is wrong with the nodes at the leader.
    fn nodes(&self, model: &Chain) -> Option<Broken> {
        let nodes = &self.leader().nodes;
        for (place, node) in nodes.iter().enumerate() {
            let alone = nodes[..place].iter().all(|other| other.by != node.by);
            if !alone && model.judges(Broken::TwoNodes) {
                return Some(Broken::TwoNodes);
            }
            let client = &self.clients[usize::from(node.by.client)];
            let closed = node.by.number < client.number || client.phase == Phase::Idle;
            if client.alive && client.valid && closed && model.judges(Broken::Ghost) {
                return Some(Broken::Ghost);
            }
        }
        None
    }
}

impl Protocol for Chain {
    fn verdict(&self, state: &State) -> Option<Broken> {
        let judged = |broken: &Broken| self.judges(*broken);
        let recovers = self.only.is_none_or(|only| matches!(only, Broken::Stuck | Broken::Uninformed));
        let crowd = || state.views.iter().any(|view| view.woken > view.most_woken).then_some(Broken::Crowd);
        (state.broken.filter(judged))
            .or_else(|| state.holders(self))
            .or_else(|| state.nodes(self))
            .or_else(|| crowd().filter(judged))
            .or_else(|| recovers.then(|| recovery::verdict(self, state)).flatten().filter(judged))
    }
}

impl Model for Chain {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let clients = self.claims.iter().map(|&claim| Client::new(claim)).collect();
        let view = View { nodes: Vec::new(), limit: self.limit, woken: 0, most_woken: u8::MAX };
        vec![State {
            views: vec![view],
            clients,
            late: BTreeSet::new(),
            tombstones: BTreeSet::new(),
            last: 0,
            changes: 0,
            unknowns: 0,
            failures: 0,
            reconnects: 0,
            downgrades: 0,
            largest_limit: self.limit,
            highest_token: 0,
            broken: None,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (index, client) in state.clients.iter().enumerate() {
            if !client.valid && !client.expired {
                steps.push(Step::Expire(index));
            }
            if !client.alive {
                continue;
            }
            self.client_actions(state, index, client, steps);
        }
        steps.extend(state.late.iter().map(|&late| Step::Land(late)));
        if state.changes < self.limits.len() {
            steps.push(Step::SetLimit);
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        next.step(self, step);
        next.forget_old_views();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        sound()
    }
}

impl Chain {
    fn client_actions(&self, state: &State, index: usize, client: &Client, steps: &mut Vec<Step>) {
        let may_be_unknown = state.unknowns < self.unknowns;
        match client.phase {
            Phase::Idle => {
                // Clients of one claim are alike: the first attempts come in order, and nothing is missed.
                let in_turn = client.number > 0
                    || index == 0
                    || self.claims[index - 1] != self.claims[index]
                    || state.clients[index - 1].number > 0;
                if client.number < self.attempts && client.valid && in_turn {
                    steps.push(Step::Join(index));
                    if may_be_unknown {
                        steps.push(Step::JoinUnknown(index, false));
                        if self.server == Server::ZooKeeper {
                            steps.push(Step::JoinUnknown(index, true));
                        }
                    }
                }
                return;
            }
            Phase::Unknown => {
                steps.push(Step::Resolve(index));
            }
            Phase::Listing => steps.push(Step::List(index)),
            Phase::Arming { .. } => steps.push(Step::Arm(index)),
            Phase::Sleeping(watch) => {
                if state.reconnects < self.reconnects && watch != Watch::Nothing {
                    steps.push(Step::Reconnect(index));
                }
            }
            Phase::Holding => {
                if client.owes_mark {
                    steps.push(Step::Mark(index));
                    if may_be_unknown && self.server == Server::Etcd {
                        steps.push(Step::MarkLate(index));
                    }
                }
                if client.claim == Claim::Exclusive && client.valid && state.downgrades < self.downgrades {
                    steps.push(Step::Downgrade(index));
                }
            }
            Phase::Leaving => {}
            Phase::Out => return,
        }
        steps.push(Step::Leave(index));
        if may_be_unknown && client.phase != Phase::Leaving && !client.unknown && self.server == Server::Etcd
        {
            steps.push(Step::LeaveLate(index));
        }
        if client.view + 1 < state.views.len() {
            steps.push(Step::Advance(index));
        }
        if state.failures < self.failures && client.valid {
            steps.push(Step::Deadline(index));
            steps.push(Step::Crash(index));
        }
    }
}
