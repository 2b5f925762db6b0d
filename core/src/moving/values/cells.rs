//! The cells of values, as a participant uses them.

use std::sync::Arc;
use std::time::Duration;

use super::sided::Sided;
use super::usage::{Asking, Usage};
use super::versions::{answered, inward, shown};
use super::watch::SidedWatch;
use crate::address::{Address, QueuePrefix};
use crate::clock::{Clock, Moment};
use crate::contracts::{
    CellLife, CellWrite, CellWritten, ChangeWatch, Expected, KeysWith, ListedKey, Node, TimeToIdle,
    VersionedValue,
};
use crate::decide::count::Count;
use crate::decide::count::request::{CountRequest, Decided};
use crate::decide::moving::Side;
use crate::error::{Error, ErrorKind, Result};
use crate::listing::Page;

/// A hold over both sides, as values are written under it.
pub(crate) trait HeldOnSides {
    /// Its node on a side, if it has one there.
    fn on(&self, side: Side) -> Option<Arc<dyn Node>>;

    /// Waits until it has a node on a side.
    ///
    /// # Errors
    /// `Lost` when it is over before.
    fn until_on(&self, side: Side) -> impl Future<Output = Result<()>> + Send;
}

/// Values over both sides: as [`Cells`](crate::contracts::Cells), with its clauses. A request waits for
/// the request timeout while values are copied, and is `Unavailable` then.
#[derive(Debug)]
pub(crate) struct MovingCells {
    sides: Arc<Sided>,
    usage: Arc<Usage>,
    clock: Clock,
    request_timeout: Duration,
}

impl MovingCells {
    pub(crate) fn new(sides: Sided, usage: &Arc<Usage>, clock: Clock, request_timeout: Duration) -> Self {
        Self { sides: Arc::new(sides), usage: Arc::clone(usage), clock, request_timeout }
    }

    fn until(&self) -> Moment {
        self.clock.now() + self.request_timeout
    }

    /// Begins a request that waits while values are copied.
    ///
    /// # Errors
    /// `Unavailable` after the request timeout; `Closed`.
    pub(crate) async fn asking(&self) -> Result<Asking> {
        self.begin(self.until()).await
    }

    async fn begin(&self, until: Moment) -> Result<Asking> {
        tokio::select! {
            biased;
            asking = self.usage.begin() => asking,
            () = self.clock.sleep_until(until) => Err(Error::new(
                ErrorKind::Unavailable,
                "the values of this namespace are being moved, or this client is no member of the move: if no operator \
                 is at it, one must go on with it (`latchwork migrate run`, Move::run) or take it back (`abort`)",
            )),
        }
    }

    /// Reads a cell; reads it again if the membership was lost during the read.
    pub(crate) async fn read_cell(&self, cell: &Address) -> Result<Option<VersionedValue>> {
        let until = self.until();
        loop {
            let asking = self.begin(until).await?;
            let read = self.read(&asking, cell).await?;
            if asking.counts() {
                return shown(asking.epoch(), read);
            }
        }
    }

    async fn read(&self, asking: &Asking, cell: &Address) -> Result<Option<VersionedValue>> {
        let side = asking.side();
        self.sides.backend(side).read_cell(&self.sides.address(side, cell)?).await
    }

