//! Barriers that members pass together.

use super::cell_handle::CellHandle;
use super::gate::Gate;
use super::guards::Inside;
use super::handles::addressed;
use super::hold::Hold;
use super::queue_handle::QueueHandle;
use crate::decide::Claim;
use crate::error::Result;

/// A barrier that as many members pass together as it has parties, and then the next as many.
///
/// *Protocol.* Members stand in a queue that admits everybody. Whoever sees enough of them there
/// writes into a cell up to which place they pass, and all of them watch that cell.
/// [`decide::barrier`](crate::decide::barrier) has the whole, and why it is safe.
///
/// *Members are alive.* A member that dies before the others are enough is counted no more once
/// its lease has ended, so that the rest pass with another one. A member that dies just when it
/// was counted has passed: the others do not wait for it.
///
/// *When the lease is lost* while it waits, a member joins again by itself, behind the others.
///
/// *Source.* ZooKeeper's double barrier, in its first half; Java's `CyclicBarrier`.
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

    /// Waits until as many wait as the barrier has parties, this one among them. It waits through
    /// outages; bound it by `tokio::time::timeout`.
    ///
    /// # Errors
    /// `Unavailable` when the server does not answer at first; `Lost` when another client removed
    /// its place (`Revoked`), or with the reason `Forgotten` when the server is without its data;
    /// `Conflict`; `Forbidden`; `Misconfigured`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Cancel-safe: a dropped wait is counted no more, unless it has passed already.
    pub async fn wait(&self) -> Result<()> {
        let passed = self.0.pass("wait").await;
        // Its place is given back in the background.
        self.0.cell.in_context("wait", passed.map(drop))
    }
}

addressed!(Barrier, self => self.0.handle.queue);

/// A barrier that members enter together and leave together: what one does in between, it does
/// beside all the others.
///
/// *Protocol.* As [`Barrier`]. Who leaves gives its place back, and waits until the places of all
/// who entered with it are gone. The next ones enter when all have left.
///
/// *Members are alive.* One that dies inside is waited for until its lease has ended, and no
/// longer.
///
/// *When the lease is lost* inside, [`lost`](Hold::lost) becomes ready: the others may leave, and
/// the next ones enter.
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

    /// Waits until as many wait as the barrier has parties, and those who entered before have left.
    ///
    /// # Errors
    /// As [`Barrier::wait`].
    ///
    /// # Cancel safety
    /// Cancel-safe: as [`Barrier::wait`].
    pub async fn enter(&self) -> Result<Inside> {
        let clock = self.0.cell.client.clock();
        let begun = clock.now();
        let place = self.0.cell.in_context("enter", self.0.pass("enter").await)?;
        Ok(Inside(Hold::of_composite(place, Claim::Shared, clock.now().since(begun))))
    }
}

addressed!(DoubleBarrier, self => self.0.handle.queue);

impl Inside {
    /// Leaves, and waits until all who entered with it have left or died. It waits through outages;
    /// bound it by `tokio::time::timeout`.
    ///
    /// # Errors
    /// `Unavailable` when the server does not answer at first; `OutcomeUnknown` when it is not known
    /// whether it has left; others as [`Barrier::wait`]. It is out after any error, as soon as the
    /// server can be reached.
    ///
    /// # Cancel safety
    /// A dropped call leaves in the background, and does not wait for the others.
    pub async fn leave(self) -> Result<()> {
        self.0.composite().leave().await
    }
}
