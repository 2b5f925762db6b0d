//! Cells on a server that supports nodes with a TTL, which idle cells need (CELL-IDLE).
//!
//! | a cell that | is | with a child |
//! |---|---|---|
//! | stays | a plain node | `stays`, a plain node |
//! | is idle: it goes when no client uses it | a container | one [`Use`](crate::cell_uses::Use) for each recent client |
//! | goes with a lease | an ephemeral node | none: it cannot have children |
//!
//! A use is a child with a TTL of five quarters of the cell's time to idle. A container without children is
//! not a cell any more: no client reads it, and no client adds a child to it, so the cell ends for all
//! clients with its last use. Some time later, the server removes the container.
//!
//! A client creates its next use, and deletes its last one, once a quarter of the time has passed: a write in
//! its own transaction, a read before it returns, in a transaction that also checks a use that was found.
//!
//! *The server removes nothing that is in use.* It may remove a node by its path long after its decision, but
//! not a node with children. A use is never written after its creation, and every cell that belongs to no
//! session has a child from its creation on (`docs/protocol/cells.md`).
//!
//! A server shows a container as a plain node. A container without children is recognized by its last child,
//! which ended after the last write of the data, so another program must not create and remove children of a
//! cell without children.
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
