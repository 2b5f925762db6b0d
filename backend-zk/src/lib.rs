//! Latchwork on ZooKeeper 3.5.3 and later.
//!
//! # Layout
//!
//! The path of a queue node is `/<namespace>/<kind>/<key>/<node>`. The directory of a key is a container
//! node, which the server removes when it is empty. The nodes of the namespace, the kinds, `client`, `limits`
//! and `released` are plain nodes. Each client has an ephemeral node `/<namespace>/client/<id>` with its
//! label.
//!
//! A cell is the plain node `/<namespace>/<kind>/<key>` with the value, or at an exact address
//! `<path>:latchwork-<kind>/cell`. It is a container if it is an idle cell, and ephemeral if it belongs to
//! its writer. Its directory is never removed.
//!
//! Mutexes, read/write locks and elections have the node names of Curator. So
//! [`Key::exact`](latchwork_core::Key::exact) of a queue's path shares a lock with `InterProcessMutex` and
//! `InterProcessReadWriteLock`, and an election with `LeaderLatch`.
//!
//! With a login (`user:password@`, by the digest scheme or by SASL), only that login may use the nodes that a
//! client creates. A directory that was created without a login stays open to all clients: a client with a
//! login logs a warning about it when it connects.
//!
//! # Options
//!
//! | option | meaning |
//! |---|---|
//! | `tick` | an upper bound of the server's tickTime (default 2 s). A TTL of one and a half ticks or less is refused |
//! | `sasl` | `true`: log in by SASL (DIGEST-MD5) instead of the digest scheme. It needs the crate feature `sasl` |
//!
//! # Protocol
//!
//! A join creates a sequential ephemeral node and lists the queue, in one round trip. The counter in the name
//! orders the queue, and the node's `czxid` is the fencing token, which rises even if an empty queue was
//! removed. A waiter watches its predecessor, and lists the queue again at each event. A server that lags
//! still shows the node of an expired session, so the client also checks its lease's deadline.
//!
//! A cell's version is the transaction that wrote it. An idle cell needs a server that supports nodes with a
//! TTL. If the servers' last transaction is older than the last proof of a disconnected client, they have
//! lost data: its holds are lost as `Forgotten`, and its waiters join again.
//!
//! `chain.md`, `lease.md`, `cells.md` and `zookeeper-fast-path.md` in `docs/protocol` explain why this is
//! safe.
//!
//! # Limits
//!
//! * A refused try leaves a node for a moment, which may cause another client's try on a free lock to be
//!   refused.
//! * The server grants sessions of 2 to 20 ticks unless it is configured otherwise. A longer session than
//!   requested is used; a shorter one is an error. Set `tick` to the server's tickTime if that is above 2 s,
//!   and for a TTL of 3 s or less.
//! * If a server restarts with a lower `maxSessionTimeout` or `tickTime`, it grants less time to an open
//!   session that reconnects, and the client learns of this only over TLS. For up to the difference, two
//!   clients may hold a lock. Lower these settings only while no client with a longer TTL is connected.
//! * If the URL has several hosts, a client leaves a host that is silent for a share of the TTL and of the
//!   time for connecting (1.7 s by default, 1 s at a TTL of 6 s). Raise both if servers pause for longer.
//! * A directory counts its creations up to 2^31-1, and then reuses numbers. A join that gets this number or
//!   a negative number is refused (`Misconfigured`, with the directory's path). No client can join until the
//!   directory is empty and has been deleted, by hand or by the server after some minutes.
//! * Curator's reader node that was a writer is listed under a new number. A page of a listing that ends with
//!   it leaves out the entries after it.
//! * Other programs must not delete and recreate a cell or its directory while clients use earlier versions.
//! * The client crate does not limit the size of answers: a listing that announces 2^31-1 children aborts the
//!   process. ZooKeeper sends none.
//! * The only SASL mechanism is DIGEST-MD5 (crate feature `sasl`), so Kerberos is not supported. TLS (crate
//!   feature `tls`) is a relay in the client's process.

mod backend;
mod cell_uses;
mod cells;
mod change_watch;
mod client;
mod config;
mod connector;
mod contended;
mod driver;
mod error;
mod facts;
#[cfg(test)]
mod fuzz;
mod incarnation;
mod layout;
mod lease;
mod namespace;
mod opening;
mod probe;
mod queue;
mod renewal;
mod sweep;
mod walk;
mod watch;

pub use backend::ZooKeeperBackend;
#[cfg(feature = "controls")]
pub use connector::connector_without_fast_path;
#[doc(hidden)]
pub use connector::delete_namespace;
pub use connector::{ZooKeeperConnector, connector, connector_without_sasl};
