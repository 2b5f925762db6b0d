//! Latchwork on Redis and Valkey.
//!
//! # The protocol
//! A queue is a sorted set of nodes by sequence number, one by expiry, and a hash with each node's
//! data. Every operation on it is one Lua script, which the server runs alone: it drops all expired
//! nodes, acts, and admits by the rule over the whole queue. So no newcomer overtakes a waiter, and
//! a crash in mid-queue delays no other client.
//!
//! - *Join and leave* are one request each. Without contention the queue is *folded* into one
//!   key.
//! - *Leases.* Each node expires by itself. Its deadline is the send time of the last join or
//!   renewal with an answer, plus the TTL, less the margin. All nodes of a client are renewed in
//!   batches, every third of the TTL, and a waiter's renewal also answers where it stands.
//! - *Hand-off.* The script of a leave admits the next node, and publishes that to the inbox of its
//!   client. The message proves itself by a secret that the join has stored with the node; the
//!   winner sends nothing. A lost message is healed by the next renewal.
//! - *Tokens* are sequence numbers: the server's microseconds, or the last number plus one,
//!   whichever is higher. The last one is kept for 24 hours after a queue's last use (`remember` in
//!   the URL or `Config`).
//! - *Cells* are hashes of value and version. One script checks the condition, and for a held write
//!   the holder's node, and writes and publishes. Versions are numbered as tokens are, and have a
//!   random half beside, which the script compares. An *ephemeral* cell expires, and is renewed
//!   beside the nodes.
//! - *Watches.* A watch of a cell, or of a queue of an observed kind, is a subscription to its
//!   channel, and a look when something there may have expired: the server tells nobody of that. It
//!   costs a request in two thirds of the TTL or more while nodes are renewed.
//! - *Replicas.* An acquisition may ask that replicas confirm it: a connection of its own renews the
//!   node and asks `WAIT` before there is a hold.
//! - *Unknown outcomes.* A join that may arrive after its attempt is over meets a tombstone.
//! - *Sentinel.* `redis-sentinel://` goes by most Sentinels at each dial, and the server itself must say
//!   that it leads: `docs/protocol/redis-sentinel.md`.
//! - *Cluster.* All keys of a queue have one hash tag, so each script runs on the server of its slot.
//!   Every connection listens to the inbox: `docs/protocol/redis-cluster.md`.
//!
//! `docs/protocol/redis-queue.md` in the repository has the whole protocol, and why it is safe.
//!
//! # What Redis cannot give
//! A failover of an asynchronous replica may forget a lock, and a server that evicts keys throws
//! locks away: see [`Capabilities`](latchwork_core::Capabilities). The fencing token is the answer,
//! as long as its order is kept. It is not kept when a queue's last number is gone *and* the
//! server's clock is behind it: after a longer idle time, an operator's `DEL`, an eviction, or a
//! failover that forgot the last writes.
//!
//! # Names on the server
//! `<namespace>:<kind>:{<key>}:<part>` with the parts `seq exp node meta`, or `one` in place of
//! these four (folded; not of semaphores), `writers` (read/write locks), `limit` (semaphores) and
//! `left` (tombstones), and the channels `<namespace>:inbox:<client id>` and, of an observed queue,
//! `…:news`. A cell has the one part `cell`, which is the name of its channel too; it stays until it
//! is deleted, or its client's lease ends. An exact address has no namespace: `<kind>:{<name>}:<part>`; a name with a brace is refused.
//!
//! To remove a node by hand: `DEL <…>:one`, or without that key, `ZREM <…>:seq <node id>`. Its
//! owner learns `Revoked` at its next renewal, and the next node is admitted. (The owner of a node
//! that this library revokes learns it at once.)
//!
//! # Options
//! | option | meaning |
//! |---|---|
//! | `strict` | `true`: refuse a server that may evict locks, rather than warn |
//! | `remember` | how long the last token of a key is kept after its last use, 1 s to 366 days (default 24 h). Tokens also rise without it, unless the server's clock is set back by more than the key was idle |
//! | `min_replicas` | [how many replicas](latchwork_core::Config::min_replicas) must confirm an acquisition |
//! | `cluster` | `true`: the hosts are some servers of a Redis Cluster (`redis-cluster://h1,h2`) |
//! | `sentinel_service` | the hosts are Sentinels, which watch the master under this name (`redis-sentinel://h1,h2/service`) |
//! | `sentinel_user`, `sentinel_password` | the login at the Sentinels; the login at the master is `user` and `password` |
//!
//! # What the server must allow
//! Redis 6.2 or newer (tested: 6.2, 7.0, 8.2), or Valkey (tested: 9.1). This ACL is enough:
//! `+@read +@write +@pubsub +@scripting +@connection -@dangerous +time +info` on
//! `~<namespace>:* &<namespace>:*`. Without `SCAN` only the listing of queues is refused. With
//! `min_replicas` before Redis 7 also `+wait`. In a cluster also `+cluster|slots`.

mod backend;
mod cells;
mod client;
mod config;
mod connector;
mod driver;
mod error;
mod facts;
#[cfg(test)]
mod internals;
mod layout;
mod lease;
mod queue;
mod renewal;
mod scripts;
mod walk;
mod watch;

pub use backend::RedisBackend;
#[doc(hidden)]
pub use connector::delete_namespace;
pub use connector::{RedisConnector, connector};
