//! The model of a chain: nodes in create order, and clients that list and watch. ZooKeeper has
//! views that lag, etcd has requests that arrive late.

mod client;
mod coordinator;
mod hand_on;
mod judge;
mod recovery;
mod rules;
mod steps;

use std::collections::BTreeSet;

use latchwork_core::Claim;
use latchwork_core::backend::decide::chain::{Listed, Standing, standing};

use self::hand_on::Word;
use crate::explore::Broken;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Server {
    /// Each client reads a server that may lag the leader, but shows at least the changes that the client has
    /// seen.
    #[default]
    ZooKeeper,
    /// Reads are linearizable. A request without an answer may be carried out at any later time.
    Etcd,
}

/// The faults, each with the rule that forbids it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// CHAIN-OWN-NODE-AND-DEADLINE: the listing decides, although the own deadline has passed.
    NoDeadline,
    /// CHAIN-OWN-NODE-AND-DEADLINE: the client checks neither its deadline nor its own node in the
    /// listing.
    NoOwnNode,
    /// CHAIN-EVENT-LISTS-AGAIN: an event of the watched node admits.
    EventAdmits,
    /// CHAIN-SOLE-AHEAD: a watched node that is absent when its watch is armed admits, although
    /// others were ahead.
    AbsenceAdmits,
    /// CHAIN-SOLE-AHEAD: a client that is admitted without listing again does not watch its own
    /// node.
    OwnUnwatched,
    /// CHAIN-ANNOUNCED-RELEASE: the same, but only for clients with others ahead, which rely on announced
    /// releases.
    OwnUnwatchedBehindOthers,
    /// CHAIN-ANNOUNCED-RELEASE: a client that abandons a waiting node announces a release.
    AbandonedIsTold,
    /// CHAIN-ANNOUNCED-RELEASE: clients watch the lowest node, and its release admits them all.
    ToldByTheLowest,
    /// CHAIN-ANNOUNCED-RELEASE: releases are announced, and trusted, among readers too.
    ReaderTells,
    /// CHAIN-ANNOUNCED-RELEASE: a write of the node announces its release, and others write it too.
    WriteIsTold,
    /// CHAIN-ANNOUNCED-RELEASE: a release that a lost connection kept back still admits, before the
    /// client knows what happened to its own node.
    MissedReleaseAdmits,
    /// CHAIN-HAND-ON: a client that abandons a waiting node says "next" to its successor.
    GivingUpSaysNext,
    /// CHAIN-HAND-ON: a leave with a notice does not compare that the notified node is still there.
    SaidToTheGone,
    /// CHAIN-HAND-ON: the notice goes to the last node of the queue, and not to the successor.
    SaidOverOthers,
    /// CHAIN-HAND-ON: a client that is notified does not check its own deadline afterwards.
    ToldIgnoresDeadline,
    /// CHAIN-HAND-ON: a leave without a successor does not compare that no node has joined since
    /// the listing.
    NobodyUncompared,
    /// CHAIN-OWN-HISTORY: a client's next node is admitted, although it is so far from the last one
    /// that it may be in another directory.
    DirectoryUnproved,
    /// CHAIN-OWN-HISTORY: a client's next node is admitted, although its last one was still
    /// waiting.
    ReturnOfAWaiter,
    /// CHAIN-OWN-HISTORY: a client's next node is admitted, although its last one was a reader's.
    ReturnOfAReader,
    /// CHAIN-ARM-THEN-LOOK: arming does not check whether the watched node is still there.
    ArmingIgnoresAbsence,
    /// CHAIN-ARM-THEN-LOOK: arming ignores the content of the read (a mark, a downgrade).
    ArmingIgnoresContent,
    /// CHAIN-LOST-WATCH-LISTS-AGAIN: a lost watch is not armed again.
    LostWatchIgnored,
    /// CHAIN-READER-WATCHES-WRITER: readers watch the first writer.
    ReadersWatchFirstWriter,
    /// CHAIN-READER-WATCHES-WRITER: readers watch their predecessor.
    ReadersWatchPredecessor,
    /// CHAIN-PERMITS-HEAD-AND-MARKS: a waiter for permits watches the lowest node.
    PermitsWatchLowest,
    /// CHAIN-PERMITS-HEAD-AND-MARKS: a waiter for permits watches only its predecessor.
    PermitsWatchPredecessor,
    /// CHAIN-PERMITS-HEAD-AND-MARKS: admitted nodes are not marked.
    NoMarks,
    /// CHAIN-LIMIT-CHANGE-MARKS-HOLDERS: the head ignores changes of the limit.
    HeadIgnoresLimit,
    /// CHAIN-LIMIT-CHANGE-MARKS-HOLDERS: no holder marks its node when the limit changes.
    LimitMarksNobody,
    /// CHAIN-MARK-GUARDED: a mark is a put without a condition.
    MarkUnguarded,
    /// CHAIN-SYNC-AFTER-UNKNOWN-CREATE: a plain listing decides the outcome of a create.
    PlainListing,
    /// CHAIN-TOMBSTONE-FOR-UNKNOWN-JOIN: an unknown join leaves no tombstone.
    NoTombstone,
    /// CHAIN-TOMBSTONE-FOR-UNKNOWN-JOIN: an attempt whose node was found again leaves no tombstone,
    /// although an earlier request may still arrive.
    NoTombstoneOnceFound,
    /// CHAIN-FRESH-NAME: a client has one node name in a queue, and deletes it without a condition.
    NamePerClient,
    /// CHAIN-FRESH-NAME: a name is free again although its node's first leave, which has no
    /// condition, has no answer.
    NameFreedEarly,
    /// CHAIN-FRESH-NAME: a name is free again before its node's leave is confirmed.
    NameFreedUnconfirmed,
    /// CHAIN-FRESH-NAME: a second leave has no condition either.
    SecondLeaveUnguarded,
    /// CHAIN-DOWNGRADE-IN-PLACE: a downgrade makes a new node at the tail.
    DowngradeAtTail,
    /// CHAIN-DOWNGRADE-IN-PLACE: waiters wake only when a node leaves.
    WakeOnDeleteOnly,
    /// CHAIN-SOLE-AHEAD: `Standing::Behind::sole` is trusted where a downgrade looks like a
    /// departure (ZooKeeper).
    SoleDespiteDowngrade,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Attempt {
    client: u8,
    number: u8,
}

