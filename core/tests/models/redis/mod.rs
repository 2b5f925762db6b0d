//! The model of the Redis queue, over `decide::queue` (the QUEUE- rules, LEASE-DEADLINE-FROM-SEND,
//! LEASE-MARGIN-COVERS-DRIFT): clients, and a network that delays, loses and reorders.

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
    /// QUEUE-DROP-ACT-ADMIT: an expired node is dropped only if it is the first.
    PruneFirstOnly,
    /// QUEUE-DROP-ACT-ADMIT: a node that fits with the holders overtakes waiters.
    AgainstHoldersOnly,
    /// LEASE-DEADLINE-FROM-SEND: deadlines count from the arrival of replies.
    FromArrival,
    /// LEASE-MARGIN-COVERS-DRIFT: there is no margin.
    NoMargin,
    /// QUEUE-LATE-REPLY-REVIVES-NOTHING: late replies count, and a renewal names only the id.
    LateRepliesAndNamesById,
    /// QUEUE-MESSAGE-ADMITS-ONE-ATTEMPT: a hand-off message counts as a renewal.
    HandOffRenews,
    /// QUEUE-MESSAGE-ADMITS-ONE-ATTEMPT: a hand-off message admits any waiting attempt of the queue.
    HandOffByQueueOnly,
    /// QUEUE-INBOX-BEFORE-JOIN: a message before the join's reply is dropped.
    NoLatch,
    /// QUEUE-ADMISSION-KEEPS-EXPIRY: an admission extends the expiry.
    AdmissionExtends,
    /// QUEUE-ID-PER-ATTEMPT: a join always adds a node.
    NoLookUpById,
    /// QUEUE-ID-PER-ATTEMPT: all attempts have one id, so there is no tombstone.
    OneIdForAllAttempts,
    /// QUEUE-LEAVE-NAMES-NODE: a leave names only the client.
    LeaveByClient,
    /// QUEUE-TOMBSTONE-FOR-UNKNOWN-JOIN: a leave writes no tombstone.
    NoTombstone,
    /// QUEUE-RENEWAL-IS-RECHECK: the answer of a renewal admits no waiter.
    RenewalTellsNothing,
    /// QUEUE-RENEWAL-IS-RECHECK: a renewal neither drops expired nodes nor admits.
    RenewDoesNotPrune,
    /// QUEUE-LOOK-AT-EXPIRY: a waiter looks only at its renewals.
    LooksAtRenewalsOnly,
    /// QUEUE-NOTIFY-ALL-ADMITTED: only leaves send messages.
    OnlyLeavesPublish,
    /// QUEUE-CLAMP-EXPIRY: expiries are not clamped.
    NoClamp,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Redis {
    pub(crate) claims: Vec<Claim>,
    pub(crate) limit: u32,
    pub(crate) ttl: u8,
    pub(crate) ticks: u8,
    pub(crate) attempts: Vec<u8>,
    pub(crate) repeats: u8,
    /// A client sends only while fewer messages are on their way.
    pub(crate) in_flight: usize,
    pub(crate) losses: u8,
    pub(crate) crashes: u8,
    pub(crate) slow: u8,
    pub(crate) back: u8,
    pub(crate) tries: bool,
    pub(crate) fault: Option<Fault>,
    pub(crate) only: Option<Broken>,
}

/// Zero of every clock.
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
    // `at`: the client's clock when it sent the request.
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

/// `ahead`: the ticks that the node ahead has left.
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
    /// Sorted, so that states that differ only in history are equal.
    net: Vec<Message>,
    clients: Vec<Client>,
    losses: u8,
    crashes: u8,
    slow: u8,
    // Only for the judge:
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
