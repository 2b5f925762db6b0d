//! The model of a chain (the CHAIN- rules), over `decide::chain`: nodes in create order, and clients that
//! list and watch. It has no time: deadlines and expiries are steps.

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
    /// A server may lag behind the leader, but not behind what its client has seen.
    #[default]
    ZooKeeper,
    /// Reads are linearizable. A request without an answer may be carried out at any later time.
    Etcd,
}

/// Each fault names the rule that it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// CHAIN-OWN-NODE-AND-DEADLINE: the client does not check its deadline.
    NoDeadline,
    /// CHAIN-OWN-NODE-AND-DEADLINE: the client checks neither its deadline nor its own node.
    NoOwnNode,
    /// CHAIN-EVENT-LISTS-AGAIN: each event admits.
    EventAdmits,
    /// CHAIN-SOLE-AHEAD: an absence at arming admits, although others were ahead.
    AbsenceAdmits,
    /// CHAIN-SOLE-AHEAD: a client with only one node ahead does not watch its own node.
    OwnUnwatched,
    /// CHAIN-ANNOUNCED-RELEASE: a client with others ahead does not watch its own node.
    OwnUnwatchedBehindOthers,
    /// CHAIN-ANNOUNCED-RELEASE: a waiter that gives up announces too.
    AbandonedIsTold,
    /// CHAIN-ANNOUNCED-RELEASE: clients watch the lowest node.
    ToldByTheLowest,
    /// CHAIN-ANNOUNCED-RELEASE: readers too announce and trust releases.
    ReaderTells,
    /// CHAIN-ANNOUNCED-RELEASE: any write of the node is an announcement.
    WriteIsTold,
    /// CHAIN-ANNOUNCED-RELEASE: a release that a lost connection delayed admits.
    MissedReleaseAdmits,
    /// CHAIN-HAND-ON: a waiter that gives up says "next".
    GivingUpSaysNext,
    /// CHAIN-HAND-ON: the leave does not compare that the successor exists.
    SaidToTheGone,
    /// CHAIN-HAND-ON: the notice goes to the last node of the queue.
    SaidOverOthers,
    /// CHAIN-HAND-ON: the client does not check its deadline after a notice.
    ToldIgnoresDeadline,
    /// CHAIN-HAND-ON: a leave without a successor does not compare that no node has joined.
    NobodyUncompared,
    /// CHAIN-OWN-HISTORY: the last node may be in another directory.
    DirectoryUnproved,
    /// CHAIN-OWN-HISTORY: the last node only waited.
    ReturnOfAWaiter,
    /// CHAIN-OWN-HISTORY: the last node was a reader's.
    ReturnOfAReader,
    /// CHAIN-ARM-THEN-LOOK: an absence is not noticed.
    ArmingIgnoresAbsence,
    /// CHAIN-ARM-THEN-LOOK: a mark or a downgrade is not noticed.
    ArmingIgnoresContent,
    /// CHAIN-LOST-WATCH-LISTS-AGAIN: a waiter whose watch was lost sleeps on.
    LostWatchIgnored,
    /// CHAIN-READER-WATCHES-WRITER: a reader watches the first writer.
    ReadersWatchFirstWriter,
    /// CHAIN-READER-WATCHES-WRITER: a reader watches its predecessor.
    ReadersWatchPredecessor,
    /// CHAIN-PERMITS-HEAD-AND-MARKS: each waiter watches the lowest node.
    PermitsWatchLowest,
    /// CHAIN-PERMITS-HEAD-AND-MARKS: each waiter, also the head, watches its predecessor.
    PermitsWatchPredecessor,
    /// CHAIN-PERMITS-HEAD-AND-MARKS: no admitted node is marked.
    NoMarks,
    /// CHAIN-LIMIT-CHANGE-MARKS-HOLDERS: the head does not wait for the limit.
    HeadIgnoresLimit,
    /// CHAIN-LIMIT-CHANGE-MARKS-HOLDERS: a change of the limit causes no marks.
    LimitMarksNobody,
    /// CHAIN-MARK-GUARDED: a mark may create a node.
    MarkUnguarded,
    /// CHAIN-SYNC-AFTER-UNKNOWN-CREATE: a plain listing decides after an unknown create.
    PlainListing,
    /// CHAIN-TOMBSTONE-FOR-UNKNOWN-JOIN: a leave writes no tombstone.
    NoTombstone,
    /// CHAIN-TOMBSTONE-FOR-UNKNOWN-JOIN: an attempt whose node was found again leaves none.
    NoTombstoneOnceFound,
    /// CHAIN-FRESH-NAME: a client has one name, and deletes it without a condition.
    NamePerClient,
    /// CHAIN-FRESH-NAME: a name is free before its node's first leave has an answer.
    NameFreedEarly,
    /// CHAIN-FRESH-NAME: a name is free before its node's leave is confirmed.
    NameFreedUnconfirmed,
    /// CHAIN-FRESH-NAME: a second leave has no condition.
    SecondLeaveUnguarded,
    /// CHAIN-DOWNGRADE-IN-PLACE: the reader joins at the tail.
    DowngradeAtTail,
    /// CHAIN-DOWNGRADE-IN-PLACE: a downgrade wakes no waiter.
    WakeOnDeleteOnly,
    /// CHAIN-SOLE-AHEAD: a departure admits although it may be a downgrade.
    SoleDespiteDowngrade,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Attempt {
    client: u8,
    number: u8,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Chain {
    pub(crate) server: Server,
    pub(crate) claims: Vec<Claim>,
    pub(crate) limit: u32,
    /// An operator sets these limits in order.
    pub(crate) limits: Vec<u32>,
    pub(crate) attempts: u8,
    pub(crate) unknowns: u8,
    pub(crate) failures: u8,
    pub(crate) reconnects: u8,
    pub(crate) downgrades: u8,
    /// An operator removes nodes of waiters.
    pub(crate) removals: u8,
    /// A name is used again after an answered join and first leave. On etcd that leave has no condition.
    pub(crate) reuses: bool,
    /// ZooKeeper: CHAIN-OWN-HISTORY. An empty directory may be removed, so that its counter begins again.
    /// From its second attempt on, a client claims exclusively.
    pub(crate) returns: bool,
    /// ZooKeeper, exclusive claims only: CHAIN-ANNOUNCED-RELEASE.
    pub(crate) tells: bool,
    /// etcd, exclusive claims only: CHAIN-HAND-ON.
    pub(crate) hands: bool,
    /// A client that relies on a notice has no other watch.
    pub(crate) relies: bool,
    pub(crate) fault: Option<Fault>,
    pub(crate) only: Option<Broken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    sequence: u8,
    by: Attempt,
    name: u8,
    claim: Claim,
    marked: bool,
    birth: Birth,
}

/// Known only with `returns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Birth {
    counter: u8,
    transaction: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct View {
    nodes: Vec<Node>,
    limit: u32,
    /// The node whose release the step to this view announced.
    told: Option<u8>,
    /// etcd: the node that was notified, and whether it is the next.
    said: Option<(u8, bool)>,
    woken: u8,
    most_woken: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Watch {
    Node { sequence: u8, sole: bool },
    Head,
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Unknown,
    Listing,
    Arming { seen: Node, sole: bool },
    Sleeping(Watch),
    // etcd: the notice "next" is not processed yet.
    Told,
    Holding,
    Leaving,
    Out,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Client {
    alive: bool,
    valid: bool,
    expired: bool,
    phase: Phase,
    number: u8,
    name: u8,
    /// A request that creates or deletes this name has no answer.
    name_burnt: bool,
    /// One bit for each name.
    free_names: u32,
    sequence: u8,
    birth: Birth,
    /// It was admitted. Known only with `returns`, `tells` or `hands`.
    entered: bool,
    /// The client's last node, if it was admitted exclusively and has left.
    last_turn: Option<Birth>,
    /// etcd: the client's leave gives a notice.
    speaks: bool,
    relies: bool,
    behind: Behind,
    claim: Claim,
    view: usize,
    owes_mark: bool,
    /// etcd: a join of this attempt has an unknown outcome.
    unknown: bool,
    /// The client believes after its deadline, by a fault.
    phantom: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Behind {
    #[default]
    Unknown,
    Node(u8),
    /// The number of the node that joined last.
    Nobody(u8),
}

/// A request that may still be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Late {
    Create(Attempt, u8),
    Delete(Attempt, u8),
    Tell(Attempt, u8),
    Say(Word),
    /// Deletes any node of this name.
    Erase(Attempt, u8),
    Mark(Attempt, u8),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    views: Vec<View>,
    clients: Vec<Client>,
    late: BTreeSet<Late>,
    tombstones: BTreeSet<Attempt>,
    last: u8,
    spoken_to: BTreeSet<u8>,
    next: Birth,
    collections: u8,
    changes: usize,
    unknowns: u8,
    failures: u8,
    reconnects: u8,
    downgrades: u8,
    removals: u8,
    // Only for the judge:
    largest_limit: u32,
    highest_token: u8,
    broken: Option<Broken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Join(usize),
    /// ZooKeeper: whether the create was carried out.
    JoinUnknown(usize, bool),
    Resolve(usize),
    List(usize),
    Arm(usize),
    Told(usize),
    Advance(usize),
    Mark(usize),
    MarkLate(usize),
    Leave(usize),
    LeaveLate(usize),
    Tell(usize),
    TellLate(usize),
    LookBehind(usize),
    Say(usize),
    SayLate(usize),
    LeaveTwice(usize),
    Land(Late),
    Deadline(usize),
    Crash(usize),
    Expire(usize),
    Reconnect(usize),
    Downgrade(usize),
    Write(usize),
    Remove(usize),
    Collect,
    SetLimit,
}

impl Node {
    fn listed(&self) -> Listed {
        Listed { claim: self.claim, marked: self.marked }
    }
}

impl View {
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
