use std::sync::Arc;
use std::time::Duration;

use super::hold::Hold;
use super::watcher::Watcher;
use crate::address::Address;
use crate::client::Client;
use crate::contracts::{
    CellLife, CellWrite, CellWritten, Expected, MAX_CELL_BYTES, Node, TimeToIdle, VersionedValue,
};
use crate::error::{Error, ErrorKind, Result};

#[derive(Clone)]
pub(crate) struct CellHandle {
    pub(super) client: Arc<Client>,
    pub(super) cell: Address,
    pub(super) life: CellLife,
}

impl CellHandle {
    pub(crate) fn new(client: &Arc<Client>, cell: Address) -> Self {
        Self { client: Arc::clone(client), cell, life: CellLife::Stays }
    }

    /// Sets the time to idle (CELL-IDLE). At least two TTLs: a watcher reads the cell once a TTL, and a count
    /// is retried for one TTL.
    pub(super) fn set_time_to_idle(&mut self, time: Duration) -> Result<()> {
        let checked = || {
            let idle = TimeToIdle::new(time)?;
            let shortest = 2 * self.client.lease().ttl();
            if time < shortest {
                let why = format!("is {time:?}, must be at least two TTLs ({shortest:?})");
                return Err(Error::invalid("time_to_idle", why));
            }
            self.client.check_idle_cells()?;
            Ok(idle)
        };
        self.life = CellLife::Idle(self.in_context("with_time_to_idle", checked())?);
        Ok(())
    }

    pub(super) fn time_to_idle(&self) -> Option<TimeToIdle> {
        match self.life {
            CellLife::Idle(idle) => Some(idle),
            CellLife::Stays | CellLife::Lease => None,
        }
    }

    pub(super) fn in_context<T>(&self, operation: &'static str, answer: Result<T>) -> Result<T> {
        answer.map_err(|error| error.in_operation(operation).on(self.cell.name()))
    }

    pub(super) async fn read(&self) -> Result<Option<VersionedValue>> {
        self.client.serve(self.client.backend.read_cell(&self.cell)).await
    }

    pub(super) async fn write(&self, write: &CellWrite) -> Result<CellWritten> {
        self.client.serve(self.client.backend.write_cell(&self.cell, write)).await
    }

    pub(super) async fn write_while(&self, hold: &Hold, write: &CellWrite) -> Result<CellWritten> {
        hold.check()?;
        let node = self.node_of(hold)?;
        self.client.serve(node.write_cell(&self.cell, write)).await
    }

    fn node_of(&self, hold: &Hold) -> Result<Arc<dyn Node>> {
        let mut own = hold.held_by().tenures().iter().filter(|tenure| tenure.client == self.client.id);
        let (Some(tenure), None) = (own.next(), own.next()) else {
            let why = "the hold must be on exactly one key, and on the coordinator of the value";
            return Err(Error::invalid("hold", why));
        };
        // The hold was released after the check.
        tenure.node().ok_or_else(|| tenure.check().err().unwrap_or_else(Error::closed))
    }

    /// Returns whether the cell existed.
    pub(super) async fn delete(&self) -> Result<bool> {
        Ok(matches!(
            self.write(&CellWrite::deletion(Expected::Any)).await?,
            CellWritten::Deleted { was_there: true }
        ))
    }

    pub(super) async fn watcher(&self) -> Result<Watcher<Option<VersionedValue>>> {
        Watcher::open(&self.client, self.client.watch_cell(&self.cell)).await
    }
}
pub(super) fn checked_value(value: &[u8]) -> Result<Arc<[u8]>> {
    check_bytes("value", value, MAX_CELL_BYTES).map(|()| value.into())
}

pub(super) fn check_bytes(argument: &'static str, value: &[u8], most: usize) -> Result<()> {
    match value.len() {
        bytes if bytes <= most => Ok(()),
        bytes => Err(Error::invalid(argument, format!("has {bytes} bytes, at most {most} are allowed"))),
    }
}

pub(super) fn answered_nonsense() -> Error {
    Error::new(
        ErrorKind::Misconfigured,
        "the backend gave an answer that does not fit the request: a bug of the backend",
    )
}
