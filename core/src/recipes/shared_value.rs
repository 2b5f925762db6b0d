use std::time::Duration;

use super::cell_handle::{CellHandle, answered_nonsense, checked_value};
use super::handles::addressed;
use super::hold::Hold;
use super::watch::Watch;
use crate::address::Address;
use crate::contracts::{CellWrite, CellWritten, Expected, Version, VersionedValue};
use crate::error::{Error, Result};

/// A value that all clients share: read, write, compare and set, watch.
///
/// *Protocol.* The value is one cell on the coordinator, of up to 4,096 bytes, with a version that rises with
/// every write. It remains until it is [deleted](Self::delete) or its [time to idle](Self::with_time_to_idle)
/// ends, also *when the lease is lost*.
///
/// *Why it is safe.* The server compares the version and writes in one step, so of two clients that change
/// the same version only one succeeds. A version is never used again, also after a deletion.
///
/// *Source.* Curator's `SharedValue`; etcd's transactions on a modification revision, and `IsOwner` of its
/// `concurrency.Mutex` for the write under a hold.
///
/// ```
/// # use latchwork_core::{connect, Expected, recipes::Compared, Config, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let limits = coordinator.shared_value("limits")?;
/// let version = limits.write(b"10 a second").await?;
/// let stored = limits.compare_and_set(Expected::Version(version), b"20 a second").await?;
/// assert!(matches!(stored, Compared::Stored(newer) if newer > version));
///
/// let mut watch = limits.watch().await?;
/// let now = watch.changed().await?.expect("it was written");
/// assert_eq!(&*now.value, b"20 a second");
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct SharedValue {
    handle: CellHandle,
}

/// The result of a compare-and-set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the value may not be stored"]
pub enum Compared {
    /// The new value is stored, with this version.
    Stored(Version),
    /// The value was not as expected and was not changed. It is returned, if there is one.
    Differs(Option<VersionedValue>),
}

impl SharedValue {
    pub(crate) fn new(handle: CellHandle) -> Self {
        Self { handle }
    }

