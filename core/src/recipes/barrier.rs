use super::cell_handle::CellHandle;
use super::gate_looks::Gate;
use super::guards::Inside;
use super::handles::addressed;
use super::hold::Hold;
use super::queue_handle::QueueHandle;
use crate::decide::Claim;
use crate::error::Result;

/// A barrier for `parties` members: each member waits until that number of members wait, and then all pass.
/// The next member starts the next round.
///
/// *Protocol* ([`decide::barrier`](crate::decide::barrier)). Members join a queue that admits every node. A
/// member that sees enough members stores the place up to which they pass in a cell, which all members watch.
///
/// *Only live members count.* A member that dies while it waits counts until its lease ends. A member that
/// dies after it was counted has passed.
///
/// *When the lease is lost* during the wait, the member joins again automatically at the end of the queue, or
/// passes if the others have passed with it.
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

    /// Waits until `parties` members wait, including this one, also during an outage: bound it by
    /// `tokio::time::timeout`.
    ///
    /// # Errors
    /// * `Unavailable`: the server does not answer at the start of the wait.
    /// * `Lost`: another client removed the member's place, or the server lost its data.
    /// * `Conflict`: other members use another number of parties, or the cell is not a barrier.
    /// * `Misconfigured`, and the errors of [every call](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// A dropped wait does not count any more, unless it has passed already.
    pub async fn wait(&self) -> Result<()> {
        let passed = self.0.pass("wait").await;
        self.0.cell.in_context("wait", passed.map(drop))
    }
}

addressed!(Barrier, self => self.0.handle.queue);

/// A barrier that `parties` members enter together and leave together.
///
/// *Protocol.* As [`Barrier`]. A member that leaves waits until all members that entered with it have left.
/// Then the next members enter.
///
/// *A member that dies inside* blocks the others until its lease ends. *When the lease is lost* inside,
/// [`lost`](Hold::lost) becomes ready, and the others may leave.
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
    /// Leaves, and waits until all members that entered with this one have left or died, also during an
    /// outage: bound it by `tokio::time::timeout`.
    ///
    /// # Errors
    /// After each error, the member leaves as soon as the server can be reached.
    /// * `Unavailable`: the server does not answer at the start, or has refused to write for one TTL, for
    ///   example because its memory is full.
    /// * `OutcomeUnknown`: the server did not confirm that the member left.
    /// * The other errors of [`Barrier::wait`].
    ///
    /// # Cancel safety
    /// A dropped call leaves in the background, without waiting for the others.
    pub async fn leave(self) -> Result<()> {
        self.0.composite().leave().await
    }
}
