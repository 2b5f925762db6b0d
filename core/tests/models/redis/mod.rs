//! The model of the Redis queue: clients, and a network that delays, loses and reorders.

mod client;
mod judge;
mod recovery;
mod rules;
mod server;
mod steps;
mod world;

use latchwork_core::backend::NodeId;
use latchwork_core::backend::decide::queue::Queue;
use latchwork_core::backend::decide::valid_until;
use latchwork_core::{Claim, Moment};

use crate::explore::Broken;
use crate::{moment, ttl_of};
use client::Client;
use server::{Second, Server};

/// Each fault names the rule that it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// QUEUE-DROP-ACT-ADMIT.
    PruneFirstOnly,
    /// QUEUE-DROP-ACT-ADMIT: a node that fits with the holders overtakes waiters.
    AgainstHoldersOnly,
    /// LEASE-DEADLINE-FROM-SEND.
    FromArrival,
    /// LEASE-MARGIN-COVERS-DRIFT.
    NoMargin,
    /// QUEUE-LATE-REPLY-REVIVES-NOTHING.
    LateRepliesAndNamesById,
    /// QUEUE-MESSAGE-ADMITS-ONE-ATTEMPT: a hand-off message counts as a renewal.
    HandOffRenews,
    /// QUEUE-MESSAGE-ADMITS-ONE-ATTEMPT: a hand-off message of the queue admits any waiting attempt.
    HandOffByQueueOnly,
    /// QUEUE-INBOX-BEFORE-JOIN.
    NoLatch,
    /// QUEUE-ADMISSION-KEEPS-EXPIRY.
    AdmissionExtends,
    /// QUEUE-ID-PER-ATTEMPT: a join always adds a node.
    NoLookUpById,
    /// QUEUE-ID-PER-ATTEMPT: no tombstone can be kept, and a leave names the id.
    OneIdForAllAttempts,
    /// QUEUE-LEAVE-NAMES-NODE.
    LeaveByClient,
    /// QUEUE-TOMBSTONE-FOR-UNKNOWN-JOIN.
    NoTombstone,
    /// QUEUE-RENEWAL-IS-RECHECK: the answer does not admit a waiter.
    RenewalTellsNothing,
    /// QUEUE-RENEWAL-IS-RECHECK: a renewal neither drops expired nodes nor admits.
    RenewDoesNotPrune,
    /// QUEUE-LOOK-AT-EXPIRY.
    LooksAtRenewalsOnly,
    /// QUEUE-NOTIFY-ALL-ADMITTED.
    OnlyLeavesPublish,
    /// QUEUE-CLAMP-EXPIRY.
    NoClamp,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Redis {
    pub(crate) claims: Vec<Claim>,
    pub(crate) limit: u32,
    /// The TTL in ticks.
    pub(crate) ttl: u8,
    pub(crate) ticks: u8,
    /// How often each client joins.
    pub(crate) attempts: Vec<u8>,
    /// The repeats of a join, and of a leave.
    pub(crate) repeats: u8,
    /// A client sends only while fewer messages are on their way.
    pub(crate) in_flight: usize,
    pub(crate) losses: u8,
    pub(crate) crashes: u8,
    /// Ticks that one client's clock may lose.
    pub(crate) slow: u8,
    /// Ticks that the server's clock may step back.
    pub(crate) back: u8,
    pub(crate) tries: bool,
    pub(crate) fault: Option<Fault>,
    /// `None` judges all damage.
    pub(crate) only: Option<Broken>,
}

/// Zero of every clock. A clock never reads less than its origin.
const BASE: u8 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Attempt {
    client: u8,
    number: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Message {
    Join { by: Attempt, sent: u8, wait: bool },
    Renew { by: Attempt, sequence: u64, sent: u8 },
    Leave { by: Attempt, sequence: u64 },
    Abandon { by: Attempt },
    // `at` is the client's clock at the send of the request.
    Answer { to: Attempt, asked: Asked, at: u8, told: Told },
    Left { to: Attempt },
    HandOff { to: Attempt, sequence: u64 },
}

impl Message {
    fn attempt(&self) -> Attempt {
        match *self {
            Message::Join { by, .. } | Message::Renew { by, .. } | Message::Leave { by, .. } => by,
            Message::Abandon { by } => by,
            Message::Answer { to, .. } | Message::Left { to } | Message::HandOff { to, .. } => to,
        }
    }

    fn client(&self) -> usize {
        usize::from(self.attempt().client)
    }

    fn is_request(&self) -> bool {
        !matches!(self, Message::Answer { .. } | Message::Left { .. } | Message::HandOff { .. })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Asked {
    Join,
    Renew { sequence: u64 },
}

/// `ahead` is the number of ticks that the node ahead has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Told {
    Admitted { sequence: u64 },
    Waiting { sequence: u64, ahead: u8 },
    Refused,
    Gone,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    now: u8,
    back: u8,
    server: Server,
    /// Sorted, so that states that differ only in history are one state.
    net: Vec<Message>,
    clients: Vec<Client>,
    losses: u8,
    crashes: u8,
    slow: u8,
    // The rest is for the judge.
    made: Vec<(u64, Attempt)>,
    highest_token: u64,
    broken: Option<Broken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Join(usize),
    Try(usize),
    JoinAgain(usize),
    Renew(usize),
    Leave(usize),
    LeaveAgain(usize),
    Deliver(Message),
    Lose(Message),
    Crash(usize),
    Tick,
    SlowTick(usize),
    ClockBack,
}

pub(crate) fn client_of(id: NodeId) -> char {
    id.hyphenated().chars().nth(1).expect("the client's digit")
}

impl Redis {
    fn id(&self, attempt: Attempt) -> NodeId {
        let number = if self.fault == Some(Fault::OneIdForAllAttempts) { 0 } else { attempt.number };
        let mut bytes = [0; 16];
        (bytes[0], bytes[1]) = (attempt.client, number);
        NodeId::from_bytes(bytes)
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// The second queue has the server's faults.
    fn server(&self) -> Server {
        use Fault::*;
        match self.fault {
            Some(
                PruneFirstOnly
                | AgainstHoldersOnly
                | LateRepliesAndNamesById
                | AdmissionExtends
                | NoLookUpById
                | OneIdForAllAttempts
                | LeaveByClient
                | NoTombstone
                | RenewDoesNotPrune
                | OnlyLeavesPublish
                | NoClamp,
            ) => Server::Second(Second::new(self.fault)),
            _ => Server::Core(Queue::new()),
        }
    }

    fn deadline(&self, sent: u8) -> Moment {
        match self.has(Fault::NoMargin) {
            true => moment(sent) + ttl_of(self.ttl),
            false => valid_until(moment(sent), ttl_of(self.ttl)),
        }
    }
}
