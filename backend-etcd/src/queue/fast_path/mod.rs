//! The fast path of exclusive nodes: it saves listings and the server's 100 ms sync. The plain protocol is
//! correct without it, and clients with and without it may share a queue. `docs/protocol/etcd-fast-path.md`
//! has the argument.
//!
//! *Near the head* a waiter subscribes to a long-lived watch on the whole queue. If its listing showed every
//! node ahead, the departure of the last of them admits it: no node can join ahead, and an earlier removal of
//! the own node would have been reported first.
//!
//! *Far from the head* a waiter watches its predecessor's key. In the queue of a mutex, the predecessor also
//! writes a *release notice* into the waiter's inbox when it leaves: the notice of an admitted node admits. A
//! node that was [17th or later](waiter) writes a notice, and the nodes after it rely on it.

mod handover;
mod release_notice;
mod verify;
mod waiter;

pub(crate) use handover::Handover;
pub(crate) use release_notice::Successor;
pub(crate) use verify::verify_in_background;
pub(crate) use waiter::{FastWait, Woken};
