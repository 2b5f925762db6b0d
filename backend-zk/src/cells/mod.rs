//! Cells: versioned values (CELL-CAS).
//!
//! A cell is a node. The number of its version is four times the node's `mzxid`, plus one if the cell goes
//! with a lease, or plus two if it is idle. [`idle`] adds the rules of servers with nodes with a TTL.
//!
//! *Why a write under a version is safe.* A server compares a data version, which starts at 0 when the node
//! is created again. So it also compares the *generation*, the data version of the directory, which each
//! creation of a cell raises. A [`Condition`] has both, and every read reads the directory before the cell.
//! `docs/protocol/cells.md` has the argument and its limits.
//!
//! | write | expects | transaction |
//! |---|---|---|
//! | value | a version | check the directory's generation, write the cell at its data version |
//! | value | anything | write the cell, if it stays; if it does not exist, as in the next row |
//! | value | nothing | write the directory, create the cell |
//! | value, with another life | | check as in the first row, delete the cell, then as in the third row |
//! | none | | as in the first two rows, with a deletion |
//!
//! A held write (CELL-HELD) first checks that the holder's node exists.
//!
//! *A cell that goes with a lease* (CELL-EPHEMERAL) is an ephemeral node of its writer's session. A change of
//! life creates the node again in one transaction. A write without a version does not know the life, so it
//! also creates and deletes a child of the cell, which the server refuses in an ephemeral node.
//!
//! *Foreign nodes.* Any data is a value. A node of another program with children is not deleted and not
//! created again (`Conflict`).

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
