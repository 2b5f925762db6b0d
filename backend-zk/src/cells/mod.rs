//! Cells: versioned values (CELL-CAS).
//!
//! A cell is a node, and its data is the value. The number of a version is four times the node's
//! `mzxid` (the transaction that wrote it), plus one if the cell goes with a lease, or plus two if
//! it is idle. These numbers rise, also across a deletion.
//!
//! This page is about all servers. On a server that supports nodes with a TTL, cells have children
//! and can be idle: [`idle`].
//!
//! # Why a write under a version is safe
//!
//! The server cannot compare an `mzxid`. It compares a node's data version, which starts at 0 when
//! the node is created again. Therefore the *generation* is compared too: the data version of the
//! cell's directory. Only the creation of a cell raises it, in the same transaction. A
//! [`Condition`] has both numbers, and the directory is always read before the cell:
//!
//! * If the directory still has this generation, no cell in it was created since the directory was
//!   read. So the cell is the one that was read, or is deleted, and its data version shows whether
//!   it was written.
//! * If the directory has another generation, perhaps another cell was created. The cell is read
//!   again, and if its `mzxid` is still the same, the write is tried with the new generation.
//!
//! So two reads of one version may return two conditions. Versions are equal if their numbers are
//! equal.
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
//! # Cells that go with a lease (CELL-EPHEMERAL)
//!
//! Such a cell is an ephemeral node of its writer's session. The server never changes the session
//! of a node. So a write that changes the life deletes the node and creates it again in one
//! transaction: no client sees that the cell is missing, and the creation raises the generation. A
//! write under a lease always does this. A write of a lasting value does it if the cell goes with a
//! lease, which it recognizes in two ways:
//!
//! * The version contains the life of the cell. The condition matches only this node, whose life
//!   never changes.
//! * A write without a condition also creates and deletes a child of the cell. In an ephemeral
//!   node, the server refuses this and the whole transaction. So such a write never writes a value
//!   that then ends with another client.
//!
//! # What else may stand there
//!
//! Any data is a value, also the data of a node of another program, with or without children,
//! ephemeral or not. Such a node with children is not deleted and not created again (`Conflict`).
//!
//! # Limits
//!
//! * A program that deletes a cell and creates it again itself does not raise the generation, and a
//!   program that removes the directory resets it. After that, a write under an earlier version may
//!   succeed.
//! * A data version has 32 bits. After 2^32 creations in one directory, or 2^32 writes of one cell,
//!   an old condition matches again. To the server, -1 means any version. If a number is -1, writes
//!   under a version are refused until the next creation or the next write without a condition.
//! * Reads follow a `sync`, which the leader answers. A deposed leader may answer too, until it
//!   notices that it has no quorum.

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
