//! Latchwork on etcd 3.4 and later, except 3.5.0 to 3.5.6, which crash when a client cancels a read.
//!
//! # Protocol
//! A queue is a key prefix, and a node is a key with this prefix, on the client's one lease. The create
//! revision of the key is the node's place in the queue and its fencing token. A join is one transaction, and
//! a leave is another. A waiter watches its predecessor, and a holder its own key. An exact address has the
//! layout of etcd's `concurrency.Mutex`, so `etcdctl lock NAME` and a mutex at `Key::exact("NAME")` exclude
//! each other.
//!
//! `docs/protocol/chain.md` has the protocol of queues and why it is safe, `etcd-fast-path.md` a fast path
//! that saves listings and the server's 100 ms interval, and `cells.md` the cells.
//!
//! # Limits
//! If an operator deletes a key or revokes a lease, the holder's watch reports it, perhaps after another node
//! was admitted. Until then, only the fencing token protects the resource, if the holder claims it there
//! before its first read. A queue is designed for up to 1,000 waiters.
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