/// The bounds of an exploration, and the planted fault.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chain {
    pub(crate) server: Server,
    pub(crate) claims: Vec<Claim>,
    pub(crate) limit: u32,
    /// The limits that an operator sets, one after another.
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
    /// Clients use a name again when its join and its first leave were answered. On etcd that leave
    /// has no condition.
    pub(crate) reuses: bool,
    /// ZooKeeper: a client whose next counter follows its own last one is admitted without a listing. An
    /// empty directory may be removed, so that its counter starts again. From its second attempt on, a client
    /// claims exclusively.
    pub(crate) returns: bool,
    /// ZooKeeper, exclusive claims only: a client that leaves an admitted node may announce the
    /// release in the same transaction.
    pub(crate) tells: bool,
    /// etcd, exclusive claims only: a client that leaves notifies its successor in the same
    /// transaction.
    pub(crate) hands: bool,
    /// A client that relies on such a notice has no other watch.
    pub(crate) relies: bool,
    pub(crate) fault: Option<Fault>,
    /// The only damage that is judged; `None` judges all of it.
    pub(crate) only: Option<Broken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    /// The create revision or czxid. It names this incarnation.
    sequence: u8,
    by: Attempt,
    /// The number of its name among its client's names.
    name: u8,
    claim: Claim,
    marked: bool,
    birth: Birth,
}

/// The directory's counter and the transaction at the node's creation. Known only with `returns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Birth {
    counter: u8,
    transaction: u8,
}

