//! The fast path of exclusive nodes: it saves listings and the server's 100 ms sync. The plain
//! protocol is correct without it, and clients with and without it may share a queue.
//! `docs/protocol/etcd-fast-path.md` has the whole argument.
//!
//! *Near the head* a waiter subscribes to a long-lived watch on the whole queue, which is prompt.
//! If its listing showed every node ahead, the departure of the last of them admits it without
//! another listing. No node can join ahead, because create revisions only rise. An earlier removal
//! of the own node would have been reported first on the same watch, or with the answer to the join
//! if the watch was ahead of that answer.
//!
//! *Far from the head* that watch would wake every client. There a waiter watches its predecessor's
//! key. In the queue of a mutex, the predecessor also writes a *release notice* into the waiter's
//! inbox when it leaves: the notice of an admitted node admits. A node that was [17th or
//! later](waiter) in the queue writes a notice, and the nodes after it rely on it. Each client
//! watches ONE prefix for all its inboxes as long as it waits far from the head, because etcd
//! serves a new watch late if it starts in the past.
//!
//! The queue calls this module in three places: a wait ([`FastWait::behind`]), an admission
//! ([`FastWait::admitted`]) and a leave ([`Handover::leave`]).

mod handover;
mod release_notice;
mod verify;
mod waiter;

pub(crate) use handover::Handover;
pub(crate) use release_notice::Successor;
pub(crate) use verify::verify_in_background;
pub(crate) use waiter::{FastWait, Woken};
