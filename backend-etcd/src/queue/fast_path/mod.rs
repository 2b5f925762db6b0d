//! The fast path of exclusive nodes saves listings and the server's 100 ms sync
//! (`docs/protocol/etcd-fast-path.md`). Clients with and without it may share a queue.
//!
//! *Near the head* a waiter subscribes to a long-lived watch on the whole queue. If its listing showed every
//! node ahead, the departure of the last one admits it.
//!
//! *Far from the head* a waiter watches its predecessor's key. In the queue of a mutex, a predecessor that
//! was [17th or later](waiter) also writes a *release notice* into the waiter's inbox when it leaves: the
//! notice of an admitted node admits.

mod handover;
mod release_notice;
mod verify;
mod waiter;

pub(crate) use handover::Handover;
pub(crate) use release_notice::Successor;
pub(crate) use verify::verify_in_background;
pub(crate) use waiter::{FastWait, Woken};
