//! Model A: clients, a network that delays, loses and reorders, and the Redis node queue.

mod client;
mod judge;
mod recovery;
mod rules;
mod server;
mod steps;
mod world;

use latchwork_core::Moment;
use latchwork_core::contracts::NodeId;
use latchwork_core::decide::Claim;
use latchwork_core::decide::queue::Queue;

use crate::explore::Broken;
use crate::{moment, ttl_of};
use client::Client;
use server::{Second, Server};

/// What can be planted, by the rule that forbids it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// A1: only the first node of the queue is looked at for expiry.
    PruneFirstOnly,
    /// A1: whoever fits beside the holders is admitted, whoever waits before it.
    AgainstHoldersOnly,
    /// A3: the deadline counts from the arrival of the reply.
    FromArrival,
    /// A4: the client believes as long as the server does.
    NoMargin,
    /// A5: late replies are acted on, and RENEW finds the node by id alone.
    LateRepliesAndNamesById,
    /// A6: the hand-off message counts as a renewal.
    HandOffRenews,
    /// A6: any hand-off message of the queue admits whoever waits.
    HandOffByQueueOnly,
    /// A7: a hand-off message that overtakes the reply of JOIN is thrown away.
    NoLatch,
    /// A8: admission gives the node a new TTL.
    AdmissionExtends,
    /// A9: JOIN always adds a node.
    NoLookUpById,
    /// A9: all attempts of a client have one id (so no tombstone can be kept, and LEAVE is by id).
    OneIdForAllAttempts,
    /// A10: LEAVE removes the client's node, whichever it is.
    LeaveByClient,
    /// A11: the leave of an unknown JOIN keeps nothing for the JOIN to meet.
    NoTombstone,
    /// A12: a waiter learns nothing from the answer of RENEW.
    RenewalTellsNothing,
    /// A12: RENEW neither drops the expired nor admits.
    RenewDoesNotPrune,
    /// A13: a waiter looks again at its own renewals only.
    LooksAtRenewalsOnly,
    /// A14: JOIN and RENEW tell nobody whom they admit.
    OnlyLeavesPublish,
    /// A17: expiries are not clamped when the server's clock steps back.
    NoClamp,
}

/// The bounds of an exploration, and the fault that is planted.
#[derive(Clone, Debug)]
pub(crate) struct Redis {
    /// One client each.
    pub(crate) claims: Vec<Claim>,
    pub(crate) limit: u32,
    /// The TTL in ticks.
    pub(crate) ttl: u8,
    /// How far time goes.
    pub(crate) ticks: u8,
    /// How often each client joins.
    pub(crate) attempts: Vec<u8>,
    /// How often a client repeats a JOIN, and a leave.
    pub(crate) repeats: u8,
    /// How many messages may be on their way when a client sends one more.
    pub(crate) in_flight: usize,
    pub(crate) losses: u8,
    pub(crate) crashes: u8,
    /// How many ticks one client's clock may miss.
    pub(crate) slow: u8,
    /// How many ticks the server's clock may step back.
    pub(crate) back: u8,
    pub(crate) tries: bool,
    pub(crate) fault: Option<Fault>,
    /// What alone is judged; everything when there is no fault.
    pub(crate) only: Option<Broken>,
}

/// Zero of every clock, so that no clock is ever before its origin.
const BASE: u8 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Attempt {
    client: u8,
    number: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Message {
    Join {
        by: Attempt,
        sent: u8,
        wait: bool,
    },
    Renew {
        by: Attempt,
        sequence: u64,
        sent: u8,
    },
    Leave {
        by: Attempt,
        sequence: u64,
    },
    Abandon {
        by: Attempt,
    },
    /// Answers JOIN and RENEW. `at` is the client's clock when the request was sent.
    Answer {
        to: Attempt,
        asked: Asked,
        at: u8,
        told: Told,
    },
    Left {
        to: Attempt,
    },
    HandOff {
        to: Attempt,
        sequence: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Asked {
    Join,
    Renew { sequence: u64 },
}

/// What an answer tells; `ahead` is how many ticks what it waits for has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Told {
    Admitted { sequence: u64 },
    Waiting { sequence: u64, ahead: u8 },
    Refused,
    Gone,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    now: u8,
    back: u8,
    server: Server,
    /// On its way, in no order: sorted, so that states that differ in history only are one.
    net: Vec<Message>,
    clients: Vec<Client>,
    losses: u8,
    crashes: u8,
    slow: u8,
    // What follows is for the judge alone.
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

    fn judges(&self, broken: Broken) -> bool {
        self.only.is_none_or(|only| only == broken)
    }

    /// Faults of the server are planted in the list; otherwise it is core's queue that is explored.
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
        if self.has(Fault::NoMargin) {
            moment(sent) + ttl_of(self.ttl)
        } else {
            latchwork_core::decide::valid_until(moment(sent), ttl_of(self.ttl))
        }
    }
}
