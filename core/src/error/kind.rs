//! The kinds of errors, and why a hold was lost.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a hold was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LostReason {
    /// The lease was not renewed in time, or that could not be proven: another client may hold now.
    Expired,
    /// Somebody else removed it: an operator, an eviction, a flush.
    Revoked,
    /// The server no longer knows it: it was restarted without its data, or a failover went to one
    /// without it. Another client may hold now. A waiter joins again by itself.
    Forgotten,
    /// The fixed end (`max_hold`) was reached. Another client may hold one margin later, or at once
    /// after a release.
    MaxHold,
    /// This process closed the coordinator. Another client may hold one margin later.
    Closed,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LostReason::Expired => "the lease expired",
            LostReason::Revoked => {
                "it was removed by another (operator, eviction or flush), or the server has forgotten it"
            }
            LostReason::Forgotten => {
                "the server has forgotten it: it was restarted without its data, or replaced"
            }
            LostReason::MaxHold => "its fixed end was reached",
            LostReason::Closed => "the coordinator was closed",
        })
    }
}

/// The kind of an error, which says what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Fix the call: the named argument is wrong.
    InvalidArgument {
        /// The argument's name in the documentation.
        name: &'static str,
    },
    /// The deadline passed while others held: the coordinator has answered within its period. (If
    /// it has not, the error is `Unavailable`.) Nothing stays on the server beyond the lease.
    Timeout,
    /// The hold, or the place in the queue, is lost: stop the guarded work, then acquire anew.
    Lost(LostReason),
    /// The hold was released before.
    NotHeld,
    /// Fix the call: the owner reads and asks to write, and would wait for itself. Release first,
    /// then write.
    Deadlock,
    /// Somebody else has set something different: another limit, or a foreign layout at an exact
    /// address.
    Conflict,
    /// This backend cannot do it.
    Unsupported {
        /// The missing capability.
        capability: &'static str,
    },
    /// Fix the permissions on the server: the message says which one is missing.
    Forbidden,
    /// The server cannot be reached now: retry.
    Unavailable,
    /// The request may or may not have been carried out: it is not retryable. Read, and decide.
    OutcomeUnknown,
    /// Fix the server's or the client's configuration.
    Misconfigured,
    /// Another kind of server answers at this URL: the message says which one.
    WrongServer,
    /// The coordinator was closed.
    Closed,
    /// The coordinator's runtime has ended, and with it the tasks that renew its lease and clean
    /// up. Final: connect again, on a runtime that lives as long as the coordinator.
    RuntimeGone,
    /// Fix the call: a blocking call was made in async code of a tokio runtime, whose thread it
    /// would stop. Use the async API there, or make the call on a thread that may block.
    InAsyncCode,
    /// A blocking call in a process that was forked after the first blocking call: only the parent
    /// has the background thread. Fork before the first use, or start the program again by `exec`.
    InChildProcess,
}
