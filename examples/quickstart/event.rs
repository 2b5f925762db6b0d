//! The events that workers report.

use latchwork::{Clock, Moment, Token};
use serde::{Deserialize, Serialize};

/// The workers' names. A worker's number is its place in this list.
pub(crate) const WORKERS: [&str; 5] = ["ada", "bea", "cal", "dan", "eve"];

/// An action of a worker. A worker process writes it to its standard output as one line of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(crate) worker: usize,
    /// Nanoseconds on the machine's clock, which all its processes share.
    pub(crate) at: u64,
    pub(crate) what: What,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    /// It is connected, with a lease of the given milliseconds.
    Ready { ttl_ms: u64 },
    /// It asks for the lock.
    Waits,
    /// It has the lock. Sent after `acquire` has returned.
    Holds { turn: u32, token: Token, waited_us: u64 },
    /// It is about to release the lock. Sent before `release` is called.
    Releases,
    /// It has closed its coordinator.
    Leaves,
    /// It was killed, and is certainly dead by this time. The parent sends this event, and the worker
    /// sends all other events.
    Killed,
    /// Something went wrong.
    Fails { error: String },
}

impl Event {
    pub(crate) fn now(worker: usize, what: What) -> Event {
        Event { worker, at: Clock::system().now().as_nanos(), what }
    }

    pub(crate) fn name(&self) -> &'static str {
        WORKERS[self.worker]
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment::from_nanos(self.at)
    }
}
