//! Model B: nodes in create order, clients that list and watch (ZooKeeper with lagging views, etcd with late requests).

mod client;
mod coordinator;
mod hand_on;
mod judge;
mod recovery;
mod rules;
mod steps;

use std::collections::BTreeSet;

use latchwork_core::decide::Claim;
use latchwork_core::decide::chain::{Listed, Standing, standing};

use self::hand_on::Word;
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
    /// B2: who abandons a waiting node says that the one behind it is the next.
    GivingUpSaysNext,
    /// B2: a leave that says something does not compare that the node that it says it to is still there.
    SaidToTheGone,
    /// B2: what is said goes to another than the first behind, the last.
    SaidOverOthers,
    /// B1: who was told does not look at its own deadline behind that.
    ToldIgnoresDeadline,
    /// B2: who relies on nobody leaves in silence too.
    LastWatcherIsSilent,
    /// B2: who leaves in silence does not compare that nothing was said to it.
    SilentThoughSpokenTo,
    /// B2: who knows nobody behind it does not compare that nobody has joined since.
    NobodyUncompared,
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
    /// etcd, where all claims are exclusive: who leaves lets the next one know in the same transaction.
    pub(crate) hands: bool,
    /// Who relies on that watches nothing else.
    pub(crate) relies: bool,
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
    /// etcd: the node that the step to this version spoke to, and whether it is the next.
    said: Option<(u8, bool)>,
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
    /// etcd: it was told that it is the next, and has not looked at that yet.
    Told,
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
    /// Its node was admitted. Known with `returns`, `tells` or `hands` alone.
    entered: bool,
    /// Of its last node, which was admitted exclusively and has left.
    last_turn: Option<Birth>,
    /// etcd: who is behind it may rely on what it says.
    speaks: bool,
    /// etcd: it relies on who is before it.
    relies: bool,
    behind: Behind,
    claim: Claim,
    /// Which view its server shows, and its watches have reported.
    view: usize,
    owes_mark: bool,
    /// etcd: a join of this attempt had an unknown outcome.
    unknown: bool,
    /// Believes though its lease is over: only with B1's faults.
    phantom: bool,
}

/// Who is right behind a node, as it has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Behind {
    #[default]
    Unknown,
    Node(u8),
    /// When this was the last that had joined.
    Nobody {
        last: u8,
    },
}

/// A request that the client has given up on and that may still be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Late {
    Create(Attempt, u8),
    /// Of one incarnation.
    Delete(Attempt, u8),
    /// The same, told as a release.
    Tell(Attempt, u8),
    /// The same, with what is said to who is behind it.
    Say(Word),
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
    /// The nodes to which something was said.
    spoken_to: BTreeSet<u8>,
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
    /// It processes what it was told.
    Told(usize),
    Advance(usize),
    Mark(usize),
    MarkLate(usize),
    Leave(usize),
    LeaveLate(usize),
    /// A leave that is told as a release.
    Tell(usize),
    TellLate(usize),
    /// It reads who is behind it.
    LookBehind(usize),
    /// A leave that says something to who is behind it.
    Say(usize),
    SayLate(usize),
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
