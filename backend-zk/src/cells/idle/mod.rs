//! Cells on a server that supports nodes with a TTL, which idle cells need (CELL-IDLE).
//!
//! | a cell that | is | with a child |
//! |---|---|---|
//! | stays | a plain node | `stays`, a plain node |
//! | is idle: it goes when no client uses it | a container | one [`Use`](crate::cell_uses::Use) for each client that has used it recently |
//! | goes with a lease | an ephemeral node | none: it cannot have children |
//!
//! A use is a new child with a TTL of five quarters of the cell's time to idle. After this TTL the
//! server removes the child, and some time after the last child also the container. A container
//! without children is not a cell any more: no client reads it, and no client adds a child to it.
//! So the cell ends for all clients at one instant, with its last use.
//!
//! A client creates its next use once a quarter of the time has passed, and deletes its last one. A
//! write creates the use in its own transaction. A read creates it before the read returns, in a
//! transaction that also checks a use that was found. All uses of a cell have the same time: a
//! write with another time creates the cell again, and is refused if it meets a use that it has not
//! found.
//!
//! # Why the server removes nothing that is in use
//!
//! The server decides by a node's age, or because a container has no children, to remove it. It
//! removes it some time later by its path, even if another node is at this path by then. It refuses
//! only if the node has children or belongs to a session. So:
//!
//! * A use is never written after its creation: its name is unique, and its age counts from its
//!   creation.
//! * Every cell that does not belong to a session has a child from its creation on, in one
//!   transaction. So the server refuses a removal that it decided for an earlier container at this
//!   path.
//!
//! Therefore a cell that stays also has a child on such a server.
//!
//! # Limits
//!
//! A server shows a container as a plain node. A container whose last child has ended is recognized
//! by this: the child ended after the last write of the data. So another program must not create
//! and remove children of a cell without children.
//!
//! All servers need `zookeeper.extendedTypesEnabled`. All clients check this when they connect. A
//! cell that was created on a server without it has no child. It stays as well, unless an idle cell
//! was at its path less than one round of the server's check earlier.

mod found;
mod plan;
mod read;
mod write;

pub(super) use found::life;
pub(super) use read::read;
pub(super) use write::write;
