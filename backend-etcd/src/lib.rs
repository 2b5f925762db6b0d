//! Latchwork on etcd (3.4 or later, but for 3.5.0 to 3.5.6, which crash when a client gives up a read).
//!
//! # Protocol
//! A queue is a key prefix. A node is a key under it, on the client's one lease; the create
//! revision of the key is the node's place in the queue and its fencing token. A join is one
//! transaction, a leave another. A waiter watches its predecessor, and lists the queue again when
//! that leaves; a holder watches its own key. At an exact address the layout is that of etcd's own
//! `concurrency.Mutex`, so that `etcdctl lock NAME` and a mutex at `Key::exact("NAME")` exclude
//! each other.
//!
//! On top of that a fast path saves listings and the server's 100 ms sync: near the head a waiter
//! watches the whole queue, and far from it its predecessor notifies it.
//! `docs/protocol/etcd-fast-path.md` has the argument.
//!
//! A cell is one key without a lease, or on one of its own where it goes when nobody uses it; the revision of its last write is its version. A write is one
//! transaction, which compares that revision, and for a held write the holder's own node. A watch
//! of a cell is one more on the client's stream.
//!
//! # Why it is safe
//! etcd is linearizable: it gives out a revision once, and a listing shows every node that joined
//! before it. A node is admitted only by a listing that contains it, or by an admitted node that
//! leaves right before it, and only before the client's own deadline (CHAIN-OWN-NODE-AND-DEADLINE
//! to CHAIN-ARM-THEN-LOOK). The deadline counts from the send of the renewal that was answered, and
//! is a margin shorter than the server's. A late request of an attempt that is over finds a
//! tombstone, which stays for ten minutes.
//!
//! # Limits
//! When somebody deletes a key by hand, or revokes a lease, the watch reports that to its holder,
//! which may be after another node was admitted: the fencing token protects the resource. A queue
//! is made for up to 1,000 waiters.
//!
//! Building needs `protoc` and the well-known `.proto` files (Debian: `protobuf-compiler` and
//! `libprotobuf-dev`).

#![forbid(unsafe_code)]

mod backend;
mod cell_lease;
mod cells;
mod client;
mod config;
mod connector;
mod driver;
mod error;
mod facts;
mod incarnation;
mod layout;
mod lease;
mod probe;
mod queue;
mod renewal;
mod session;
mod walk;
mod watch;

pub use backend::EtcdBackend;
#[cfg(feature = "controls")]
pub use connector::connector_without_fast_path;
#[doc(hidden)]
pub use connector::delete_namespace;
pub use connector::{EtcdConnector, connector};
