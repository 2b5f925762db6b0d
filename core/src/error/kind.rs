use std::fmt;

use serde::{Deserialize, Serialize};

/// The reason why a hold was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LostReason {
    /// The client could not prove in time that its lease was renewed. Another client may hold the lock.
    Expired,
    /// The entry was removed on the server: by an operator, an eviction or a flush.
    Revoked,
    /// The server lost its data in a restart or a failover. Another client may hold the lock. A waiter joins
    /// again automatically.
    Forgotten,
    /// The fixed end (`max_hold`) was reached. Another client may hold the lock one margin later, or at once
    /// after a release.
    MaxHold,
    /// This process closed the coordinator. Another client may hold the lock one margin later.
    Closed,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LostReason::Expired => "the lease expired",
            LostReason::Revoked => {
                "it was removed (by an operator, an eviction or a flush), or the server lost its data"
            }
            LostReason::Forgotten => "the server lost its data in a restart or a failover",
            LostReason::MaxHold => "its fixed end (max_hold) was reached",
            LostReason::Closed => "the coordinator was closed",
        })
    }
}

/// The kind of an error. Each kind has one remedy.
///
/// *Every call* that needs the server can fail with `Unavailable`, `Forbidden`, `Closed` or `RuntimeGone`,
/// and with `OutcomeUnknown` if it changes something. The `# Errors` of a call names these only if they mean
/// something special.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The named argument is wrong: fix the call.
    InvalidArgument {
        /// The argument's name in the documentation.
        name: &'static str,
    },
    /// The deadline passed while other clients held the lock, and the coordinator answered. The place in the
    /// queue ends with the lease at the latest.
    Timeout,
    /// The hold, or the place in the queue, is lost: stop the guarded work, then acquire again.
    Lost(LostReason),
    /// The hold was already released.
    NotHeld,
    /// The owner holds the read lock, and would wait for itself on the write lock: release the read lock
    /// first.
    Deadlock,
    /// The server stores something different: another limit, or the keys of another program at an exact key.
    Conflict,
    /// This backend lacks a capability.
    Unsupported {
        /// The missing capability.
        capability: &'static str,
    },
    /// The login lacks a permission: give it the permission that the message names.
    Forbidden,
    /// The server gives no valid answer now: try again after a pause. The call changed nothing, unless its
    /// documentation says otherwise.
    Unavailable,
    /// The server may have carried out the request: read the state, and decide.
    OutcomeUnknown,
    /// The configuration of the server or the client is wrong: fix it.
    Misconfigured,
    /// Another kind of server, which the message names, answers at this URL: fix the URL.
    WrongServer,
    /// The coordinator was closed: connect again.
    Closed,
    /// The tokio runtime of the coordinator has ended, and with it the renewal of the lease: connect again,
    /// on a runtime that lives as long as the coordinator.
    RuntimeGone,
    /// A blocking call in async code would block a thread of the tokio runtime: use the async API, or a
    /// thread that may block.
    InAsyncCode,
    /// The process was forked after the first blocking call, and only the parent has the background thread:
    /// fork earlier, or start the program again with `exec`.
    InChildProcess,
}