    /// Lets the server delete the value when no client has used it for `time`, from the next write by this
    /// handle. No I/O.
    ///
    /// * The value is deleted after `time` without use, never earlier, and at most a quarter of `time` later,
    ///   plus the server's own delays.
    /// * A read or a write by any client is a use. A watch is a use once a TTL.
    /// * `time` is two TTLs to 366 days.
    /// * The last write decides: also a handle without a time, or an earlier clone, which lets the value
    ///   remain.
    ///
    /// # Errors
    /// * `InvalidArgument` (`time_to_idle`): the time is out of range.
    /// * `Unsupported`: the backend has no [`idle_cells`](crate::Capabilities::idle_cells). A client that
    ///   connects lazily may report this only at the first write.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use latchwork_core::{connect, Config, memory};
    /// # async fn example() -> Result<(), latchwork_core::Error> {
    /// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
    /// let cart = coordinator.shared_value("cart:17")?.with_time_to_idle(Duration::from_secs(3600))?;
    /// cart.write(b"two apples").await?;
    /// # coordinator.close().await }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn with_time_to_idle(mut self, time: Duration) -> Result<Self> {
        self.handle.set_time_to_idle(time)?;
        Ok(self)
    }

    /// Reads the value and its version, if there is a value. One round trip. The read sees every write that
    /// was confirmed before.
    ///
    /// # Errors
    /// * `Conflict`: the key contains something other than a value.
    /// * The errors of [every call](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// The call only reads.
    pub async fn read(&self) -> Result<Option<VersionedValue>> {
        self.handle.in_context("read", self.handle.read().await.map(|cell| at(&self.handle.cell, cell)))
    }

    /// Writes the value without a condition, and returns the new version. The client does not retry.
    ///
    /// # Errors
    /// * `InvalidArgument` (`value`): the value is longer than 4,096 bytes.
    /// * `OutcomeUnknown`: it may have been written, or may be written later, over a newer value.
    ///   [`compare_and_set`](Self::compare_and_set) prevents that.
    /// * The other errors of [`read`](Self::read).
    ///
    /// # Cancel safety
    /// A dropped call may still write the value.
    pub async fn write(&self, value: impl AsRef<[u8]>) -> Result<Version> {
        let write = self.checked_write(Expected::Any, value.as_ref());
        let written = async { self.stored(self.handle.write(&write?).await?) };
        self.handle.in_context("write", written.await.and_then(unconditional))
    }

    /// Writes the value only while `hold` exists on the server, which checks it in the same step. This is a
    /// fence without a database: as soon as another client may hold the lock, the write fails.
    ///
    /// # Errors
    /// * `Lost`, `NotHeld`: as [`check`](Hold::check). Nothing was written.
    /// * `InvalidArgument` (`hold`): the hold is on another coordinator, or on several keys of this one.
    /// * `Unsupported`: [`held_writes`](crate::Capabilities::held_writes) is false, and the hold has another
    ///   key than the value.
    /// * The other errors of [`write`](Self::write).
    ///
    /// # Cancel safety
    /// A dropped call may still write the value.
    pub async fn write_while(&self, hold: &Hold, value: impl AsRef<[u8]>) -> Result<Version> {
        let write = self.checked_write(Expected::Any, value.as_ref());
        let written = async { self.stored(self.handle.write_while(hold, &write?).await?) };
        self.handle.in_context("write_while", written.await.and_then(unconditional))
    }

    /// Writes the value if its version is as expected. The client does not retry.
    ///
    /// # Errors
    /// * `InvalidArgument` (`expected`): the version was read from another value.
    /// * The errors of [`write`](Self::write). After `OutcomeUnknown`, [`read`](Self::read) the value: if it
    ///   still has the expected version, repeat the call. Only one of the two writes is applied.
    ///
    /// # Cancel safety
    /// A dropped call may still write the value.
    pub async fn compare_and_set(
        &self,
        expected: impl Into<Expected>,
        value: impl AsRef<[u8]>,
    ) -> Result<Compared> {
        let write = self.checked_write(expected.into(), value.as_ref());
        let written = async { self.stored(self.handle.write(&write?).await?) };
        self.handle.in_context("compare_and_set", written.await)
    }

    /// Deletes the value without a condition, and returns whether it existed. The client does not retry.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    ///
    /// # Cancel safety
    /// A dropped call may still delete the value.
    pub async fn delete(&self) -> Result<bool> {
        self.handle.in_context("delete", self.handle.delete().await)
    }

    /// Watches the value.
    ///
    /// # Errors
    /// As [`read`](Self::read). `Unavailable` comes within twice the request timeout.
    ///
    /// # Cancel safety
    /// A dropped call ends the watch.
    pub async fn watch(&self) -> Result<Watch<Option<VersionedValue>>> {
        let CellHandle { client, cell, .. } = &self.handle;
        let address = cell.clone();
        let read = move |cell: &Option<VersionedValue>| Ok(at(&address, cell.clone()));
        Watch::open(client, cell, client.watch_cell(cell), read).await
    }

    fn checked_write(&self, expected: Expected, value: &[u8]) -> Result<CellWrite> {
        if let Expected::Version(version) = expected
            && !version.may_be_at(&self.handle.cell)
        {
            let why = format!("version {version} was read from another value: read this one");
            return Err(Error::invalid("expected", why));
        }
        Ok(CellWrite { expected, value: Some(checked_value(value)?), life: self.handle.life })
    }

    fn stored(&self, written: CellWritten) -> Result<Compared> {
        match written {
            CellWritten::Written(version) => Ok(Compared::Stored(version.at(&self.handle.cell))),
            CellWritten::Refused(cell) => Ok(Compared::Differs(at(&self.handle.cell, cell))),
            CellWritten::Deleted { .. } => Err(answered_nonsense()),
        }
    }
}

addressed!(SharedValue, self => self.handle.cell);

fn at(address: &Address, cell: Option<VersionedValue>) -> Option<VersionedValue> {
    cell.map(|cell| VersionedValue { version: cell.version.at(address), ..cell })
}

fn unconditional(stored: Compared) -> Result<Version> {
    match stored {
        Compared::Stored(version) => Ok(version),
        Compared::Differs(_) => Err(answered_nonsense()),
    }
}
