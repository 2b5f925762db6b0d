//! Model B: nodes in create order, clients that list and watch (ZooKeeper with lagging views, etcd with late requests).

mod client;
mod coordinator;
mod count;
mod judge;
mod recovery;
mod rules;
mod steps;

use std::collections::BTreeSet;

use latchwork_core::decide::Claim;
use latchwork_core::decide::chain::{Listed, Standing, standing};

use crate::explore::Broken;

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
    /// B2, B3: a watched node that is not there when its watch is armed admits, whoever else was ahead.
    AbsenceAdmits,
    /// B2: who is admitted without listing again does not watch its own node.
    OwnUnwatched,
    /// B2: the same, of those alone with others ahead, who count on being told of a release.
    OwnUnwatchedBehindOthers,
    /// B2: who abandons a waiting node tells of it as of a release.
    AbandonedIsTold,
    /// B2: a release admits who watches another node than its immediate predecessor, the lowest.
    ToldByTheLowest,
    /// B2: releases are told, and trusted, among readers too.
    ReaderTells,
    /// B2: a release is told by a write of the node, and somebody else writes it.
    WriteIsTold,
    /// B2, B4: a release that a lost connection kept back still admits, before what happened to the own node is told.
    MissedReleaseAdmits,
    /// B2: who abandons a waiting node counts it as a release.
    AbandonIsCounted,
    /// B2: a counted leave does not compare that the own node is still there, so that a second one counts again.
    CountUnguarded,
    /// B2: who is ahead, and what has been counted, is read in another request than the join's, before it.
    CountedBeforeTheJoin,
    /// B2: what had been counted before the join is not looked at.
    CountOfEarlierTurn,
    /// B2: who reads the count does not look at its own node.
    CountWithoutOwnNode,
    /// B2: who reads the count has looked at its own node before, in another request.
    CountReadApart,
    /// B1: who reads the count does not look at its own deadline behind the answer.
    CountIgnoresDeadline,
    /// B2: a client's next node admits, though it is as far from the last one as one in another directory may be.
    DirectoryUnproved,
    /// B2: a client's next node admits, though its last one was behind others.
    ReturnOfAWaiter,
    /// B2: a client's next node admits, though its last one was beside other readers.
    ReturnOfAReader,
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
    /// B10: a name is free again though its node's first leave, which has no guard, has no answer.
    NameFreedEarly,
    /// B10: a name is free again before its node's leave is confirmed.
    NameFreedUnconfirmed,
    /// B10: a leave beside the first one has no guard either.
    SecondLeaveUnguarded,
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
    /// How many waiters' nodes an operator removes.
    pub(crate) removals: u8,
    /// A name whose join and first leave were answered is used again; on etcd that leave has no guard.
    pub(crate) reuses: bool,
    /// ZooKeeper: whoever comes back with the counter behind its own last one's is let in without a listing, and an empty
    /// directory may go, so that counters begin anew. Whatever a client claims first, it comes back to write.
    pub(crate) returns: bool,
    /// ZooKeeper, where all claims are exclusive: who leaves an admitted node may tell so in the same transaction.
    pub(crate) tells: bool,
    /// etcd: who leaves an admitted node may count that in the same transaction, and who waits may go by the count.
    pub(crate) counts: bool,
    /// How often the count vanishes.
    pub(crate) resets: u8,
    pub(crate) fault: Option<Fault>,
    /// What alone is judged; everything when there is no fault.
    pub(crate) only: Option<Broken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    /// The create revision or czxid: its incarnation.
    sequence: u8,
    by: Attempt,
    /// Its key, among its client's.
    name: u8,
    claim: Claim,
    marked: bool,
    birth: Birth,
}

/// When and where a node was made, as its create tells: the directory's counter and the transaction. Known with `returns` alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Birth {
    counter: u8,
    transaction: u8,
}

/// The queue at one version, and how many the step to it has woken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct View {
    nodes: Vec<Node>,
    limit: u32,
    /// The node that the step to this version released, if its watches tell so.
    told: Option<u8>,
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
    /// etcd: what it has read of the count admits it; the answer is on its way.
    Proved,
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
    name: u8,
    /// Some request that makes or deletes whatever bears the name has no answer.
    name_burnt: bool,
    /// The names that are free, a bit each.
    free_names: u32,
    sequence: u8,
    birth: Birth,
    /// Its node was admitted. Known with `returns`, `tells` or `counts` alone.
    entered: bool,
    /// Of its last node, which was admitted exclusively and has left.
    last_turn: Option<Birth>,
    /// etcd: as much must have been counted.
    turn: u8,
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
    Create(Attempt, u8),
    /// Of one incarnation.
    Delete(Attempt, u8),
    /// The same, told (on etcd counted) as a release.
    Tell(Attempt, u8),
    /// Of whatever bears the name.
    Erase(Attempt, u8),
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
    /// The version of the key that counts releases; zero where it is not there.
    counted: u8,
    resets: u8,
    /// What the next node's birth will be.
    next: Birth,
    collections: u8,
    changes: usize,
    unknowns: u8,
    failures: u8,
    reconnects: u8,
    downgrades: u8,
    removals: u8,
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
    /// It reads the count, which admits it, and then processes the answer.
    Prove(usize),
    Proved(usize),
    Advance(usize),
    Mark(usize),
    MarkLate(usize),
    Leave(usize),
    LeaveLate(usize),
    /// A leave that is told (on etcd counted) as a release.
    Tell(usize),
    TellLate(usize),
    /// Two leaves at once: the other one is carried out later.
    LeaveTwice(usize),
    Land(Late),
    Deadline(usize),
    Crash(usize),
    Expire(usize),
    Reconnect(usize),
    Downgrade(usize),
    /// Somebody else writes the client's node: only with the fault that this is.
    Write(usize),
    /// An operator removes the node of one that is not admitted.
    Remove(usize),
    /// The empty directory goes.
    Collect,
    /// The count vanishes.
    Reset,
    SetLimit,
}

impl Node {
    fn listed(&self) -> Listed {
        Listed { claim: self.claim, marked: self.marked }
    }
}

impl View {
    /// The nodes that bear a name of a client's, the lowest first.
    fn named(&self, client: u8, name: u8) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(move |node| (node.by.client, node.name) == (client, name))
    }

    /// Whether it lets the node of this sequence number in; `None` when there is none.
    fn admits(&self, sequence: u8) -> Option<bool> {
        let own = self.nodes.iter().position(|node| node.sequence == sequence)?;
        let listed: Vec<Listed> = self.nodes.iter().map(Node::listed).collect();
        Some(matches!(standing(&listed, own, self.limit), Standing::Admitted { .. }))
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
}
