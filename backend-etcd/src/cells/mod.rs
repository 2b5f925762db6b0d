//! Cells: versioned values.
//!
//! # Protocol
//! A cell is one key. The revision of its last write is its version, both number and condition. The
//! key of a lasting cell has no lease. The key of an ephemeral cell has the lease of the client
//! that wrote it last. The key of an idle cell has a separate lease
//! ([`cell_lease`](crate::cell_lease)).
//!
//! * *A read* is one linearizable read of the key, and sometimes a renewal of the cell's separate
//!   lease.
//! * *A write* is one transaction: IF the key is absent or was written last at the expected
//!   revision, THEN put or delete it, ELSE read it. So a refusal returns the current cell. A put
//!   removes the key from its lease, and attaches it to the writer's lease if the cell is
//!   ephemeral. A client whose lease is lost first opens the next one.
//! * *A held write* also compares the create revision of the holder's node. A refusal also reads
//!   that node, to know which compare failed.
//! * *A listing* reads the keys of a kind without their values ([`list`]).
//! * *A watch* is one watch of the key on the client's stream.
//!
//! # Why it is safe
//! The server compares and writes in one step. It never gives a revision twice, even across a
//! deletion of the key, so a late write with an old version finds another version (CELL-CAS). A
//! node's key ends with its lease, and its create revision never occurs again, so the server
//! refuses a write that arrives after the next holder was admitted (CELL-HELD). A lasting cell has
//! no lease (CELL-STAY). The end of a lease deletes the keys that are on it at that time: keys
//! whose last put was under this lease, and no key that another client has put since
//! (CELL-EPHEMERAL, CELL-IDLE). The server refuses a late put under a lease that has ended. Only a
//! request that no server has seen is sent again (CELL-UNKNOWN).
//!
//! A server that was restored from a backup continues to count from the backup's revision: versions
//! that it gave after the backup occur again.
//!
//! *Foreign keys.* A value that is longer than a cell's limit belongs to another program: it is a
//! conflict. A shorter value is a cell, even if another program has put it.

mod list;
mod read;
mod write;

pub(crate) use list::page;
pub(crate) use read::read;
pub(crate) use write::{write, write_held};
