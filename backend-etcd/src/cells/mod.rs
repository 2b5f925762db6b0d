//! Cells: versioned values.
//!
//! *Protocol.* A cell is one key, and the revision of its last write is its version. Every write is one
//! transaction, whose `ELSE` reads the cell. The lease of the key decides its life: none (stays), the lease
//! of the last writer (ephemeral), or a separate lease (idle, [`cell_lease`](crate::cell_lease)). A held
//! write also compares the create revision of the holder's node, and a refusal reads that node to know which
//! compare failed.
//!
//! *Why it is safe.* The server compares and writes in one step, and gives no revision twice, even across a
//! deletion (CELL-CAS, CELL-HELD). It refuses a put under a lease that has ended (CELL-EPHEMERAL, CELL-IDLE).
//! Only a request that no server has seen is sent again (CELL-UNKNOWN). See `docs/protocol/cells.md`. But a
//! server that was restored from a backup repeats the versions after the backup.
//!
//! *Foreign keys.* A value above a cell's limit belongs to another program, and is a conflict. A shorter
//! value is a cell.

mod list;
mod read;
mod write;

pub(crate) use list::page;
pub(crate) use read::read;
pub(crate) use write::{write, write_held};