/// The queue at one version, and how many clients the step to it has woken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct View {
    nodes: Vec<Node>,
    limit: u32,
    /// The node whose release the step to this version announced.
    told: Option<u8>,
    /// etcd: the node that the step to this version notified, and whether it is the next.
    said: Option<(u8, bool)>,
    woken: u8,
    most_woken: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Watch {
    Node { sequence: u8, sole: bool },
    // Watches every departure, and the limit.
    Head,
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Unknown,
    Listing,
    // ZooKeeper: after the listing, another read sets the watch.
    Arming { seen: Node, sole: bool },
    Sleeping(Watch),
    // etcd: it has a "next" notice that it has not processed yet.
    Told,
    Holding,
    Leaving,
    // Its lease is over, or its node is gone.
    Out,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Client {
    alive: bool,
    /// The client's deadline has not passed.
    valid: bool,
    /// The server has ended the client's lease.
    expired: bool,
    phase: Phase,
    number: u8,
    name: u8,
    /// A request that creates or deletes this name has no answer.
    name_burnt: bool,
    /// The free names, one bit each.
    free_names: u32,
    sequence: u8,
    birth: Birth,
    /// The client's node was admitted. Known only with `returns`, `tells` or `hands`.
    entered: bool,
    /// The birth of its last node, which was admitted exclusively and has left.
    last_turn: Option<Birth>,
    /// etcd: its successor may rely on its notice.
    speaks: bool,
    /// etcd: it relies on the notice of the node before it.
    relies: bool,
    behind: Behind,
    claim: Claim,
    /// The view that its server shows and its watches have reported.
    view: usize,
    owes_mark: bool,
    /// etcd: a join of this attempt had an unknown outcome.
    unknown: bool,
    /// Believes although its lease is over. Only with a fault of CHAIN-OWN-NODE-AND-DEADLINE.
    phantom: bool,
}

/// The successor of a node, as its client has read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Behind {
    #[default]
    Unknown,
    Node(u8),
    /// No node follows the client. This node joined last.
    Nobody(u8),
}

/// A request that the client no longer awaits, and that may still be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Late {
    Create(Attempt, u8),
    /// Deletes one incarnation.
    Delete(Attempt, u8),
    /// Deletes one incarnation, and announces the release.
    Tell(Attempt, u8),
    /// Deletes one incarnation, and notifies its successor.
    Say(Word),
    /// Deletes any node of this name.
    Erase(Attempt, u8),
    Mark(Attempt, u8),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// From the oldest view that a client still sees to the leader's.
    views: Vec<View>,
    clients: Vec<Client>,
    late: BTreeSet<Late>,
    tombstones: BTreeSet<Attempt>,
    last: u8,
    /// The nodes that were notified.
    spoken_to: BTreeSet<u8>,
    /// The birth of the next node.
    next: Birth,
    collections: u8,
    changes: usize,
    unknowns: u8,
    failures: u8,
    reconnects: u8,
    downgrades: u8,
    removals: u8,
    // The rest is for the judge.
    largest_limit: u32,
    highest_token: u8,
    broken: Option<Broken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Join(usize),
    /// The create's answer is lost. On ZooKeeper the create was carried out, or never will be.
    JoinUnknown(usize, bool),
    Resolve(usize),
    List(usize),
    Arm(usize),
    /// The client processes its "next" notice.
    Told(usize),
    Advance(usize),
    Mark(usize),
    MarkLate(usize),
    Leave(usize),
    LeaveLate(usize),
    /// A leave that announces the release.
    Tell(usize),
    TellLate(usize),
    /// The client reads its successor.
    LookBehind(usize),
    /// A leave that notifies the successor.
    Say(usize),
    SayLate(usize),
    /// Two leaves at once, of which the second is carried out later.
    LeaveTwice(usize),
    Land(Late),
    Deadline(usize),
    Crash(usize),
    Expire(usize),
    Reconnect(usize),
    Downgrade(usize),
    /// Another program writes the client's node. Only with the fault `WriteIsTold`.
    Write(usize),
    /// An operator removes a node that is not admitted.
    Remove(usize),
    /// The empty directory is removed.
    Collect,
    SetLimit,
}

impl Node {
    fn listed(&self) -> Listed {
        Listed { claim: self.claim, marked: self.marked }
    }
}

impl View {
    /// The nodes with a name of a client, lowest first.
    fn named(&self, client: u8, name: u8) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(move |node| (node.by.client, node.name) == (client, name))
    }

    fn find(&self, sequence: u8) -> Option<&Node> {
        self.nodes.iter().find(|node| node.sequence == sequence)
    }

    fn change(&mut self, sequence: u8, change: impl Fn(&mut Node)) {
        self.nodes.iter_mut().filter(|node| node.sequence == sequence).for_each(change);
    }

    fn remove(&mut self, gone: impl Fn(&Node) -> bool) {
        self.nodes.retain(|node| !gone(node));
    }

    /// Whether this view admits the node of this sequence number; `None` when it has no such node.
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
}

impl State {
    fn leader(&self) -> &View {
        self.views.last().expect("there is always a state")
    }
}

impl Client {
    fn believes(&self) -> bool {
        self.alive && self.phase == Phase::Holding && (self.valid || self.phantom)
    }
}
