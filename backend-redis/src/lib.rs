//! Latchwork on Redis and Valkey.
//!
//! # The protocol
//! A queue is a few keys with one hash tag. Every operation on it is one request: a Lua script drops expired
//! nodes, does its work, and admits nodes. Each node expires separately; the client renews its nodes in
//! batches, once in each third of the TTL. A leave publishes the next admission to the inbox of that node's
//! client. Tokens are sequence numbers: the server's time in microseconds or the last number plus one,
//! whichever is higher.
//!
//! `redis-queue.md`, `cells.md`, `redis-sentinel.md` and `redis-cluster.md` in `docs/protocol` of the
//! repository describe the protocol, and why it is safe.
//!
//! # What Redis cannot guarantee
//! A failover to an asynchronous replica may lose a lock, and a server that evicts keys may delete locks: see
//! [`Capabilities`](latchwork_core::Capabilities). The fencing token then protects the resource, if the
//! holder claims it there before its first read, and as long as tokens rise. They may fall if a queue's last
//! number is gone *and* the server's clock shows less than that number. The number is gone after an idle time
//! longer than `remember`, an operator's `DEL`, an eviction, or a failover that lost the last writes.
//!
//! # Names on the server
//! A key is `<namespace>:<kind>:{<key>}:<part>`. An exact address has no namespace, and must not contain a
//! brace: `<kind>:{<name>}:<part>`.
//!
//! | part | content |
//! |---|---|
//! | `seq`, `exp`, `node`, `meta` | the queue |
//! | `one` | the folded queue, in place of these four keys (not for semaphores) |
//! | `writers` | the writers of a read/write lock |
//! | `limit` | the stored limit of a semaphore |
//! | `left` | the tombstones |
//! | `cell` | a cell, and also the name of its channel. It exists until it is deleted, its client's lease ends (ephemeral), or no client uses it for its time to idle |
//!
//! The channels are `<namespace>:inbox:<client id>` and, for an observed queue, `…:news`.
//!
//! To remove a node by hand: `DEL <…>:one`, or if that key does not exist, `ZREM <…>:seq <node id>`. The
//! owner of the node gets `Revoked` at its next renewal, and the next node is admitted.
//!
//! # Options
//! | option | meaning |
//! |---|---|
//! | `strict` | `true`: refuse a server that may evict locks; the default is a warning |
//! | `remember` | how long the last token of a key is kept after its last use, 1 s to 366 days (default 24 h). After that time tokens still rise, unless the server's clock is set back by more than the idle time of the key |
//! | `min_replicas` | [how many replicas](latchwork_core::Config::min_replicas) must confirm an acquisition |
//! | `cluster` | `true`: the hosts are servers of a Redis Cluster (`redis-cluster://h1,h2`) |
//! | `sentinel_service` | the hosts are Sentinels, which watch the master under this name (`redis-sentinel://h1,h2/service`) |
//! | `sentinel_user`, `sentinel_password` | the login at the Sentinels; the login at the master is `user` and `password` |
//!
//! # What the server must allow
//! Redis 6.2 or later (tested: 6.2, 7.0, 8.2), or Valkey (tested: 9.1). This ACL is enough:
//! `+@read +@write +@pubsub +@scripting +@connection -@dangerous +time +info` on
//! `~<namespace>:* &<namespace>:*`. Without the right to `SCAN`, only the listing of queues is refused.
//! `min_replicas` also needs `+wait` before Redis 7. A cluster also needs `+cluster|slots`.

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
