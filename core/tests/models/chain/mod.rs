//! The model of a chain: nodes in create order, and clients that list and watch.

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
    /// A server may lag the leader, but shows at least the changes that its client has seen.
    #[default]
    ZooKeeper,
    /// Reads are linearizable. A request without an answer may be carried out at any later time.
    Etcd,
}

/// Each fault names the rule that it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// CHAIN-OWN-NODE-AND-DEADLINE.
    NoDeadline,
    /// CHAIN-OWN-NODE-AND-DEADLINE: the client checks neither its deadline nor its own node.
    NoOwnNode,
    /// CHAIN-EVENT-LISTS-AGAIN.
    EventAdmits,
    /// CHAIN-SOLE-AHEAD: an absence at arming admits, although others were ahead.
    AbsenceAdmits,
    /// CHAIN-SOLE-AHEAD: a client that is admitted without listing again does not watch its own node.
    OwnUnwatched,
    /// CHAIN-ANNOUNCED-RELEASE: the same, only for clients with others ahead.
    OwnUnwatchedBehindOthers,
    /// CHAIN-ANNOUNCED-RELEASE.
    AbandonedIsTold,
    /// CHAIN-ANNOUNCED-RELEASE: clients watch the lowest node.
    ToldByTheLowest,
    /// CHAIN-ANNOUNCED-RELEASE: readers too announce and trust releases.
    ReaderTells,
    /// CHAIN-ANNOUNCED-RELEASE: a write announces the release, and others write too.
    WriteIsTold,
    /// CHAIN-ANNOUNCED-RELEASE: a release that a lost connection kept back admits, before the client knows
    /// what happened to its own node.
    MissedReleaseAdmits,
    /// CHAIN-HAND-ON.
    GivingUpSaysNext,
    /// CHAIN-HAND-ON: the leave does not compare that the notified node exists.
    SaidToTheGone,
    /// CHAIN-HAND-ON: the notice goes to the last node of the queue.
    SaidOverOthers,
    /// CHAIN-HAND-ON.
    ToldIgnoresDeadline,
    /// CHAIN-HAND-ON: a leave without a successor does not compare that no node has joined since the listing.
    NobodyUncompared,
    /// CHAIN-OWN-HISTORY: the last node may be in another directory.
    DirectoryUnproved,
    /// CHAIN-OWN-HISTORY: the last node was still waiting.
    ReturnOfAWaiter,
    /// CHAIN-OWN-HISTORY: the last node was a reader's.
    ReturnOfAReader,
    /// CHAIN-ARM-THEN-LOOK.
    ArmingIgnoresAbsence,
    /// CHAIN-ARM-THEN-LOOK: content is a mark or a downgrade.
    ArmingIgnoresContent,
    /// CHAIN-LOST-WATCH-LISTS-AGAIN.
    LostWatchIgnored,
    /// CHAIN-READER-WATCHES-WRITER.
    ReadersWatchFirstWriter,
    /// CHAIN-READER-WATCHES-WRITER.
    ReadersWatchPredecessor,
    /// CHAIN-PERMITS-HEAD-AND-MARKS.
    PermitsWatchLowest,
    /// CHAIN-PERMITS-HEAD-AND-MARKS.
    PermitsWatchPredecessor,
    /// CHAIN-PERMITS-HEAD-AND-MARKS.
    NoMarks,
    /// CHAIN-LIMIT-CHANGE-MARKS-HOLDERS.
    HeadIgnoresLimit,
    /// CHAIN-LIMIT-CHANGE-MARKS-HOLDERS.
    LimitMarksNobody,
    /// CHAIN-MARK-GUARDED.
    MarkUnguarded,
    /// CHAIN-SYNC-AFTER-UNKNOWN-CREATE.
    PlainListing,
    /// CHAIN-TOMBSTONE-FOR-UNKNOWN-JOIN.
    NoTombstone,
    /// CHAIN-TOMBSTONE-FOR-UNKNOWN-JOIN: an attempt whose node was found again leaves no tombstone.
    NoTombstoneOnceFound,
    /// CHAIN-FRESH-NAME: a client deletes its one name without a condition.
    NamePerClient,
    /// CHAIN-FRESH-NAME: a name is free before its node's first leave, which has no condition, has an answer.
    NameFreedEarly,
    /// CHAIN-FRESH-NAME: a name is free before its node's leave is confirmed.
    NameFreedUnconfirmed,
    /// CHAIN-FRESH-NAME: a second leave has no condition.
    SecondLeaveUnguarded,
    /// CHAIN-DOWNGRADE-IN-PLACE.
    DowngradeAtTail,
    /// CHAIN-DOWNGRADE-IN-PLACE.
    WakeOnDeleteOnly,
    /// CHAIN-SOLE-AHEAD on ZooKeeper, where a downgrade looks like a departure.
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
    /// Clients crash, or lose their lease.
    pub(crate) failures: u8,
    pub(crate) reconnects: u8,
    pub(crate) downgrades: u8,
    /// An operator removes waiters' nodes.
    pub(crate) removals: u8,
    /// A name is used again when its join and its first leave were answered. On etcd that leave has no
    /// condition.
    pub(crate) reuses: bool,
    /// ZooKeeper: CHAIN-OWN-HISTORY. An empty directory may be removed, so that its counter starts again.
    /// From its second attempt on, a client claims exclusively.
    pub(crate) returns: bool,
    /// ZooKeeper, exclusive claims only: CHAIN-ANNOUNCED-RELEASE.
    pub(crate) tells: bool,
    /// etcd, exclusive claims only: CHAIN-HAND-ON.
    pub(crate) hands: bool,
    /// A client that relies on such a notice has no other watch.
    pub(crate) relies: bool,
    pub(crate) fault: Option<Fault>,
    /// `None` judges all damage.
    pub(crate) only: Option<Broken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    /// The create revision or czxid, which names this incarnation.
    sequence: u8,
    by: Attempt,
    /// The number of the name among its client's names.
    name: u8,
    claim: Claim,
    marked: bool,
    birth: Birth,
}

