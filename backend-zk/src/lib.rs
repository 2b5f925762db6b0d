//! Latchwork on ZooKeeper 3.5.3 and later.
//!
//! # Layout
//!
//! `/<namespace>/<kind>/<key>/<node>`. The directory of a key is a container, which the server
//! removes when it is empty. Namespace, kinds, `client`, `limits` and `released` are plain nodes,
//! made at connect. Each client has an ephemeral node `/<namespace>/client/<id>` with its label.
//!
//! A cell is the plain node `/<namespace>/<kind>/<key>`, and at an exact address
//! `<path>:latchwork-<kind>/cell`. Its directory is made with the first cell in it. The data are the
//! value. A cell stays until it is deleted, or is an ephemeral node of its writer; its directory stays
//! for good.
//!
//! Nodes of mutexes, read/write locks and elections have Curator's names. So
//! [`Key::exact`](latchwork_core::Key::exact) of a queue's path shares a lock with
//! `InterProcessMutex` and `InterProcessReadWriteLock`, and an election with `LeaderLatch`.
//!
//! With a login (`user:password@`, by the digest scheme or by SASL) only that login may use what a
//! client makes, else everybody may. A directory that was made without a login stays open to everybody: a client
//! with a login warns of it when it connects.
//!
//! # Options
//!
//! | option | meaning |
//! |---|---|
//! | `tick` | an upper bound of the server's tickTime (default 2 s). A TTL of one and a half ticks or less is refused |
//! | `sasl` | `true`: log in by SASL (DIGEST-MD5), and not by the digest scheme. It needs the crate feature `sasl` |
//!
//! # Protocol
//!
//! * A *join* makes a sequential ephemeral node and lists the queue, pipelined: one round trip. The
//!   counter in the name orders the queue. The fencing token is the node's `czxid`, the ensemble's
//!   own transaction number, which rises even when an empty queue was removed and its counter began
//!   anew.
//! * A *waiter* watches its predecessor, and lists again at any event.
//! * A *listing* alone admits nobody, since a server that lags still shows the node of an expired
//!   session. The lease's own deadline decides last. It counts from the contact *before* the last
//!   acknowledged write, since a follower reports its clients to the leader only at intervals.
//! * A *create of unknown outcome* is looked for by its id behind a `sync`, and counts only if it
//!   hangs on this session.
//! * A *fast path* saves listings: a client that comes back alone does not list, one far from the
//!   head watches its predecessor by its name, and an announced release in `released` admits the
//!   next waiter of a mutex without a request.
//! * A *cell's version* is the transaction that wrote it (`mzxid`), for which a server has no
//!   comparison. So a write under a version compares, in one transaction, the cell's data version and
//!   that of its directory. The creation of a cell raises the latter, so what was deleted and made
//!   anew does not pass for what was read. Where another cell was made meanwhile, the write reads and
//!   tries again. A *held write* checks the holder's node in the same transaction.
//! * An *ephemeral cell* that is written with another life, or by another client, is deleted and made
//!   anew in one transaction, which raises the generation.
//! * An *idle cell* needs a server that has nodes with a time to live. It is a container, whose children
//!   are its uses, each such a node. There every cell has a child, since a server removes a container
//!   by its path, whatever has taken its place, unless that has children (`cells/idle`).
//! * A *watch of a cell or queue* is armed again before each answer, and answers after each gap: a new
//!   connection, or a new session. A write of a node's data also writes the queue's directory, which
//!   watches of the queue hear.
//! * A *disconnected client* asks the servers for their last transaction. Where that is older than
//!   its own last proof, they have lost data, and its session: its holds are lost as `Forgotten`,
//!   and its waiters join anew.
//!
//! The pages `chain.md`, `lease.md` and `zookeeper-fast-path.md` in `docs/protocol` say why
//! this is safe, rule by rule.
//!
//! # Limits
//!
//! * A refused try leaves a node for a moment. Another client's try on a free lock may be refused
//!   for it.
//! * The server grants sessions of 2 to 20 ticks unless configured otherwise. A longer session than
//!   asked for is used as granted, a shorter one is an error. Set `tick=…` to the server's where it
//!   is above 2 s. A TTL of one and a half ticks or less is refused, so set it too for a TTL of 3 s
//!   or less.
//! * A server that was restarted with a lower `maxSessionTimeout` or `tickTime` grants an open session
//!   less when that reconnects, and the client crate does not tell: for up to the difference two could
//!   hold. Lower them only while no client with a longer TTL is connected. Over TLS the relay reads what
//!   is granted, and ends the session as `Expired`.
//! * Of several hosts, one that is silent for a share of the TTL and of the time for connecting
//!   (1.7 s by default, 1 s at a TTL of 6 s) is left for another. A server may also be silent while
//!   it waits for the commit of an own write. Raise both settings where servers pause, or take to
//!   commit, for longer.
//! * A directory counts its creations up to 2^31-1, and then gives numbers twice. A join with that
//!   number or a negative one is refused (`Misconfigured`, with the directory's path). Nobody can
//!   join until the directory was empty and is deleted, by hand or by the server some minutes
//!   later.
//! * A reader that Curator made of a writer does not show its former number. It is listed under a
//!   new one, and pages of a listing that end with it leave out the entries behind it.
//! * Only this library's creations raise the data version of a directory of cells. Who deletes a cell
//!   or its directory and makes it anew by other means must not do so while clients write under
//!   versions from before.
//! * The client crate does not bound answers: a listing that announces 2^31-1 children aborts the
//!   process, and a message of 2 GB is collected before it is read. No ZooKeeper sends either.
//! * Of SASL, DIGEST-MD5 alone (the crate feature `sasl`): no Kerberos. TLS is the crate feature `tls`; a relay in this process speaks it for the client crate.

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
