//! Cells: versioned values.
//!
//! # Protocol
//! A cell is one key. The revision of its last write is its version, number and condition alike. The
//! key of a cell that stays has no lease, that of an ephemeral one has the lease of the client that
//! wrote it last, and that of one that goes when nobody uses it has a lease of its own ([`cell_lease`](crate::cell_lease)).
//!
//! * *A read* is one linearizable read of the key, and now and then a renewal of the cell's own lease.
//! * *A write* is one transaction: IF the key is absent or was written last at the expected revision,
//!   THEN put or delete it, ELSE read it. So a refusal brings the cell as it is. A put takes the key
//!   off the lease that it was on, and onto the writer's if the cell is to be ephemeral. A client
//!   whose lease is lost opens the next one before.
//! * *A held write* also compares the create revision of the holder's own node, and a refusal reads
//!   that too, to tell which compare failed.
//! * *A listing* reads the keys of a kind without their values ([`list`]).
//! * *A watch* is one watch of the key on the client's stream.
//!
//! # Why it is safe
//! The server compares and writes in one step. It gives out a revision once, also across a deletion
//! of the key, so a late write with an old version finds another one (CELL-CAS). A node's key goes
//! with its lease, and its create revision never comes again, so a write that lands after the next
//! holder was admitted is not made (CELL-HELD). A cell that stays is on no lease (CELL-STAY). The end
//! of a lease deletes the keys that are on it then: those that were put last under it, and no key that
//! another client has put since (CELL-EPHEMERAL, CELL-IDLE). A late put under a lease that is over is refused by
//! the server. Only a request that no server has seen is sent again (CELL-UNKNOWN).
//!
//! A server that was restored from a backup counts its revisions from there: versions that were
//! given out since the backup come again.
//!
//! *Foreign keys.* A value that is longer than a cell's is another program's: it is a conflict. A
//! short one is a cell, whoever has put it.

mod list;
mod read;
mod write;

pub(crate) use list::page;
pub(crate) use read::read;
pub(crate) use write::{write, write_held};
