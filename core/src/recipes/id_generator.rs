//! Unique, rising ids.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use super::cell_handle::CellHandle;
use super::count_cell::CountCell;
use super::handles::addressed;
use crate::clock::Moment;
use crate::decide::count::Change;
use crate::error::{Error, ErrorKind, LostReason, Result};

/// How many ids a block has, unless [`with_block`](IdGenerator::with_block) says otherwise.
const BLOCK: u32 = 100;
/// The most ids of a block.
const MAX_BLOCK: u32 = 1_000_000;

/// Unique ids: 1 and above, each given out once by all clients together.
///
/// *Protocol.* A handle reserves a block of ids by adding the block's size to a count on the
/// coordinator, as a [`Counter`](super::Counter) does, and gives them out from memory. Ids rise in
/// one handle and its clones, and a block that is reserved later is higher. Ids of two clients that
/// each have a block are not in the order of time: a block of 1 makes them so.
///
/// *Why no id comes twice.* An add is applied at most once, and its sum is above every sum before. A server
/// that loses data (a Redis that restarts without persistence or fails over) gives ids again. A handle
/// finds that by a block that is not above its last one, and gives none of it out.
/// A block whose add has an unknown outcome is never used. What a client has not given out when it
/// ends is never given out: there are gaps.
///
/// *When the lease is lost*, nothing happens: a block hangs on no lease.
///
/// *Source.* The hi/lo generator of database mappers; Redisson's `RIdGenerator`.
///
/// ```
/// # use latchwork_core::{connect, Config, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let orders = coordinator.id_generator("orders")?;
/// let (first, second) = (orders.next_id().await?, orders.next_id().await?);
/// assert!(first < second);
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct IdGenerator {
    count: CountCell,
    block: u32,
    // The ids that are reserved and not given out.
    reserved: Arc<Mutex<Block>>,
}

#[derive(Default)]
struct Block {
    ids: Range<u64>,
    // The generator is surely there before.
    until: Option<Moment>,
    // The last id that this handle has reserved: a later block of the same generator is above it.
    last: u64,
}

impl Block {
    fn next(&mut self, now: Moment) -> Option<u64> {
        if self.is_over(now) { None } else { self.ids.next() }
    }

    /// Whether the generator may have gone since, and may begin with 1 again.
    fn is_over(&self, now: Moment) -> bool {
        self.until.is_some_and(|until| now >= until)
    }
}

impl IdGenerator {
    pub(crate) fn new(handle: CellHandle) -> Self {
        Self { count: CountCell::new(handle, None), block: BLOCK, reserved: Arc::default() }
    }

    /// Reserves `size` ids at a time from the next block on, 1 to 1,000,000. Validates, no I/O. The
    /// default is 100. Clients may use different sizes.
    ///
    /// # Errors
    /// `InvalidArgument` naming `size`.
    pub fn with_block(mut self, size: u32) -> Result<Self> {
        if !(1..=MAX_BLOCK).contains(&size) {
            let why = format!("must be 1 to {MAX_BLOCK}, not {size}");
            return Err(Error::invalid("size", why).on(self.key()));
        }
        self.block = size;
        Ok(self)
    }

    /// From the next block of this handle on, the generator goes when nobody has used it for `time`:
    /// no earlier, and a quarter later at most, beside the server's own delays. Validates, no I/O.
    ///
    /// *Then ids begin with 1 again, and come twice*, as after a [deletion](Self::delete). So this is
    /// for ids that need to be unique only among those of one time of use: choose a `time` after which
    /// nobody has an old id any more. To make this safe, a handle gives out no id from a block that it
    /// has reserved more than `time` ago. So all ids that were given out before the end were given out
    /// by a generator that still stood, and none of them is given out after it.
    ///
    /// Reserving a block is a use; an id from memory is none. `time` is two TTLs at least, and 366 days
    /// at most. The last block that was reserved decides: one by a handle without this option lets the
    /// generator stay. All its users are to give the same time: a handle without one, or with a longer
    /// one, goes on with its block after an end that another handle's time has brought.
    ///
    /// # Errors
    /// `InvalidArgument` naming `time_to_idle`; `Unsupported` where the backend has no
    /// [`idle_cells`](crate::Capabilities::idle_cells): a lazy client refuses the first write then.
    pub fn with_time_to_idle(mut self, time: Duration) -> Result<Self> {
        self.count.handle.set_time_to_idle(time)?;
        Ok(self)
    }

    /// The next id: from memory, or after one round trip where a block is used up.
    ///
    /// # Errors
    /// As [`Counter::add`](super::Counter::add), and `Conflict` when all ids are used up or the
    /// count was set below zero. Nothing is lost but a block at most: call it again. `Lost` with the reason
    /// `Forgotten` when the new block is not above the last one of this handle: the server has lost data, or another
    /// handle has deleted the count. It fails so until the count has passed that id, so this handle gives out
    /// no id twice. A new handle does not know the ids of before: after a loss of data, use another key.
    ///
    /// # Cancel safety
    /// Cancel-safe: a dropped call gives nothing out, and may lose a block.
    pub async fn next_id(&self) -> Result<u64> {
        let mut reserved = self.reserved.lock().await;
        let now = self.count.handle.client.clock().now();
        if let Some(id) = reserved.next(now) {
            return Ok(id);
        }
        let until = self.count.handle.time_to_idle().map(|idle| now + idle.get());
        let added = self.count.change(Change::Add(i64::from(self.block))).await;
        let above = if reserved.is_over(now) { 0 } else { reserved.last };
        let block =
            added.and_then(|sum| self.block_up_to(sum.expect("an add always changes the count"), above));
        let ids = self.count.handle.in_context("next_id", block)?;
        *reserved = Block { until, last: ids.end - 1, ids };
        Ok(reserved.ids.next().expect("a block has an id"))
    }

    fn block_up_to(&self, last: i64, above: u64) -> Result<Range<u64>> {
        let first = last - i64::from(self.block) + 1;
        match (u64::try_from(first), u64::try_from(last)) {
            (Ok(first @ 1..), Ok(_)) if first <= above => Err(Error::lost(LostReason::Forgotten)),
            (Ok(first @ 1..), Ok(last)) => Ok(first..last + 1),
            _ => Err(Error::new(ErrorKind::Conflict, "something else than a count of ids is stored")),
        }
    }

    /// Deletes the count: ids begin with 1 again, and come twice. Answers whether it was there. One
    /// try. Other handles go on with the blocks that they have, and then fail as `Forgotten` until the count
    /// has passed these.
    ///
    /// # Errors
    /// As [`Counter::delete`](super::Counter::delete).
    ///
    /// # Cancel safety
    /// A dropped deletion may or may not be made.
    pub async fn delete(&self) -> Result<bool> {
        let mut reserved = self.reserved.lock().await;
        *reserved = Block::default();
        self.count.handle.in_context("delete", self.count.delete().await)
    }
}

addressed!(IdGenerator, self => self.count.handle.cell);
