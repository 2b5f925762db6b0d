use std::cmp::Ordering;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use async_trait::async_trait;

use super::cell_life::CellLife;
use super::idle::TimeToIdle;
use crate::address::Address;
use crate::decide::count::request::{CountRequest, Decided};
use crate::error::Result;

/// The longest value of a cell, in bytes.
pub const MAX_CELL_BYTES: usize = 4096;

/// The version of a cell: new with every write, and never used again at its address, also after a deletion
/// (CELL-CAS).
///
/// Versions of one address are compared by their number. The condition is the value that the server compares.
/// Only the backend interprets it: two reads of one version may have different conditions.
#[derive(Clone, Copy)]
pub struct Version {
    number: u64,
    condition: u64,
    // A hash of the address, if a recipe returned the version.
    address: Option<u64>,
}

impl Version {
    /// Creates a version from the numbers that a backend reads.
    pub fn new(number: u64, condition: u64) -> Self {
        Self { number, condition, address: None }
    }

    /// Returns the number, which rises strictly from write to write of one address.
    pub fn number(self) -> u64 {
        self.number
    }

    /// Returns the number that the backend compares on the server.
    pub fn condition(self) -> u64 {
        self.condition
    }

    /// Returns the version with a mark of its address.
    pub(crate) fn at(self, cell: &Address) -> Self {
        Self { address: Some(BuildHasherDefault::<DefaultHasher>::default().hash_one(cell)), ..self }
    }

    /// Returns whether it may be a version of the cell at this address. The condition alone may be true for
    /// two cells.
    pub(crate) fn may_be_at(self, cell: &Address) -> bool {
        self.address.is_none() || self.at(cell).address == self.address
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Version {}

impl Hash for Version {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.number.cmp(&other.number)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({}, {:#x})", self.number, self.condition)
    }
}

/// A value and its version.
#[derive(Clone, Debug)]
pub struct VersionedValue {
    /// The version of this value.
    pub version: Version,
    /// The value: 0 to [`MAX_CELL_BYTES`] bytes.
    pub value: Arc<[u8]>,
    /// The time to idle of the last write. Only a read returns it; a client that watches uses the cell within
    /// this time.
    pub idle: Option<TimeToIdle>,
}

impl VersionedValue {
    /// Makes it, without a time to idle.
    pub fn new(version: Version, value: impl Into<Arc<[u8]>>) -> Self {
        Self { version, value: value.into(), idle: None }
    }
}

/// The version implies the time to idle.
impl PartialEq for VersionedValue {
    fn eq(&self, other: &Self) -> bool {
        (self.version, &self.value) == (other.version, &other.value)
    }
}

impl Eq for VersionedValue {}

/// The condition of a write on the current cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expected {
    /// No condition.
    Any,
    /// The cell does not exist.
    Absent,
    /// The cell has this version.
    Version(Version),
}

impl From<Version> for Expected {
    fn from(version: Version) -> Self {
        Expected::Version(version)
    }
}

/// `None`: the cell does not exist.
impl From<Option<Version>> for Expected {
    fn from(version: Option<Version>) -> Self {
        version.map_or(Expected::Absent, Expected::Version)
    }
}

impl Expected {
    /// Returns whether a cell of this version, or no cell, meets the condition.
    pub fn is_met_by(self, version: Option<Version>) -> bool {
        match self {
            Expected::Any => true,
            Expected::Absent => version.is_none(),
            Expected::Version(expected) => version == Some(expected),
        }
    }
}

/// One request to change a cell.
#[derive(Clone, Debug)]
pub struct CellWrite {
    /// The condition on the current cell.
    pub expected: Expected,
    /// The new value, or `None` to delete the cell.
    pub value: Option<Arc<[u8]>>,
    /// The lifetime of the cell; ignored for a deletion.
    pub life: CellLife,
}

impl CellWrite {
    pub(crate) fn deletion(expected: Expected) -> Self {
        Self { expected, value: None, life: CellLife::Stays }
    }
}

/// The answer to a [`CellWrite`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellWritten {
    /// The cell has the new value, with this version.
    Written(Version),
    /// The cell does not exist any more.
    Deleted {
        /// Whether this request deleted a cell.
        was_there: bool,
    },
    /// The condition was not met, and the cell is unchanged: this value, or no cell.
    Refused(Option<VersionedValue>),
}

/// Versioned values.
///
/// * `CELL-CAS`: a write or a deletion has a condition: none, absent, or the version of a read. The server
///   decides in one step with the write. No version is used twice at one address, also across deletions.
/// * `CELL-HELD`: [`Node::write_cell`](super::Node::write_cell) writes only while its node exists on the
///   server, which decides that in the same step.
/// * `CELL-STAY`: a cell that was written with [`CellLife::Stays`] stays until it is deleted.
/// * `CELL-EPHEMERAL`: a cell that was written with [`CellLife::Lease`] exists as long as the writer's lease,
///   as a node does: it is deleted at once at an orderly close, and within TTL and the expiry bound after a
///   crash. Another client's write moves it to that client's lease, or lets it stay. A write under a lost
///   lease opens the next lease (LEASE-REOPEN).
/// * `CELL-IDLE`: a cell that was written with [`CellLife::Idle`] is deleted when no client has used it for
///   that time, which the server stores. A write and a read that finds it are uses, by any client. A watch is
///   not a use; a refused write may be one. The cell ends no earlier than the time after the last use was
///   answered, and no later than a quarter of the time, one second and the expiry bound after that, also
///   without a connected client. The next write decides again. If
///   [`idle_cells`](crate::Capabilities::idle_cells) is false, such a write is refused with `Unsupported`.
/// * `CELL-UNKNOWN`: a write whose reply is lost is `OutcomeUnknown`, or the backend finds out. It is never
///   reported as failed, and never made twice. It may be made late, after other writes, if its condition
///   holds then.
/// * `CELL-COUNT`: [`change_count`](Cells::change_count) is for a server that can change a count, and saves
///   round trips. It changes the cell as [`Count::decide`](crate::decide::count::Count::decide) says, so that
///   clients which use a compare-and-set agree with it.
/// * `CELL-LIST`: the cells of a kind can be listed, by the beginning of their key, page by page, each with
///   its lifetime ([`Backend::list_keys`](super::Backend::list_keys)). A listing is not a use of an idle
///   cell.
/// * `WATCH-ORDER`, `WATCH-END`: see [`ChangeWatch`].
#[async_trait]
pub trait Cells: Send + Sync {
    /// Reads a cell. This is a use of an idle cell, also if the read is dropped.
    ///
    /// # Errors
    /// `Conflict`: the address holds data that is not a cell of this library.
    async fn read_cell(&self, cell: &Address) -> Result<Option<VersionedValue>>;

