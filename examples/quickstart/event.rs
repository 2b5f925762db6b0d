//! What workers tell.

use latchwork::{Clock, Moment, Token};
use serde::{Deserialize, Serialize};

/// The workers' names. A worker is its place in this list.
pub(crate) const WORKERS: [&str; 5] = ["ada", "bea", "cal", "dan", "eve"];

/// Something that a worker did. As one line of JSON, it is what a worker process writes to its standard output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(crate) worker: usize,
    /// Nanoseconds on the machine's clock, which is one for all its processes.
    pub(crate) at: u64,
    pub(crate) what: What,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    /// It is connected, and its lease is so many milliseconds long.
    Ready { ttl_ms: u64 },
    /// It asks for the lock.
    Waits,
    /// It has the lock: told after `acquire` has answered.
    Holds { turn: u32, token: Token, waited_us: u64 },
    /// It is about to give the lock back: told before `release` is called.
    Releases,
    /// It has given everything back.
    Leaves,
    /// It was killed, and is surely dead by this time. The one thing that a worker does not tell itself.
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
