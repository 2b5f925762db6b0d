//! Models of the protocols, over core's own decisions (`latchwork_core::backend::decide`).
//!
//! A model states the part of a backend (list again after an event, leave with a tombstone) in its steps,
//! with the name of the rule. `docs/protocol/rules.md` lists the rules, their models and the decisions that
//! they run. Time is in ticks of 200 ms, or only an order (`chain`, `hold`).
//!
//! **Bounds.** The models visit every state within the bounds of `rules.rs`, and random walks go further.
//! `LATCHWORK_SEED` and `LATCHWORK_STEPS` repeat a walk. Tier 2 runs the modules `larger`, and
//! `LATCHWORK_LONG=1` raises bounds and makes walks thirty times as long. In `redis` and `chain` a run without
//! faults from each visited state must serve all live waiters and leave no node. The main bounds:
//!
//! - `redis`: two clients, one attempt each, one loss, two ticks; larger: three attempts and one crash. Three
//!   clients without time; larger: one loss. At most three messages are on their way when a client sends.
//! - `chain`: three or four clients with one unknown outcome, one failure and one lost watch, or with one
//!   downgrade; two clients that use names again.
//! - `lease`: two nodes over five ticks, a session over 30.
//!
//! **Faults.** Each test of a rule plants its opposite. The model must find the damage that the rule
//! prevents, and finds nothing within the same bounds without the fault.
//!
//! **Not modelled.** More than 256 expired nodes at once; tombstones that end (after ten minutes); Redis
//! Cluster, Sentinel and a failover in the middle of a queue; memory limits; foreign entries; `sync` at a
//! deposed leader; the wrap of ZooKeeper's name suffixes; the order of requests on one connection (the models
//! reorder all of them).

mod barrier;
mod chain;
mod count;
mod explore;
mod gather;
mod hold;
mod layout;
mod lease;
mod moving;
mod owner;
mod queues;
mod quorum;
mod redis;

use std::time::Duration;

// The ledger imports it by this path.
use latchwork_core::Moment;

/// The least margin, so that core's arithmetic works in whole ticks.
const TICK: Duration = Duration::from_millis(200);

fn moment(ticks: u8) -> Moment {
    Moment::from_nanos(0) + ttl_of(ticks)
}

fn ttl_of(ticks: u8) -> Duration {
    TICK * u32::from(ticks)
}
