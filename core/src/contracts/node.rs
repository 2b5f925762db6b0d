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

/// A node that a join has made. Its owner must remove it by [`leave`](Node::leave); dropping it does not
/// remove it.
#[async_trait]
pub trait Node: fmt::Debug + Send + Sync {
    /// Returns what this client knows of the node.
    fn state(&self) -> &NodeState;

    /// Waits until the node is admitted (NODE-WAIT).
    ///
    /// It is driven by events. It must read again after each watch is armed, and re-check regularly in case
    /// the server or the network drops an event (NODE-NO-LOST-WAKE). It returns at once if the node is
    /// admitted already, and never because of an event that the admission rule does not confirm. It recovers
    /// from transport errors inside (reconnect, list again, arm again).
    ///
    /// # Errors
    /// * `Lost`: the node is gone, or its lease is lost (`NodeState::lost` says the same).
    /// * `Misconfigured`: the admitted sequence does not fit a token.
    /// * `Conflict`: the limit was set below the node's weight during the wait, so that it can never be
    ///   admitted. Core removes the node.
    ///
    /// # Cancel safety
    /// Cancel-safe: may be dropped and called again. The node stays until it leaves.
    async fn admitted(&self) -> Result<()>;

    /// Removes this one incarnation and nothing newer (NODE-LEAVE-OWN), and wakes the waiters that the
    /// removal admits.
    ///
    /// One try, bounded by the request timeout; core retries a failure until it is confirmed or the lease is
    /// lost. The server reports whether the node was there, and the release returns it.
    ///
    /// The node must leave renewal before the request is sent (QUEUE-STOP-RENEWAL-BEFORE-LEAVE). If a request
    /// of its join had an unknown outcome (`Join::repeated`), the leave writes a tombstone, as an abandon
    /// does: the lost request may still arrive, and would make a ghost after the leave
    /// (QUEUE-TOMBSTONE-FOR-UNKNOWN-JOIN, CHAIN-TOMBSTONE-FOR-UNKNOWN-JOIN).
    ///
    /// A second leave may come while one is under way (a release at the hold's fixed end), and has a separate
    /// answer.
    ///
    /// # Errors
    /// * `Unavailable`: the request was surely not carried out.
    /// * `OutcomeUnknown`: its reply was lost.
    ///
    /// # Cancel safety
    /// A dropped leave may or may not have been carried out; leaving again is harmless.
    async fn leave(&self) -> Result<Leave>;

    /// Turns this admitted exclusive node of a read/write lock into a shared one (CHAIN-DOWNGRADE-IN-PLACE).
    ///
    /// It keeps its place and sequence number, and the readers after it, up to the next writer, are admitted
    /// and woken. One try, bounded by the request timeout; harmless to repeat, also after it was carried out.
    /// Core retries a failure until it is confirmed or the lease is lost.
    ///
    /// A [`leave`](Node::leave) may come while a downgrade is under way, or after one with an unknown
    /// outcome: it removes the node in either form, and a downgrade that arrives later must create nothing. A
    /// second downgrade may come too: the node changes once.
    ///
    /// # Errors
    /// * `Unavailable`, `OutcomeUnknown`: the request or its reply was lost.
    /// * `Lost`: the node is gone.
    ///
    /// # Cancel safety
    /// A dropped downgrade may or may not have been carried out; downgrading again is harmless.
    async fn downgrade(&self) -> Result<()>;

    /// Replaces the node's data (NODE-DATA): at most [`MAX_LABEL_BYTES`](super::MAX_LABEL_BYTES).
    ///
    /// One try, bounded by the request timeout; harmless to repeat. It changes neither place, sequence number
    /// nor admission, and notifies the watches of the queue. Waiting nodes have data too.
    ///
    /// # Errors
    /// * `Unavailable`: the write was surely not made.
    /// * `OutcomeUnknown`: it may have been made, or may be made later, as long as the node exists.
    /// * `Lost`: the node is gone.
    ///
    /// # Cancel safety
    /// A dropped write has an unknown outcome.
    async fn write_data(&self, data: &Arc<[u8]>) -> Result<()>;

    /// Writes a cell as [`Cells::write_cell`](super::Cells::write_cell), but only while this node exists in
    /// its queue (CELL-HELD).
    ///
    /// The server decides it in one step with the write: a late write, after another client was admitted, is
    /// not made. For admitted nodes.
    ///
    /// # Errors
    /// * As `write_cell`.
    /// * `Lost`: the node is gone; the write was not made.
    ///
    /// # Cancel safety
    /// A dropped write has an unknown outcome.
    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten>;

    /// Waits until this many replicas of the server have confirmed this node, as admitted (NODE-CONFIRM);
    /// never zero.
    ///
    /// Core calls it between the admission and the hold, and only if
    /// [`confirms_on_replicas`](crate::Capabilities::confirms_on_replicas) is true. The confirmation must
    /// cover the write that admitted the node, which another client may have made
    /// (QUEUE-CONFIRM-COVERS-ADMISSION). It moves no deadline, and renewals continue during it. It answers
    /// within `within`, and recovers from a broken connection within that time.
    ///
    /// # Errors
    /// * `Unavailable`: fewer replicas have confirmed it in time (the error says how many), or their number
    ///   is unknown.
    /// * `Lost`: the node is gone.
    /// * `Forbidden`.
    /// * [`Unsupported`](crate::support::no_replicas): the server has no replicas.
    ///
    /// Core releases the node after each of them.
    ///
    /// # Cancel safety
    /// Cancel-safe: leaves nothing to undo.
    async fn confirm(&self, replicas: u32, within: Duration) -> Result<()>;
}
