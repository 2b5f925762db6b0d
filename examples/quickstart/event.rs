use latchwork::{Clock, Moment, Token};
use serde::{Deserialize, Serialize};

pub(crate) const WORKERS: [&str; 5] = ["ada", "bea", "cal", "dan", "eve"];

/// A worker process writes it to its standard output as one line of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(crate) worker: usize,
    /// Nanoseconds on the clock that all processes share.
    pub(crate) at: u64,
    pub(crate) what: What,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    Ready {
        ttl_ms: u64,
    },
    Waits,
    /// Sent after `acquire` has returned.
    Holds {
        turn: u32,
        token: Token,
        waited_us: u64,
    },
    /// Sent before `release` is called.
    Releases,
    Leaves,
    Killed,
    Fails {
        error: String,
    },
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
