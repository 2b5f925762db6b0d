//! Latchwork on etcd 3.4 and later, except 3.5.0 to 3.5.6, which crash when a client cancels a read.
//!
//! # Protocol
//! A queue is a key prefix. A node is a key with this prefix, on the client's one lease. The create
//! revision of the key is the node's place in the queue and its fencing token. A join is one
//! transaction, and a leave is another. A waiter watches its predecessor, and lists the queue again when
//! the predecessor leaves. A holder watches its own key. An exact address has the layout of etcd's
//! `concurrency.Mutex`, so `etcdctl lock NAME` and a mutex at `Key::exact("NAME")` exclude each other.
//!
//! A fast path saves listings and the 100 ms interval at which the server sends events of watches that
//! lag. Near the head, a waiter watches the whole queue. Far from the head, its predecessor notifies it.
//! `docs/protocol/etcd-fast-path.md` explains why this is safe.
//!
//! A cell is one key. It has no lease, or the client's lease (ephemeral), or a separate lease that ends
//! when no client has used the cell for its time to idle. The revision of the cell's last write is its
//! version. A write is one transaction, which compares this revision and, for a held write, the holder's
//! node. A watch of a cell is one more watch on the client's stream.
//!
//! # Why it is safe
//! etcd is linearizable: it never gives a revision twice, and a listing shows every node that joined
//! before it. A node is admitted only by a listing that contains it, or by an admitted node that
//! leaves immediately before it, and only before the client's own deadline
//! (CHAIN-OWN-NODE-AND-DEADLINE to CHAIN-ARM-THEN-LOOK). The deadline counts from the send time of the
//! renewal that was answered, and is a margin shorter than the server's. A late request of an attempt that
//! has ended meets a tombstone, which exists for ten minutes.
//!
//! # Limits
//! If an operator deletes a key by hand or revokes a lease, the holder is notified by its watch. This may
//! happen after another node was admitted. Until then, only the fencing token protects the resource, if
//! the holder claims it in the store before its first read. A queue is designed for up to 1,000 waiters.
//!
//! The build needs `protoc` and the well-known `.proto` files (Debian: `protobuf-compiler` and
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
