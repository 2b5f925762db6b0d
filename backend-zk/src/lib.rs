//! Latchwork on ZooKeeper 3.5.3 and later.
//!
//! # Layout
//!
//! `/<namespace>/<kind>/<key>/<node>`: namespace and kind (and `client`, `limits`, `released`) are plain nodes, made at connect;
//! the key's is a container, which the server removes when it is empty. Each client has an ephemeral node
//! `/<namespace>/client/<id>` with its label. Nodes of mutexes and read/write locks are named as Curator
//! names them, so that [`Address::exact`](latchwork_core::Address::exact) of a queue's path shares a lock with
//! `InterProcessMutex` and `InterProcessReadWriteLock`. With a login (`user:password@`, the digest scheme) what is
//! made can be used by that login only, else by all. Directories that were made without one are open to all whoever logs in later:
//! a client with a login warns of them when it connects.
//!
//! # Protocol, and why it is safe
//!
//! A join makes a sequential ephemeral node and lists the queue, pipelined: one round trip. On one connection the
//! listing sees the own node, and so all that were made before it: it can only show too many ahead, never too few. Who
//! stood far from the head twice behind the same one watches that one by its name instead. Who
//! comes back before anybody else has joined, as the counter behind its own last one's tells, is let in without a listing. The
//! counter in the name orders the queue; the fencing token is the node's `czxid`, the ensemble's own transaction number,
//! which goes on rising when an empty queue was removed and its counter began anew. A create whose reply was
//! lost is looked for by its id behind a `sync`, and counts only if it hangs on this session.
//!
//! In a mutex who had several ahead while it waited tells its release: it makes and deletes `/<namespace>/released/<node>` and
//! deletes the node, in one transaction. Whoever stands right behind it watches for both, and is admitted by the two events together,
//! without a request (one that lasts is looked at later). It is not believed where others than those who may delete nodes of queues
//! may make nodes in `released`; behind a mere deletion (a wait that was given up, a session that ended, somebody's hand), and
//! where that directory is missing or may not be written, it lists.
//!
//! Nobody is admitted by a listing alone: the session may have expired at the leader, unseen by a server that lags. The
//! lease's own deadline decides last; it counts from the contact *before* the last acknowledged write, since a
//! follower tells its leader of its clients only at intervals.
//!
//! A client that is disconnected asks the servers for their last transaction. Where that is one from before its own last proof they have
//! lost data, and its session: what it holds is lost as `Forgotten`, and who waits joins anew.
//!
//! # Limits
//!
//! * A refused try leaves a node for a moment: another's try on a free lock may be refused for it.
//! * The server grants sessions of 2 to 20 ticks unless configured otherwise. More than was asked is used as granted;
//!   less is an error. A tick above 2 s must be told (`tick=…`). A TTL of one and a half ticks or less is
//!   refused, so a shorter tick must be told too where the TTL is 3 s or less.
//! * Of several hosts, one that is silent for a share of the TTL and of the time for connecting (1.7 s by default, 1 s at a
//!   TTL of 6 s) is left for another, and a server may be silent as long as it waits for the commit of an own write: raise both
//!   where servers stand still, or take to commit, for longer.
//! * A directory counts its creations up to 2^31-1, and then numbers nodes alike. A join that is given that number, or a
//!   negative one, is refused (`Misconfigured`, with the directory's path): nobody can join until it was empty and is deleted, by
//!   hand or by the server some minutes later.
//! * A reader that Curator turned from a writer does not tell its former number: it is listed under a new one, and pages
//!   of a listing that end with it leave out those behind it.
//! * The client crate bounds no answer: a listing that announces 2^31-1 children aborts the process, and a message of 2 GB is
//!   collected before it is looked at. No ZooKeeper sends either.
//! * No SASL, and no TLS yet.

mod backend;
mod config;
mod driver;
mod error;
#[cfg(test)]
mod fuzz;
mod guard;
mod hello;
mod history;
mod incarnation;
mod lease;
mod limit;
mod list;
mod lookouts;
mod names;
mod node;
mod nodes;
mod tags;
mod tasks;
mod trust;
mod wait;

pub use backend::{ZooKeeperBackend, ZooKeeperConnector, connector};
