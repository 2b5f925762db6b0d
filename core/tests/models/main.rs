//! Models of the protocols, explored over core's own decisions (`latchwork_core::decide`).
//!
//! Three models, each of a coordinator, its clients and all that may go wrong between them. What core decides is
//! called, not copied: the Redis queue is [`Queue`](latchwork_core::decide::queue::Queue) itself, where a node stands
//! in a chain is [`standing`](latchwork_core::decide::chain::standing), and deadlines, margins, renewals and proofs of
//! contact are core's functions at ticks of 200 ms. What lives in a backend's shell (list again after an event, take a
//! hand-off message, leave by tombstone) is stated in the models' client steps, with the name of its rule.
//!
//! * **A, `redis`**: two to five clients and the node queue, for exclusive, shared and weighted claims. Messages are late,
//!   lost and reordered, requests repeated; clients cancel, crash, pause (to the model: do nothing while time goes on),
//!   try, renew and look again; clocks drift and the server's steps back. A plain second queue is compared
//!   with core's over random histories, and takes the faults that sit in a server.
//! * **B, `chain`**: two to six clients and nodes in create order. ZooKeeper with views that lag, etcd with requests that are
//!   carried out late; watches and their events, arming, lost watches, unknown creates, marks, changes of the limit, releases
//!   that are told, on etcd to the next one, downgrades, crashes, expiry. Time is an order only: a deadline passes before its session expires.
//! * **C, `lease`**: nodes renewed in batches on Redis, and a ZooKeeper session behind a follower that forwards touches with its
//!   pings and may be cut off; drift, a machine's sleep, failovers that extend and that forget. And a hold that its own client ends, by a fixed end or
//!   a close, while something that was begun under it goes on.
//!
//! A fourth, D, of an owner's tasks, stands beside the ledger that it calls, in `src/reentrancy/model.rs`.
//!
//! **Bounds.** Every state is visited of: A, two clients with three attempts, one loss and one crash over one TTL of two ticks
//! (three with `LATCHWORK_LONG=1`), three clients without time, and what each rule's own test names (a TTL of two to six
//! ticks, up to three of time); at most two or three messages are on their way when a client sends. B, three clients (four where a
//! rule needs them) with one unknown outcome, one failure and one lost watch, or one downgrade; two clients whose names are
//! used again, with two unknown outcomes and one failure. C, two nodes over five ticks, a session over 30. Beyond that,
//! walks: `LATCHWORK_SEED` and `LATCHWORK_STEPS` repeat one, `LATCHWORK_LONG=1` makes them thirty times as long. From every
//! state that is visited a fault-free run must serve who waits within the bound and leave nothing.
//!
//! **Faults.** Each test named after a rule plants the opposite of that rule, asserts that it is found as what
//! the rule prevents, prints a shortest trace, and explores the same bounds without it, where nothing may be found.
//!
//! **Not modelled.** More than 256 expired nodes at once, tombstones that end (after ten minutes), Redis Cluster, Sentinel and
//! a failover in the middle of a queue, memory limits, foreign entries, `sync` at a deposed leader, ZooKeeper's
//! wrap of name suffixes, and the order of one client's requests on one connection (the models reorder all of them).

mod chain;
mod explore;
mod lease;
mod redis;

use std::time::Duration;

use latchwork_core::Moment;

/// The unit of time: the least margin (200 ms), so that core's own arithmetic works in whole ticks.
const TICK: Duration = Duration::from_millis(200);

fn moment(ticks: u8) -> Moment {
    Moment::from_nanos(0) + ttl_of(ticks)
}

fn ttl_of(ticks: u8) -> Duration {
    TICK * u32::from(ticks)
}
