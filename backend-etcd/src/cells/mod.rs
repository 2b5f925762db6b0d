//! Cells: versioned values that belong to nobody.
//!
//! # Protocol
//! A cell is one key, without a lease. The revision of its last write is its version, number and
//! condition alike.
//!
//! * *A read* is one linearizable read of the key.
//! * *A write* is one transaction: IF the key has no lease, and is absent or was written last at the
//!   expected revision, THEN put or delete it, ELSE read it. So a refusal brings the cell as it is.
//! * *A held write* also compares the create revision of the holder's own node, and a refusal reads
//!   that too, to tell which compare failed.
//! * *A watch* is one watch of the key on the client's stream.
//!
//! # Why it is safe
//! The server compares and writes in one step. It gives out a revision once, also across a deletion
//! of the key, so a late write with an old version finds another one (CELL-CAS). A node's key goes
//! with its lease, and its create revision never comes again, so a write that lands after the next
//! holder was admitted is not made (CELL-HELD). No lease holds a cell's key (CELL-STAY). Only a
//! request that no server has seen is sent again (CELL-UNKNOWN).
//!
//! A server that was restored from a backup counts its revisions from there: versions that were
//! given out since the backup come again.
//!
//! *Foreign keys.* A key on a lease, or with a value that is longer than a cell's, is another
//! program's: it is a conflict. A short value without a lease is a cell, whoever has put it.

mod read;
mod watch;
mod write;

pub(crate) use read::read;
pub(crate) use watch::EtcdCellWatch;
pub(crate) use write::{write, write_held};
