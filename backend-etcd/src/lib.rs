//! Latchwork on etcd (3.4 or later).
//!
//! # Protocol
//! A queue is a key prefix, a node a key under it that hangs on the client's one lease; the create revision of the key is its
//! place and its fencing token. A join is one transaction, a leave another. A waiter watches its predecessor (near the head
//! the queue); a holder is told when its own key is deleted. At an exact address the layout is that of etcd's own
//! `concurrency.Mutex`, so that `etcdctl lock NAME` and a Mutex at `Address::exact("NAME")` exclude each other.
//!
//! # Why it is safe
//! etcd is linearizable: a revision is given out once, and a listing shows every node that joined before it. A node is admitted
//! only by a listing that holds itself, or by the word of an admitted node that leaves right before it (both are shown in `RULES.md`, B1
//! to B3), while the client's own deadline is ahead; the deadline counts from the send of the renewal that was answered, and is a
//! margin shorter than the server's. A late request of an attempt that is over meets a
//! tombstone, which stands for ten minutes.
//!
//! # Limits
//! A key that somebody deletes by hand, or a lease that is revoked, is told to its holder as fast as the watch is, not before
//! another is admitted: the token is the guard. A queue is made for up to 1,000 waiters.
//!
//! Building needs `protoc` and the well-known `.proto` files (Debian: `protobuf-compiler` and `libprotobuf-dev`).

#![forbid(unsafe_code)]

mod backend;
mod backoff;
mod cell;
mod check;
mod config;
mod driver;
mod error;
mod feed;
mod hand_on;
mod incarnation;
mod join;
mod keeper;
mod keys;
mod lease;
mod leftovers;
mod nodes;
mod probe;
mod recheck;
mod stream;
mod terms;
mod view;
mod wait;
mod watch;

pub use backend::EtcdBackend;
pub use config::{EtcdConnector, connector};
