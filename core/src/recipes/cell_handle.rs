//! A recipe's cell: its address, and the client that reads and writes it.

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

/// The cell of one recipe's handle.
#[derive(Clone)]
pub(crate) struct CellHandle {
    pub(super) client: Arc<Client>,
    pub(super) cell: Address,
    // Of what is written from now on.
    pub(super) life: CellLife,
}

impl CellHandle {
    pub(crate) fn new(client: &Arc<Client>, cell: Address) -> Self {
        Self { client: Arc::clone(client), cell, life: CellLife::Stays }
    }

    /// From the next write on, the cell goes when nobody has used it for this long (CELL-IDLE).
    ///
    /// Two TTLs at least: who watches it reads it once a TTL, and a change of a count that was
    /// applied is looked for during one.
    ///
    /// # Errors
    /// `InvalidArgument` naming `time_to_idle`; `Unsupported` where the backend has no idle cells.
    pub(super) fn set_time_to_idle(&mut self, time: Duration) -> Result<()> {
        let checked = || {
            let idle = TimeToIdle::new(time)?;
            let shortest = 2 * self.client.lease().ttl();
            if time < shortest {
                let why = format!("must be two TTLs at least, which is {shortest:?}, not {time:?}");
                return Err(Error::invalid("time_to_idle", why));
            }
            self.client.check_idle_cells()?;
            Ok(idle)
        };
        self.life = CellLife::Idle(self.in_context("with_time_to_idle", checked())?);
        Ok(())
    }

    /// The time to idle of what is written from now on, if it has one.
    pub(super) fn time_to_idle(&self) -> Option<TimeToIdle> {
        match self.life {
            CellLife::Idle(idle) => Some(idle),
            CellLife::Stays | CellLife::Lease => None,
        }
    }

    /// Names the operation and the key in an error.
    pub(super) fn in_context<T>(&self, operation: &'static str, answer: Result<T>) -> Result<T> {
        answer.map_err(|error| error.in_operation(operation).on(self.cell.name()))
    }

    pub(super) async fn read(&self) -> Result<Option<VersionedValue>> {
        self.client.serve(self.client.backend.read_cell(&self.cell)).await
    }

    pub(super) async fn write(&self, write: &CellWrite) -> Result<CellWritten> {
        self.client.serve(self.client.backend.write_cell(&self.cell, write)).await
    }

    /// Writes while `hold` stands on the server (CELL-HELD).
    pub(super) async fn write_while(&self, hold: &Hold, write: &CellWrite) -> Result<CellWritten> {
        hold.check()?;
        let node = self.node_of(hold)?;
        self.client.serve(node.write_cell(&self.cell, write)).await
    }

    /// The hold's one node on this client.
    fn node_of(&self, hold: &Hold) -> Result<Arc<dyn Node>> {
        let mut own = hold.held_by().tenures().iter().filter(|tenure| tenure.client == self.client.id);
        let (Some(tenure), None) = (own.next(), own.next()) else {
            let why = "it must hold exactly one key of the coordinator that has the cell";
            return Err(Error::invalid("hold", why));
        };
        // Released since it was checked.
        tenure.node().ok_or_else(|| tenure.check().err().unwrap_or_else(Error::closed))
    }

    /// Deletes the cell, whatever it is. Answers whether it was there.
    pub(super) async fn delete(&self) -> Result<bool> {
        Ok(matches!(
            self.write(&CellWrite::deletion(Expected::Any)).await?,
            CellWritten::Deleted { was_there: true }
        ))
    }

    /// Watches it, for a recipe that looks at each change itself.
    pub(super) async fn watcher(&self) -> Result<Watcher<Option<VersionedValue>>> {
        Watcher::open(&self.client, self.client.watch_cell(&self.cell)).await
    }
}
/// Checks a value before it is written to a cell.
///
/// # Errors
/// `InvalidArgument` naming `value`.
pub(super) fn checked_value(value: &[u8]) -> Result<Arc<[u8]>> {
    check_bytes("value", value, MAX_CELL_BYTES).map(|()| value.into())
}

/// # Errors
/// `InvalidArgument` naming the argument.
pub(super) fn check_bytes(argument: &'static str, value: &[u8], most: usize) -> Result<()> {
    match value.len() {
        bytes if bytes <= most => Ok(()),
        bytes => Err(Error::invalid(argument, format!("has {bytes} bytes, at most {most} are allowed"))),
    }
}

/// The error if a backend broke its contract.
pub(super) fn answered_nonsense() -> Error {
    Error::new(ErrorKind::Misconfigured, "the backend answered what was not asked")
}
