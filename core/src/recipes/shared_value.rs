//! A value that all clients share.

use std::time::Duration;

use super::cell_handle::{CellHandle, answered_nonsense, checked_value};
use super::handles::addressed;
use super::hold::Hold;
use super::watch::Watch;
use crate::contracts::{CellWrite, CellWritten, Expected, Version, VersionedValue};
use crate::error::Result;

/// A value that all clients share: read, write, compare and set, watch.
///
/// *Protocol.* The value is one cell on the coordinator, of up to 4,096 bytes, with a version that
/// rises with every write. It stays until it is [deleted](Self::delete), or goes when nobody uses it
/// any more, where [that is asked for](Self::with_time_to_idle).
///
/// *Why it is safe.* The server compares the version in the same step as it writes, so that of two
/// clients that change one version only one succeeds. A version never comes again, also when the
/// value is deleted and written anew. [`write_while`](Self::write_while) writes only while a hold
/// stands on that coordinator, decided by the server in the same step: a holder that was paused and
/// replaced cannot overwrite its successor's value.
///
/// *When the lease is lost*, nothing happens to the value: it hangs on no lease.
///
/// *Source.* Curator's `SharedValue`; etcd's transactions on a modification revision. The write
/// under a hold is what `IsOwner` of etcd's `concurrency.Mutex` is for.
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

/// The answer to a compare-and-set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the value may not be stored"]
pub enum Compared {
    /// It is stored, with this version.
    Stored(Version),
    /// The value was not as expected, and is as it was: this one, or none.
    Differs(Option<VersionedValue>),
}

impl SharedValue {
    pub(crate) fn new(handle: CellHandle) -> Self {
        Self { handle }
    }

    /// From the next write of this handle on, the value goes when nobody has used it for `time`: no
    /// earlier, and a quarter later at most, beside the server's own delays. Validates, no I/O.
    ///
    /// A read or a write by any client is a use. Who watches it uses it, since a watch reads once a
    /// TTL; so `time` is two TTLs at least, and 366 days at most. The last write decides: one by a
    /// handle without this option lets the value stay, one with another time sets that. Whoever
    /// reads the value afterwards finds none, as after a deletion.
    ///
    /// # Errors
    /// `InvalidArgument` naming `time_to_idle`; `Unsupported` where the backend has no
    /// [`idle_cells`](crate::Capabilities::idle_cells): a lazy client refuses the first write then.
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

    /// The value and its version; `None` if there is none. One round trip, which sees every write
    /// that was confirmed before.
    ///
    /// # Errors
    /// `Unavailable`; `Conflict` when something else stands in its place on the server;
    /// `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn read(&self) -> Result<Option<VersionedValue>> {
        self.handle.in_context("read", self.handle.read().await)
    }

    /// Writes it, whatever it was. Answers the new version. One try.
    ///
    /// # Errors
    /// `InvalidArgument` naming `value` when it is longer than 4,096 bytes; `Unavailable` when it
    /// was surely not written; `OutcomeUnknown` when it may have been, or may be written late, over a
    /// newer value: where that matters, use [`compare_and_set`](Self::compare_and_set). Others as
    /// [`read`](Self::read).
    ///
    /// # Cancel safety
    /// A dropped write may or may not be made.
    pub async fn write(&self, value: impl AsRef<[u8]>) -> Result<Version> {
        let write = self.checked_write(Expected::Any, value.as_ref());
        let written = async { stored(self.handle.write(&write?).await?) };
        self.handle.in_context("write", written.await.and_then(unconditional))
    }

    /// Writes it while `hold` stands on the server, whatever the value was. The server decides that
    /// in one step with the write, so this is a fence without a database: once another client may
    /// hold, the write fails. One try.
    ///
    /// # Errors
    /// `Lost` when the hold is lost: nothing was written; `NotHeld` after a release;
    /// `InvalidArgument` naming `hold` when it is one of another coordinator, or of several keys of
    /// this one. Others as [`write`](Self::write).
    ///
    /// # Cancel safety
    /// A dropped write may or may not be made.
    pub async fn write_while(&self, hold: &Hold, value: impl AsRef<[u8]>) -> Result<Version> {
        let write = self.checked_write(Expected::Any, value.as_ref());
        let written = async { stored(self.handle.write_while(hold, &write?).await?) };
        self.handle.in_context("write_while", written.await.and_then(unconditional))
    }

    /// Writes it if it is as expected. One try.
    ///
    /// # Errors
    /// As [`write`](Self::write). After `OutcomeUnknown`, [`read`](Self::read): while the value still has
    /// the expected version, the same call may be repeated, and of the two one is made.
    ///
    /// # Cancel safety
    /// A dropped write may or may not be made.
    pub async fn compare_and_set(
        &self,
        expected: impl Into<Expected>,
        value: impl AsRef<[u8]>,
    ) -> Result<Compared> {
        let write = self.checked_write(expected.into(), value.as_ref());
        let written = async { stored(self.handle.write(&write?).await?) };
        self.handle.in_context("compare_and_set", written.await)
    }

    /// Deletes it, whatever it was. Answers whether it was there. One try.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    ///
    /// # Cancel safety
    /// A dropped deletion may or may not be made.
    pub async fn delete(&self) -> Result<bool> {
        self.handle.in_context("delete", self.handle.delete().await)
    }

    /// Watches it, once it was read: a live, cached view.
    ///
    /// # Errors
    /// `Unavailable` when the server does not answer within twice the request timeout. Others as
    /// [`read`](Self::read).
    ///
    /// # Cancel safety
    /// A dropped call watches nothing.
    pub async fn watch(&self) -> Result<Watch<Option<VersionedValue>>> {
        let CellHandle { client, cell, .. } = &self.handle;
        Watch::open(client, cell, client.watch_cell(cell), |cell: &Option<VersionedValue>| Ok(cell.clone()))
            .await
    }

    fn checked_write(&self, expected: Expected, value: &[u8]) -> Result<CellWrite> {
        Ok(CellWrite { expected, value: Some(checked_value(value)?), life: self.handle.life })
    }
}

addressed!(SharedValue, self => self.handle.cell);

fn stored(written: CellWritten) -> Result<Compared> {
    match written {
        CellWritten::Written(version) => Ok(Compared::Stored(version)),
        CellWritten::Refused(cell) => Ok(Compared::Differs(cell)),
        CellWritten::Deleted { .. } => Err(answered_nonsense()),
    }
}

fn unconditional(stored: Compared) -> Result<Version> {
    match stored {
        Compared::Stored(version) => Ok(version),
        Compared::Differs(_) => Err(answered_nonsense()),
    }
}
