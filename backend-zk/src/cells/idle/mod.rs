//! Cells on a server that supports nodes with a TTL, which idle cells need (CELL-IDLE).
//!
//! | a cell that | is | with a child |
//! |---|---|---|
//! | stays | a plain node | `stays`, a plain node |
//! | is idle: it goes when no client uses it | a container | one [`Use`](crate::cell_uses::Use) for each recent client |
//! | goes with a lease | an ephemeral node | none: it cannot have children |
//!
//! A use is a child with a TTL of five quarters of the cell's time to idle. The cell ends for all clients
//! with its last use: no client reads a container without children, or adds a child to it. The server removes
//! the container later.
//!
//! Once a quarter of the time has passed, a client creates its next use and deletes its last one: a write in
//! its own transaction, a read before it returns. `docs/protocol/cells.md` says why the server removes
//! nothing that is in use.
//!
//! A server shows a container as a plain node. Clients recognize a container without children by its last
//! child, which ended after the last write of the data. So another program must not create and remove
//! children of a cell without children.
//!
//! All servers need `zookeeper.extendedTypesEnabled`, which all clients check. A cell from a server without
//! it has no child, and stays as well, unless an idle cell was at its path less than one round of the
//! server's check earlier.

mod found;
mod plan;
mod read;
mod write;

pub(super) use found::life;
pub(super) use read::read;
pub(super) use write::write;
