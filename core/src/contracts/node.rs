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
/// Core retries a leave, a downgrade and new data, which are harmless to repeat, until the server confirms
/// them or the lease is lost. A leave may overlap another leave (a release at the hold's fixed end) or a
/// downgrade. [`Backend`](super::Backend) has the rules of every request.
#[async_trait]
pub trait Node: fmt::Debug + Send + Sync {
    /// Returns what this client knows of the node.
    fn state(&self) -> &NodeState;

    /// Waits until the node is admitted (NODE-WAIT).
    ///
    /// It reads again after each watch is armed, and re-checks regularly because events can be lost
    /// (NODE-NO-LOST-WAKE). It never returns because of an event that the admission rule does not confirm. It
    /// recovers from transport errors.
    ///
    /// # Errors
    /// * `Lost`: the node is gone, or its lease is lost, as in `NodeState::lost`.
    /// * `Misconfigured`: the admitted sequence does not fit a token.
    /// * `Conflict`: the limit was set below the node's weight during the wait. Core removes the node.
    ///
    /// # Cancel safety
    /// May be dropped and called again. The node stays until it leaves.
    async fn admitted(&self) -> Result<()>;

    /// Removes this one incarnation and nothing newer (NODE-LEAVE-OWN), and wakes the waiters that this
    /// admits. The server reports whether the node existed.
    ///
    /// The renewals of the node end before the request is sent (QUEUE-STOP-RENEWAL-BEFORE-LEAVE). After a
    /// join of unknown outcome (`Join::repeated`), the leave writes a tombstone, as an abandon does.
    async fn leave(&self) -> Result<Leave>;

    /// Turns this admitted exclusive node of a read/write lock into a shared one (CHAIN-DOWNGRADE-IN-PLACE).
    ///
    /// It keeps its place and sequence number, and the readers after it, up to the next writer, are admitted
    /// and woken. A [`leave`](Node::leave) removes the node in either form, and a downgrade that arrives
    /// after it creates nothing.
    ///
    /// # Errors
    /// `Lost`: the node is gone.
    async fn downgrade(&self) -> Result<()>;

    /// Replaces the node's data (NODE-DATA), admitted or not: at most
    /// [`MAX_LABEL_BYTES`](super::MAX_LABEL_BYTES). Notifies the watches of the queue.
    ///
    /// # Errors
    /// `Lost`: the node is gone.
    async fn write_data(&self, data: &Arc<[u8]>) -> Result<()>;

    /// Writes a cell as [`Cells::write_cell`](super::Cells::write_cell), but only while this admitted node
    /// exists in its queue (CELL-HELD). The server decides it in one step with the write.
    ///
    /// # Errors
    /// * As `write_cell`.
    /// * `Lost`: the node is gone; the write was not made.
    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten>;

    /// Waits until `replicas` (not zero) replicas of the server have confirmed this node as admitted
    /// (NODE-CONFIRM).
    ///
    /// Core calls it between the admission and the hold, if
    /// [`confirms_on_replicas`](crate::Capabilities::confirms_on_replicas) is true. It must cover the write
    /// that admitted the node, which another client may have made (QUEUE-CONFIRM-COVERS-ADMISSION). It moves
    /// no deadline. It answers within `within`, and recovers from a broken connection.
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