    /// Writes or deletes a cell. A version of the other side, or of an earlier time on this one, is
    /// refused: the cell has been written again since.
    pub(crate) async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        refuse_leased(write)?;
        let asking = self.begin(self.until()).await?;
        self.write_expecting(asking, None, cell, write).await
    }

    /// Writes as [`write_cell`](Self::write_cell), while a hold exists (CELL-HELD): under its node on the side
    /// where values are used (MIGRATE-VALUES-HOLD-SHARED). If it has no node there yet, the write waits for that
    /// without being counted: the stage by which the hold takes the node must not wait for this write.
    pub(crate) async fn write_held(
        &self,
        hold: &impl HeldOnSides,
        cell: &Address,
        write: &CellWrite,
    ) -> Result<CellWritten> {
        refuse_leased(write)?;
        let (until, mut news) = (self.until(), self.usage.known());
        loop {
            news.borrow_and_update();
            let asking = self.begin(until).await?;
            let side = asking.side();
            if let Some(node) = hold.on(side) {
                return self.write_expecting(asking, Some(&*node), cell, write).await;
            }
            drop(asking);
            tokio::select! {
                biased;
                has = hold.until_on(side) => has?,
                changed = news.changed() => changed.map_err(|_| Error::closed())?,
                () = self.clock.sleep_until(until) => return Err(Error::new(
                    ErrorKind::Unavailable,
                    "the hold has not yet joined the side of the move that has the values: try again",
                )),
            }
        }
    }

    /// Writes under an expected version of either side.
    async fn write_expecting(
        &self,
        asking: Asking,
        by: Option<&dyn Node>,
        cell: &Address,
        write: &CellWrite,
    ) -> Result<CellWritten> {
        let expected = match write.expected {
            Expected::Version(version) => match inward(asking.epoch(), version) {
                Some(version) => Expected::Version(version),
                None => {
                    drop(asking);
                    return Ok(CellWritten::Refused(self.read_cell(cell).await?));
                }
            },
            expected => expected,
        };
        let written = self.write(&asking, by, cell, &CellWrite { expected, ..write.clone() }).await?;
        answered(asking.epoch(), written)
    }

    /// Writes on the side of the request, under a node there if one is given. An answer that does not count
    /// becomes an unknown outcome.
    async fn write(
        &self,
        asking: &Asking,
        by: Option<&dyn Node>,
        cell: &Address,
        write: &CellWrite,
    ) -> Result<CellWritten> {
        let side = asking.side();
        let there = self.sides.address(side, cell)?;
        let written = match by {
            Some(node) => node.write_cell(&there, write).await?,
            None => self.sides.backend(side).write_cell(&there, write).await?,
        };
        if asking.counts() { Ok(written) } else { Err(outlived()) }
    }

    /// Changes a count. If the side's server cannot change a count in one step, this reads it and writes it under
    /// the version that was read: the caller may not know the side.
    pub(crate) async fn change_count(
        &self,
        cell: &Address,
        request: &CountRequest,
        idle: Option<TimeToIdle>,
    ) -> Result<Decided> {
        let until = self.until();
        let asking = self.begin(until).await?;
        let side = asking.side();
        let there = self.sides.address(side, cell)?;
        if let Some(decided) = self.sides.backend(side).change_count(&there, request, idle).await? {
            return if asking.counts() { Ok(decided) } else { Err(outlived()) };
        }
        let life = idle.map_or(CellLife::Stays, CellLife::Idle);
        let mut found = self.read(&asking, cell).await?;
        loop {
            let count = Count::in_cell(found.as_ref().map(|cell| &*cell.value), request.initial)?;
            let (decided, next) = count.decide(request);
            let Some(next) = next else {
                return if asking.counts() { Ok(decided) } else { Err(outlived()) };
            };
            let expected = found.map_or(Expected::Absent, |cell| Expected::Version(cell.version));
            let value = Some(next.to_string().into_bytes().into());
            match self.write(&asking, None, cell, &CellWrite { expected, value, life }).await? {
                CellWritten::Refused(other) if self.clock.now() < until => found = other,
                CellWritten::Refused(_) => {
                    let why = "other clients changed the count before each try: try again";
                    return Err(Error::new(ErrorKind::Unavailable, why));
                }
                CellWritten::Written(_) | CellWritten::Deleted { .. } => return Ok(decided),
            }
        }
    }

    /// Lists cells, as the client names them, on the side where they are used. If that side changes between
    /// two pages, the listing begins again.
    pub(crate) async fn list(
        &self,
        of: &QueuePrefix,
        after: Option<&str>,
        most: usize,
    ) -> Result<Page<ListedKey>> {
        let until = self.until();
        loop {
            let asking = self.begin(until).await?;
            let (side, stay) = (asking.side(), format!("{}:", asking.epoch()));
            let after = after.and_then(|after| after.strip_prefix(&*stay));
            let (backend, of) = (self.sides.backend(side), self.sides.prefix(side, of));
            let listed = backend.list_keys(KeysWith::Cell, &of, after, most).await?;
            if asking.counts() {
                let named =
                    |listed: ListedKey| ListedKey { address: self.sides.named(&listed.address), ..listed };
                let keys = listed.items.into_iter().map(named).collect();
                return Ok(Page::new(keys, listed.next.map(|next| stay + &next)));
            }
        }
    }

    /// A watch of a cell.
    pub(crate) fn watch_cell(&self, cell: &Address) -> Box<dyn ChangeWatch> {
        Box::new(SidedWatch::new(&self.sides, &self.usage, cell))
    }
}

fn refuse_leased(write: &CellWrite) -> Result<()> {
    if write.life == CellLife::Lease {
        let why = "a value that ends with its writer's lease does not move between coordinators";
        return Err(Error::unsupported("ephemeral_cells", why));
    }
    Ok(())
}

/// A change whose answer does not count.
fn outlived() -> Error {
    Error::new(
        ErrorKind::OutcomeUnknown,
        "this client had lost its membership of the move when the answer came: the values may have moved before",
    )
}
