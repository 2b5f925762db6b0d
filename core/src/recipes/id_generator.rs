use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::cell_handle::CellHandle;
use super::count_cell::CountCell;
use super::handles::addressed;
use crate::clock::Moment;
use crate::decide::count::Change;
use crate::desk::Desk;
use crate::error::{Error, ErrorKind, LostReason, Result};

const BLOCK: u32 = 100;
const MAX_BLOCK: u32 = 1_000_000;

/// A generator of unique ids, from 1: all clients together give out each id once.
///
/// *Protocol.* A handle reserves blocks of ids by a [`Counter`](super::Counter), and gives them out from
/// memory. Ids rise in one handle and its clones; ids of two handles are not in the order of time, unless the
/// block size is 1.
///
/// *Why no id is given out twice.* An addition is applied at most once, and a block whose addition has an
/// unknown outcome is not used. There are gaps: a client that ends loses the rest of its block.
///
/// A server that loses data gives out ids again: a Redis without persistence, or after a failover. A handle
/// detects a block that is not above its last block, and uses none of its ids.
///
/// *When the lease is lost*, a block remains valid. *Source.* The hi/lo generator of database mappers;
/// Redisson's `RIdGenerator`.
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
    ids: Arc<Ids>,
}

#[derive(Default)]
struct Ids {
    reserved: Mutex<Block>,
    waiting: Desk<WaitingTask>,
}

/// The place of the answer to a task that waits for an id.
type WaitingTask = oneshot::Sender<Result<u64>>;

#[derive(Default)]
struct Block {
    ids: Range<u64>,
    // The generator exists at least until then.
    until: Option<Moment>,
    // The last id that was reserved: a later block of the same generator is above it.
    last: u64,
    // How often this handle has deleted the generator.
    deletions: u64,
}

impl Block {
    fn next(&mut self, now: Moment) -> Option<u64> {
        if self.is_over(now) { None } else { self.ids.next() }
    }

    /// Whether the server may have deleted the generator since, and may start with 1 again.
    fn is_over(&self, now: Moment) -> bool {
        self.until.is_some_and(|until| now >= until)
    }
}

impl IdGenerator {
    pub(crate) fn new(handle: CellHandle) -> Self {
        Self { count: CountCell::new(handle, None), block: BLOCK, ids: Arc::default() }
    }

    /// Sets the number of ids in a block: 1 to 1,000,000, by default 100. The returned handle shares no block
    /// with earlier clones. Clients may use different sizes. No I/O.
    ///
    /// # Errors
    /// `InvalidArgument` (`size`): the size is out of range.
    pub fn with_block(mut self, size: u32) -> Result<Self> {
        if !(1..=MAX_BLOCK).contains(&size) {
            let why = format!("must be 1 to {MAX_BLOCK}, not {size}");
            return Err(Error::invalid("size", why).on(self.key()));
        }
        (self.block, self.ids) = (size, Arc::default());
        Ok(self)
    }

    /// Lets the server delete the generator when no client has used it for `time`. This applies from the next
    /// block on that the returned handle reserves; it shares no block with earlier clones. The call makes no
    /// request.
    ///
    /// *Then ids start with 1 again, so the same id is given out twice*, as after a [deletion](Self::delete).
    /// Choose a `time` after which no client uses an old id any more. A handle gives out no ids of a block
    /// that it reserved longer than `time` ago, so no handle gives out an id of the deleted generator.
    ///
    /// All clients must give the same time. Otherwise a handle without a time, or with a longer time, still
    /// gives out the ids of its block after the server has deleted the generator. The reservation of a block
    /// is a use; an id from memory is not. The other rules are the same as for
    /// [`SharedValue::with_time_to_idle`](super::SharedValue::with_time_to_idle).
    ///
    /// *Then ids start with 1 again*, as after a [deletion](Self::delete). Choose a `time` after which no
    /// client uses an old id. No handle gives out ids of a block that it reserved longer than `time` ago, so
    /// all clients must give the same time.
    pub fn with_time_to_idle(mut self, time: Duration) -> Result<Self> {
        self.count.handle.set_time_to_idle(time)?;
        self.ids = Arc::default();
        Ok(self)
    }

