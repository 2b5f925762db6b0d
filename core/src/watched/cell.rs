use std::time::Duration;

use super::Reader;
use crate::address::Address;
use crate::contracts::{Backend, ChangeWatch, Incarnation, Lease, TimeToIdle, VersionedValue};
use crate::error::{Error, LostReason, Result};

#[derive(Debug, Default)]
pub(crate) struct CellReader {
    last: u64,
    // The server that had the cell at the last read.
    server: Option<Server>,
    idle: Option<TimeToIdle>,
}

#[derive(Debug)]
struct Server {
    incarnation: Incarnation,
    lease: Lease,
}

impl Server {
    fn of(backend: &dyn Backend) -> Self {
        Self { incarnation: backend.incarnation(), lease: backend.lease() }
    }

    /// Whether a missing cell may have been lost with the server's data, and not deleted.
    fn may_have_forgotten(&self, now: &Incarnation) -> bool {
        match (&self.incarnation, now) {
            (Incarnation::Started(before), Incarnation::Started(now)) => before != now,
            // It has lost leases too.
            _ => self.lease.lost() == Some(LostReason::Forgotten),
        }
    }
}

impl Reader for CellReader {
    type State = Option<VersionedValue>;

    fn watch(backend: &dyn Backend, cell: &Address) -> Box<dyn ChangeWatch> {
        backend.watch_cell(cell)
    }

    async fn read(&mut self, backend: &dyn Backend, cell: &Address) -> Result<Self::State> {
        // Read before the cell: a replacement of the server after its answer is seen at the next read.
        let server = Server::of(backend);
        let cell = backend.read_cell(cell).await?;
        let forgotten = match &cell {
            Some(cell) => cell.version.number() < self.last,
            None => self.server.take().is_some_and(|had| had.may_have_forgotten(&backend.incarnation())),
        };
        if forgotten {
            return Err(Error::lost(LostReason::Forgotten));
        }
        if let Some(cell) = &cell {
            (self.last, self.server) = (cell.version.number(), Some(server));
        }
        self.idle = cell.as_ref().and_then(|cell| cell.idle);
        Ok(cell)
    }

    fn again_within(&self, ttl: Duration) -> Duration {
        self.idle.map_or(ttl, |idle| ttl.min(idle.get() / 2))
    }
}