    /// Writes or deletes a cell.
    ///
    /// # Errors
    /// * `Conflict`: as for a read.
    /// * `Unsupported`: the backend has no idle cells.
    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten>;

    /// Changes the count in a cell. The cell then has the time to idle `idle`, or stays. A request that
    /// writes nothing is a use, like a read. Returns `None` if the server cannot change a count in one step:
    /// core then uses a compare-and-set. A backend returns `None` always or never, and without a request.
    ///
    /// # Errors
    /// As for a write. `Conflict`, as [`NotThisCount`](crate::decide::count::NotThisCount) says.
    async fn change_count(
        &self,
        cell: &Address,
        request: &CountRequest,
        idle: Option<TimeToIdle>,
    ) -> Result<Option<Decided>> {
        let _ = (cell, request, idle);
        Ok(None)
    }

    /// Returns a watch of a cell. It sends nothing before its first call.
    fn watch_cell(&self, cell: &Address) -> Box<dyn ChangeWatch>;
}

/// Notifies that a cell or a queue may have changed.
///
/// A watch carries no value: the watcher then reads the cell, or lists the queue. So a slow watcher reads the
/// latest state, and no events are buffered.
///
/// * `WATCH-ORDER`: each change after an answer of [`changed`](ChangeWatch::changed) is followed by another
///   answer. A cell changes when it is written, deleted, or ends with its lease or by idleness. A queue
///   changes when a node comes, leaves, is admitted, expires, or has new data. An end with a lease is
///   reported within the expiry bound of that lease, and an end by idleness within the bounds of CELL-IDLE.
///   Events can be lost, so core also re-checks once each TTL. If the backend knows of a gap (a new
///   connection, a compaction), it answers. It may answer without a change.
/// * `WATCH-END`: a watch ends in an error that says why. A closed client ends it at once.
///
/// A drop ends it, and leaves nothing on the server.
#[async_trait]
pub trait ChangeWatch: fmt::Debug + Send {
    /// Waits until something may have changed since the previous answer, and the server watches again. The
    /// first call returns as soon as the server watches: a read after it misses no change.
    ///
    /// # Errors
    /// * `Unavailable`: the server cannot be reached. Core creates another watch after a pause.
    /// * Any other kind ends the watching.
    ///
    /// # Cancel safety
    /// The next call reports a change that comes between two calls.
    async fn changed(&mut self) -> Result<()>;
}
