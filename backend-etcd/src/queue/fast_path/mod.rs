//! The fast path of exclusive nodes: it saves listings and the server's 100 ms sync. The plain
//! protocol is right without it, and clients with and without it may share a queue.
//! `docs/protocol/etcd-fast-path.md` has the whole argument.
//!
//! *Near the head* a waiter subscribes to the queue's own long-lived watch, which is prompt. When
//! its listing showed every node ahead, the departure of the last of them admits it without another
//! listing. No node can come in ahead, since create revisions only rise. An earlier removal of the
//! own node would have come first on that same watch, or with the answer to the join if the watch
//! ran ahead of it.
//!
//! *Far from the head* that watch would wake every client. There a waiter watches its predecessor's
//! key, and in the queue of a mutex its predecessor writes a *release notice* into its inbox when
//! it leaves: the notice of an admitted node admits. A node that was [17th or later](waiter) in
//! line writes one, and a node after that relies on one. Each client watches ONE prefix for all its
//! inboxes, as long as it waits far from the head: etcd serves a new watch late when it starts in
//! the past.
//!
//! The rest of the queue calls this module in three places: a wait ([`FastWait::behind`]), an
//! admission ([`FastWait::admitted`]) and a leave ([`Handover::leave`]).

mod handover;
mod release_notice;
mod verify;
mod waiter;

pub(crate) use handover::Handover;
pub(crate) use release_notice::Successor;
pub(crate) use verify::verify_in_background;
pub(crate) use waiter::{FastWait, Woken};
