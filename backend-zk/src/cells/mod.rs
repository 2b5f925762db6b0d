//! Cells: versioned values (CELL-CAS).
//!
//! A cell is a node; its data is the value. The number of its version is four times its `mzxid`, the
//! transaction that wrote it, and one more for a cell that goes with a lease, two more for one that goes
//! when nobody uses it: those rise, also over a deletion.
//!
//! What follows is how it is on every server. On one that has nodes with a time to live, cells have
//! children, and may go when nobody uses them: [`idle`].
//!
//! # Why a write under a version is safe
//!
//! The server compares no `mzxid`. It compares a node's data version, which begins at 0 in a node
//! that is made anew. So the *generation* is compared beside it: the data version of the cell's
//! directory, which the creation of a cell raises in the same transaction, and nothing else does. A
//! [`Condition`] is both, and the directory is always read before the cell:
//!
//! * If the directory still has this generation, no cell in it was made since the directory was
//!   read. So the cell is the one that was read, or gone, and its data version then tells whether
//!   it was written.
//! * If it has another one, that may be for another cell's sake. The cell is read again, and the
//!   write is tried with the new generation if its `mzxid` is still the version's.
//!
//! Two reads of one version may thus show two conditions. Versions are the same where their numbers
//! are.
//!
//! | write | expects | transaction |
//! |---|---|---|
//! | value | a version | check the directory's generation, write the cell at its data version |
//! | value | anything | write the cell, if it stays; where there is none, as below |
//! | value | nothing | write the directory, make the cell |
//! | value, with another life | | check as the first, delete the cell, then as the third |
//! | none | | as the first two, with a deletion |
//!
//! A held write (CELL-HELD) begins with a check that the holder's node is there.
//!
//! # Cells that go with a lease (CELL-EPHEMERAL)
//!
//! Such a cell is an ephemeral node of its writer's session. The server lets nobody change what a
//! node hangs on. So a write that changes it deletes the node and makes it anew, in one transaction:
//! nobody reads that it is gone, and the creation raises the generation as any other. A write under
//! a lease does so whatever is there. A write that is to stay does so where the cell goes with a
//! lease, by two means:
//!
//! * A version says which life the cell has. The condition fits this one node, whose life never
//!   changes.
//! * A write without a condition also makes and deletes a child of the cell. A server refuses that,
//!   and the whole transaction, in an ephemeral node. So it never writes a value that then goes with
//!   another client.
//!
//! # What else may stand there
//!
//! Any data is a value, also that of another program's node, with children or without, and whether
//! it stays or goes with a session. Such a node with children is not deleted, and not made anew
//! (`Conflict`).
//!
//! # Limits
//!
//! * A program that deletes a cell and makes it anew by itself raises no generation, and one that
//!   removes the directory begins it anew: a write under a version from before may then be made.
//! * A data version is a number of 32 bits. After 2^32 creations in one directory, or writes of one
//!   cell, an old condition fits again. Where one is -1, which means any version to the server,
//!   writes under a version are refused until the next creation or the next write without one.
//! * Reads come behind a `sync`. It is answered by the leader, which a deposed leader may take
//!   itself for until it misses its quorum.

mod change;
mod condition;
mod idle;
mod kept;
mod lasting;
mod list;
mod read;
mod trouble;
mod write;
mod writing;

pub(crate) use list::page;
pub(crate) use read::read;
pub(crate) use write::write;
