use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::cells::{CellWrite, CellWritten};
use super::leave::Leave;
use super::node_state::NodeState;
use crate::address::Address;
use crate::error::Result;

/// A node that a join has made. Only [`leave`](Node::leave) removes it, not a drop.
///
/// Except for [`admitted`](Node::admitted), a method is one try, bounded by the request timeout, and core
/// retries a failure until it is confirmed or the lease is lost. A dropped call may or may not have been
/// carried out. Calls may overlap: a leave may come during another leave (a release at the hold's fixed end)
/// or a downgrade.
#[async_trait]
pub trait Node: fmt::Debug + Send + Sync {
    /// Returns what this client knows of the node.
    fn state(&self) -> &NodeState;

    /// Waits until the node is admitted (NODE-WAIT).
    ///
    /// It must read again after each watch is armed, and re-check regularly in case the server or the network
    /// drops an event (NODE-NO-LOST-WAKE). It never returns because of an event that the admission rule does
    /// not confirm. It recovers from transport errors inside.
    ///
    /// # Errors
    /// * `Lost`: the node is gone, or its lease is lost (`NodeState::lost` says the same).
    /// * `Misconfigured`: the admitted sequence does not fit a token.
    /// * `Conflict`: the limit was set below the node's weight during the wait. Core removes the node.
    ///
    /// # Cancel safety
    /// May be dropped and called again. The node stays until it leaves.
    async fn admitted(&self) -> Result<()>;

    /// Removes this one incarnation and nothing newer (NODE-LEAVE-OWN), and wakes the waiters that the
    /// removal admits. The server reports whether the node was there.
    ///
    /// The node must leave renewal before the request is sent (QUEUE-STOP-RENEWAL-BEFORE-LEAVE). After a join
    /// of unknown outcome (`Join::repeated`), the leave writes a tombstone, as an abandon does
    /// (QUEUE-TOMBSTONE-FOR-UNKNOWN-JOIN, CHAIN-TOMBSTONE-FOR-UNKNOWN-JOIN).
    ///
    /// # Errors
    /// * `Unavailable`: the request was surely not carried out.
    /// * `OutcomeUnknown`: its reply was lost. Leaving again is harmless.
    async fn leave(&self) -> Result<Leave>;

    /// Turns this admitted exclusive node of a read/write lock into a shared one (CHAIN-DOWNGRADE-IN-PLACE).
    ///
    /// It keeps its place and sequence number, and the readers after it, up to the next writer, are admitted
    /// and woken. Harmless to repeat, also after it was carried out. A [`leave`](Node::leave) removes the
    /// node in either form, and a downgrade that arrives after it must create nothing.
    ///
    /// # Errors
    /// * `Unavailable`, `OutcomeUnknown`: the request or its reply was lost.
    /// * `Lost`: the node is gone.
    async fn downgrade(&self) -> Result<()>;

    /// Replaces the node's data (NODE-DATA), admitted or not: at most
    /// [`MAX_LABEL_BYTES`](super::MAX_LABEL_BYTES).
    ///
    /// Harmless to repeat. It changes neither place, sequence number nor admission, and notifies the watches
    /// of the queue.
    ///
    /// # Errors
    /// * `Unavailable`: the write was surely not made.
    /// * `OutcomeUnknown`: it may have been made, or may be made later, as long as the node exists.
    /// * `Lost`: the node is gone.
    async fn write_data(&self, data: &Arc<[u8]>) -> Result<()>;

    /// Writes a cell as [`Cells::write_cell`](super::Cells::write_cell), but only while this admitted node
    /// exists in its queue (CELL-HELD).
    ///
    /// The server decides it in one step with the write.
    ///
    /// # Errors
    /// * As `write_cell`.
    /// * `Lost`: the node is gone; the write was not made.
    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten>;

    /// Waits until this many replicas of the server have confirmed this node, as admitted (NODE-CONFIRM);
    /// never zero.
    ///
    /// Core calls it between the admission and the hold, if
    /// [`confirms_on_replicas`](crate::Capabilities::confirms_on_replicas) is true. The confirmation must
    /// cover the write that admitted the node, which another client may have made
    /// (QUEUE-CONFIRM-COVERS-ADMISSION). It moves no deadline. It answers within `within`, and recovers from
    /// a broken connection within that time.
    ///
    /// # Errors
    /// Core releases the node after each of them.
    /// * `Unavailable`: fewer replicas have confirmed it in time (the error says how many), or their number
    ///   is unknown.
    /// * `Lost`: the node is gone.
    /// * `Forbidden`.
    /// * [`Unsupported`](crate::support::no_replicas): the server has no replicas.
    ///
    /// # Cancel safety
    /// Leaves nothing to undo.
    async fn confirm(&self, replicas: u32, within: Duration) -> Result<()>;
}