/// The directory's counter and the transaction at the creation. Known only with `returns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Birth {
    counter: u8,
    transaction: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct View {
    nodes: Vec<Node>,
    limit: u32,
    /// The step to this version announced the release of this node.
    told: Option<u8>,
    /// etcd: the step to this version notified this node; whether it is the next.
    said: Option<(u8, bool)>,
    woken: u8,
    most_woken: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Watch {
    Node { sequence: u8, sole: bool },
    // Any departure, or the limit.
    Head,
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Unknown,
    Listing,
    // ZooKeeper: another read sets the watch.
    Arming { seen: Node, sole: bool },
    Sleeping(Watch),
    // etcd: the "next" notice is not processed yet.
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
    /// The server has ended the lease.
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
    /// The node was admitted. Known only with `returns`, `tells` or `hands`.
    entered: bool,
    /// The last node of the client was admitted exclusively and has left.
    last_turn: Option<Birth>,
    /// etcd: the successor may rely on this client's notice.
    speaks: bool,
    /// etcd: the client relies on its predecessor's notice.
    relies: bool,
    behind: Behind,
    claim: Claim,
    /// The client's watches have reported up to this view.
    view: usize,
    owes_mark: bool,
    /// etcd: a join of this attempt had an unknown outcome.
    unknown: bool,
    /// The client believes although its lease is over, by a fault of CHAIN-OWN-NODE-AND-DEADLINE.
    phantom: bool,
}

/// As its client has read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Behind {
    #[default]
    Unknown,
    Node(u8),
    /// This node joined last.
    Nobody(u8),
}

/// The request may be carried out although the client no longer awaits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Late {
    Create(Attempt, u8),
    /// These three name one incarnation.
    Delete(Attempt, u8),
    Tell(Attempt, u8),
    Say(Word),
    /// Deletes any node of this name.
    Erase(Attempt, u8),
    Mark(Attempt, u8),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// From the oldest view that a client still sees.
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
    // The rest is for the judge.
    largest_limit: u32,
    highest_token: u8,
    broken: Option<Broken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Join(usize),
    /// On ZooKeeper the create was carried out, or never will be.
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
    /// The leave announces the release.
    Tell(usize),
    TellLate(usize),
    LookBehind(usize),
    /// The leave notifies the successor.
    Say(usize),
    SayLate(usize),
    /// The second leave is carried out later.
    LeaveTwice(usize),
    Land(Late),
    Deadline(usize),
    Crash(usize),
    Expire(usize),
    Reconnect(usize),
    Downgrade(usize),
    /// Another program writes the node, with the fault `WriteIsTold`.
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

    /// `None` if the view has no such node.
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
