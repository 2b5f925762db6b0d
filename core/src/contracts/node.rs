//! One node of this client in a queue.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::cells::{CellWrite, CellWritten};
use super::leave::Leave;
use super::node_state::NodeState;
use crate::address::Address;
use crate::error::Result;

/// A node that a join has made. Its owner must give it back by [`leave`](Node::leave); dropping it
/// does not.
#[async_trait]
pub trait Node: fmt::Debug + Send + Sync {
    /// What this client knows of it.
    fn state(&self) -> &NodeState;

    /// Waits until the node is admitted (NODE-WAIT). Driven by events; it must read again after
    /// each watch is armed, and check again by itself in case the server or the network drops the
    /// event (NODE-NO-LOST-WAKE). Returns at once if the node is admitted already, and never
    /// because of an event that the admission rule does not confirm. Transport errors are healed
    /// inside (reconnect, list again, arm again).
    ///
    /// # Errors
    /// `Lost` when the node is gone or its lease is lost (`NodeState::lost` says the same);
    /// `Misconfigured` when the admitted sequence does not fit a token; `Conflict` when the limit
    /// was set below its weight meanwhile, so that it cannot be admitted any more (core takes the
    /// node back).
    ///
    /// # Cancel safety
    /// Cancel-safe: may be dropped and called again. The node stays until it leaves.
    async fn admitted(&self) -> Result<()>;

    /// Removes this one incarnation and nothing newer (NODE-LEAVE-OWN), and wakes the waiters that
    /// this admits. One try, bounded by the request timeout; core retries a failure until it is
    /// confirmed or the lease is lost. The server says whether the node was there, and the release
    /// answers that.
    ///
    /// The node must leave renewal before the request is sent (QUEUE-STOP-RENEWAL-BEFORE-LEAVE). If
    /// a request of its join had an unknown outcome (`Join::repeated`), the leave writes a
    /// tombstone, as an abandon does: the lost request may still arrive, and would make a ghost
    /// after the leave (QUEUE-TOMBSTONE-FOR-UNKNOWN-JOIN, CHAIN-TOMBSTONE-FOR-UNKNOWN-JOIN).
    ///
    /// Another leave may come while one is under way (a release at the hold's fixed end), and has
    /// its own answer.
    ///
    /// # Errors
    /// `Unavailable` when the request was surely not carried out; `OutcomeUnknown` when its reply was
    /// lost.
    ///
    /// # Cancel safety
    /// A dropped leave may or may not have been carried out; leaving again is harmless.
    async fn leave(&self) -> Result<Leave>;

    /// Turns this exclusive node of a read/write lock, which is admitted, into a shared one
    /// (CHAIN-DOWNGRADE-IN-PLACE). It keeps its place and sequence number, and the readers up to
    /// the next writer behind it are admitted and woken. One try, bounded by the request timeout;
    /// harmless to repeat, also after it was carried out. Core retries a failure until it is
    /// confirmed or the lease is lost.
    ///
    /// A [`leave`](Node::leave) may come while one is under way, or after one with an unknown
    /// outcome: it removes the node in either form, and a downgrade that lands later must make
    /// nothing. Another downgrade may come too: the node changes once.
    ///
    /// # Errors
    /// `Unavailable` or `OutcomeUnknown` when the request or its reply was lost; `Lost` when the node is
    /// gone.
    ///
    /// # Cancel safety
    /// A dropped downgrade may or may not have been carried out; downgrading again is harmless.
    async fn downgrade(&self) -> Result<()>;

    /// Replaces the node's data (NODE-DATA): at most [`MAX_LABEL_BYTES`](super::MAX_LABEL_BYTES). One
    /// try, bounded by the request timeout; harmless to repeat. It changes neither place, sequence
    /// number nor admission, and who watches the queue is told. Waiting nodes have data too.
    ///
    /// # Errors
    /// `Unavailable` when it was surely not made; `OutcomeUnknown` when it may have been, or may be later,
    /// as long as the node stands; `Lost` when the node is gone.
    ///
    /// # Cancel safety
    /// A dropped write has an unknown outcome.
    async fn write_data(&self, data: &Arc<[u8]>) -> Result<()>;

    /// As [`Cells::write_cell`](super::Cells::write_cell), made only while this node stands in its
    /// queue (CELL-HELD). The server decides that in one step with the write: a write that comes
    /// late, after another client was admitted, is not made. For admitted nodes.
    ///
    /// # Errors
    /// As `write_cell`; `Lost` when the node is gone: the write was not made.
    ///
    /// # Cancel safety
    /// A dropped write has an unknown outcome.
    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten>;

    /// Waits until this many replicas of the server have confirmed this node, as admitted
    /// (NODE-CONFIRM); never zero. Core calls it between the admission and the hold, and only where
    /// [`confirms_on_replicas`](crate::Capabilities::confirms_on_replicas) is true. The confirmation
    /// must cover the write that admitted the node, which another client may have made
    /// (QUEUE-CONFIRM-COVERS-ADMISSION), and it moves no deadline of its own. Renewals go on
    /// meanwhile. Answers within `within`; a broken connection is healed inside that time.
    ///
    /// # Errors
    /// `Unavailable` when fewer have confirmed it in time (the error says how many), or when that is
    /// not known; `Lost` when the node is gone; `Forbidden`;
    /// [`Unsupported`](crate::support::no_replicas) where there are no replicas to ask. Core gives
    /// the node back after each of them.
    ///
    /// # Cancel safety
    /// Cancel-safe: leaves nothing to take back.
    async fn confirm(&self, replicas: u32, within: Duration) -> Result<()>;
}