    /// Returns the next id: from memory, or after one round trip if the block is used up.
    ///
    /// # Errors
    /// At most one block is lost, so the call can be repeated.
    /// * `Conflict`: all ids are used up, or the count was set below zero.
    /// * `Lost` (`Forgotten`): the new block is not above the last block of this handle, because the server
    ///   has lost data, or another handle has deleted the generator. The error ends when the count has passed
    ///   the last id of this handle. A new handle does not know earlier ids: after a loss of data use another
    ///   key.
    /// * The other errors of [`Counter::add`](super::Counter::add).
    ///
    /// # Cancel safety
    /// A dropped call gives out no id, and may lose a block.
    pub async fn next_id(&self) -> Result<u64> {
        let (answer, answered) = oneshot::channel();
        {
            let mut reserved = self.ids.reserved.lock();
            if let Some(id) = reserved.next(self.count.handle.client.clock().now()) {
                return Ok(id);
            }
            self.ids.waiting.leave(answer);
        }
        let reserve = || reserve(self.clone());
        let id = self.ids.waiting.served(&self.count.handle.client.cleanup, answered, reserve).await;
        self.count.handle.in_context("next_id", id)
    }

    /// Deletes the generator, so that ids start with 1 again and are given out twice. Returns whether it
    /// existed. The client does not retry. Other handles use up their blocks, and then fail with `Forgotten`
    /// for a time.
    ///
    /// # Errors
    /// As [`Counter::delete`](super::Counter::delete).
    ///
    /// # Cancel safety
    /// A dropped call may still delete the generator.
    pub async fn delete(&self) -> Result<bool> {
        // Changes that follow are made after the deletion. A block of an earlier change is not used.
        let deleted = self.count.delete();
        {
            let mut reserved = self.ids.reserved.lock();
            *reserved = Block { deletions: reserved.deletions + 1, ..Block::default() };
        }
        self.count.handle.in_context("delete", deleted.await)
    }
}

addressed!(IdGenerator, self => self.count.handle.cell);

impl Ids {
    /// Gives ids from memory to the tasks that wait, and takes out the tasks for which none is left.
    fn next_tasks(&self, now: Moment) -> Vec<WaitingTask> {
        let mut reserved = self.reserved.lock();
        let mut tasks = self.waiting.look(std::mem::take);
        tasks.retain(|task| !task.is_closed());
        while !tasks.is_empty()
            && let Some(id) = reserved.next(now)
            && let Some(task) = tasks.pop_front()
        {
            // A task that was dropped since leaves a gap.
            let _ = task.send(Ok(id));
        }
        tasks.into()
    }
}

/// Reserves blocks until no task waits for an id.
async fn reserve(IdGenerator { count, block, ids }: IdGenerator) {
    let clock = count.handle.client.clock();
    loop {
        let tasks = ids.next_tasks(clock.now());
        if tasks.is_empty() {
            return;
        }
        let deletions = ids.reserved.lock().deletions;
        let size = (tasks.len() as u64).next_multiple_of(u64::from(block));
        let until = count.handle.time_to_idle().map(|idle| clock.now() + idle.get());
        let added = count.change(Change::Add(i64::try_from(size).unwrap_or(i64::MAX))).await;
        let sum = added.map(|sum| sum.expect("an add always changes the count"));
        let mut reserved = ids.reserved.lock();
        let above = if reserved.is_over(clock.now()) { 0 } else { reserved.last };
        match sum.and_then(|sum| block_up_to(sum, size, above)) {
            Ok(mut range) => {
                let last = range.end - 1;
                for (task, id) in tasks.into_iter().zip(&mut range) {
                    let _ = task.send(Ok(id));
                }
                if reserved.deletions == deletions {
                    *reserved = Block { until, last, deletions, ids: range };
                }
            }
            Err(error) => tasks.into_iter().for_each(|task| drop(task.send(Err(error.clone())))),
        }
    }
}

/// Returns the ids of a reservation of `size`, after which the count was `last`.
fn block_up_to(last: i64, size: u64, above: u64) -> Result<Range<u64>> {
    let first = u64::try_from(last).ok().and_then(|last| (last + 1).checked_sub(size));
    match first {
        Some(first @ 1..) if first <= above => Err(Error::lost(LostReason::Forgotten)),
        Some(first @ 1..) => Ok(first..first + size),
        _ => Err(Error::new(ErrorKind::Conflict, "the stored value is not a count of ids: use another key")),
    }
}
