//! Cells on a server that has nodes with a time to live, which idle cells need (CELL-IDLE).
//!
//! | a cell that | is | with a child |
//! |---|---|---|
//! | stays | a plain node | `stays`, a plain node |
//! | goes when nobody uses it | a container | one [`Use`](crate::cell_uses::Use) for each client that has used it lately |
//! | goes with a lease | an ephemeral node | none: it can have none |
//!
//! A use is a new child with a time to live of five quarters of the cell's time to idle. The server
//! removes it then, and the container some time after its last child. A container without children
//! is a cell no more: nobody reads it, and nobody gives it a child again. So the cell ends for all at
//! one instant, with its last use.
//!
//! A client makes its next use once a quarter of the time has passed, in the place of its last one. A
//! write makes it in its own transaction; a read makes it before it is answered, in a transaction
//! that also finds a use which was there. All uses of a cell are of one time: a write with another
//! one makes the cell anew, and is refused if there is a use that it has not found.
//!
//! # Why the server removes nothing that is in use
//!
//! The server decides by a node's age, or by the lack of children, that it is to go, and removes it by
//! its path, some time later, whatever has become of it. It refuses only if the node has children, or
//! is a session's. So:
//!
//! * A use is never touched once it is made: its name is its own, and its age is that of its creation.
//! * Every node that is a cell, and no session's, has a child from its creation on, in one
//!   transaction. So a removal that was decided for an earlier container at this path is refused.
//!
//! That is why a cell that stays has a child too here.
//!
//! # Limits
//!
//! A server shows a container as a plain node. One whose last child has gone is known by that: the
//! child went after the data was last written. So another program must not make and remove children of
//! a cell that has none.
//!
//! All servers need `zookeeper.extendedTypesEnabled`, and all clients see that they have it when they
//! connect. A cell that a client has made on a server without it has no child; it stays as well, unless
//! an idle cell was at its path less than a round of the server's check before.

mod found;
mod plan;
mod read;
mod write;

pub(super) use found::life;
pub(super) use read::read;
pub(super) use write::write;
