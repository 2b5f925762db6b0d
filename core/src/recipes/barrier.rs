//! Barriers that members pass together.

use super::cell_handle::CellHandle;
use super::gate_looks::Gate;
use super::guards::Inside;
use super::handles::addressed;
use super::hold::Hold;
use super::queue_handle::QueueHandle;
use crate::decide::Claim;
use crate::error::Result;

/// A barrier for `parties` members: each member waits until that number of members wait, and then all of
/// them pass. The next round starts with the next member.
///
/// *Protocol.* Members join a queue that admits every node. The first member writes a cell with the number of
/// parties. A member that sees enough members in the queue writes there up to which place they pass. All members
/// watch this cell.
/// [`decide::barrier`](crate::decide::barrier) has the whole protocol and why it is safe.
///
/// *Only live members count.* A member that dies before enough members wait does not count any more when
/// its lease has ended, and another member takes its place. A member that dies after it was counted has
/// passed: the others do not wait for it.
///
/// *When the lease is lost* during the wait, the member joins again automatically at the end of the queue, and
/// counts once. If the others have passed with it, it passes too.
///
/// *Source.* The first half of ZooKeeper's double barrier; Java's `CyclicBarrier`.
///
/// ```
/// # use latchwork_core::{connect, Config, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let barrier = coordinator.barrier("round", 2)?;
/// let (one, two) = tokio::join!(barrier.wait(), barrier.wait()); // neither goes on alone
/// one?;
/// two?;
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Barrier(Gate);

impl Barrier {
    pub(crate) fn new(handle: QueueHandle, cell: CellHandle, parties: u32) -> Result<Self> {
        Gate::new(handle, cell, parties, false).map(Self)
    }

    /// Waits until `parties` members wait, including this one. It also waits during an outage: bound it by
    /// `tokio::time::timeout`.
    ///
    /// # Errors
    /// * `Unavailable`: the server does not answer at the start of the wait.
    /// * `Lost`: another client removed the member's place (`Revoked`), or the server lost its data
    ///   (`Forgotten`).
    /// * `Conflict`: other members use another number of parties, or the cell of the barrier contains something
    ///   other than a barrier.
    /// * `Forbidden`, `Misconfigured`, `Closed`, `RuntimeGone`: see [`ErrorKind`](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// A dropped wait does not count any more, unless it has passed already.
    pub async fn wait(&self) -> Result<()> {
        let passed = self.0.pass("wait").await;
        // Its place is given back in the background.
        self.0.cell.in_context("wait", passed.map(drop))
    }
}

addressed!(Barrier, self => self.0.handle.queue);

/// A barrier that `parties` members enter together and leave together. All of them are inside at the same
/// time.
///
/// *Protocol.* As [`Barrier`]. A member that leaves gives its place back, and waits until all members that
/// entered with it have given their places back. Then the next members enter.
///
/// *A member that dies inside* blocks the others until its lease has ended.
///
/// *When the lease is lost* inside, [`lost`](Hold::lost) becomes ready. The other members may leave, and
/// the next members may enter.
///
/// *Source.* ZooKeeper's double barrier; Curator's `DistributedDoubleBarrier`.
///
/// ```
/// # use latchwork_core::{connect, Config, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let batch = coordinator.double_barrier("batch", 2)?;
/// let work = async || {
///     let inside = batch.enter().await?; // both are here
///     inside.leave().await               // both are done
/// };
/// let (one, two) = tokio::join!(work(), work());
/// one?;
/// two?;
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct DoubleBarrier(Gate);

impl DoubleBarrier {
    pub(crate) fn new(handle: QueueHandle, cell: CellHandle, parties: u32) -> Result<Self> {
        Gate::new(handle, cell, parties, true).map(Self)
    }

    /// Enters the barrier: waits until `parties` members wait and all members of the previous round have left.
    ///
    /// # Errors
    /// As [`Barrier::wait`].
    ///
    /// # Cancel safety
    /// As [`Barrier::wait`].
    pub async fn enter(&self) -> Result<Inside> {
        let clock = self.0.cell.client.clock();
        let begun = clock.now();
        let place = self.0.cell.in_context("enter", self.0.pass("enter").await)?;
        Ok(Inside(Hold::of_composite(place, Claim::Shared, clock.now().since(begun))))
    }
}

addressed!(DoubleBarrier, self => self.0.handle.queue);

impl Inside {
    /// Leaves, and waits until all members that entered with this one have left or died. It also waits during
    /// an outage: bound it by `tokio::time::timeout`.
    ///
    /// # Errors
    /// After each error, the member leaves as soon as the server can be reached.
    /// * `Unavailable`: the server does not answer at the start of the wait, or has refused to write for one TTL, for
    ///   example because its memory is full.
    /// * `OutcomeUnknown`: the server did not confirm that the member left.
    /// * The other errors of [`Barrier::wait`].
    ///
    /// # Cancel safety
    /// A dropped call leaves in the background, and does not wait for the other members.
    pub async fn leave(self) -> Result<()> {
        self.0.composite().leave().await
    }
}
