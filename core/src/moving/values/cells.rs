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

/// A hold over both sides, under which values are written.
pub(crate) trait HeldOnSides {
    /// Its node on a side, if it has one.
    fn on(&self, side: Side) -> Option<Arc<dyn Node>>;

    /// Waits until it has a node on a side, or ends.
    fn until_on(&self, side: Side) -> impl Future<Output = Result<()>> + Send;
}

/// Values over both sides, with the clauses of [`Cells`](crate::contracts::Cells). While values are copied,
/// requests wait for the request timeout, and are `Unavailable` then.
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

    /// Reads a cell, and again if the membership was lost during the read.
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

    /// Writes or deletes a cell. A version of another epoch is refused: the cell was written again since.
    pub(crate) async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        refuse_leased(write)?;
        let asking = self.begin(self.until()).await?;
        self.write_expecting(asking, None, cell, write).await
    }

    /// Writes under a hold's node (CELL-HELD) on the side where values are used (MIGRATE-VALUES-HOLD-SHARED).
    /// Without a node there, the write waits uncounted: the stage that makes the hold join must not wait for
    /// this write.
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

    /// Writes on the request's side, under a node if one is given. An answer that does not count is an
    /// unknown outcome.
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

    /// Changes a count, on some servers by a read and a write under the read version: the caller does not
    /// know the side.
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

    /// Lists cells where they are used, by the client's names. Begins again if that side has changed since
    /// the last page.
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

fn outlived() -> Error {
    Error::new(
        ErrorKind::OutcomeUnknown,
        "this client had lost its membership of the move when the answer came: the values may have moved before",
    )
}
