//! Models of the protocols, over core's own decisions (`latchwork_core::backend::decide`).
//!
//! The part of a backend (list again after an event, accept a hand-off message, leave with a tombstone) is
//! stated in the models' client steps, with the name of its rule. `docs/protocol/rules.md` lists the rules,
//! their models and the decisions that each model runs. Time is in ticks of 200 ms, or only an order
//! (`chain`, `hold`).
//!
//! **Bounds.** The models visit every state within these bounds. Modules `larger` have larger bounds: tier 2
//! runs them.
//!
//! * `redis`: two clients with one attempt each and one loss over one TTL of two ticks, and (larger) with
//!   three attempts and one crash (three ticks with `LATCHWORK_LONG=1`); three clients without time, with
//!   (larger) a loss; and the bounds of each rule's own test (a TTL of two to six ticks, up to three of
//!   time). A client sends only while at most two or three messages are on their way.
//! * `chain`: three clients (four if a rule needs them) with one unknown outcome, one failure and one lost
//!   watch, or one downgrade; two clients that use names again, with two unknown outcomes and one failure.
//! * `lease`: two nodes over five ticks, a session over 30.
//!
//! Random walks go further: `LATCHWORK_SEED` and `LATCHWORK_STEPS` repeat one, `LATCHWORK_LONG=1` makes them
//! thirty times as long. From every visited state, a fault-free run must serve all live waiters within the
//! bound and leave nothing.
//!
//! **Faults.** Each test of a rule plants the opposite of that rule. It asserts that the model finds the
//! damage that the rule prevents, prints a shortest trace, and finds nothing within the same bounds without
//! the fault.
//!
//! **Not modelled.** More than 256 expired nodes at once; tombstones that end (after ten minutes); Redis
//! Cluster, Sentinel and a failover in the middle of a queue; memory limits; foreign entries; `sync` at a
//! deposed leader; the wrap of ZooKeeper's name suffixes; and the order of one client's requests on one
//! connection (the models reorder all of them).

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

/// The least margin (200 ms), so that core's own arithmetic works in whole ticks.
const TICK: Duration = Duration::from_millis(200);

fn moment(ticks: u8) -> Moment {
    Moment::from_nanos(0) + ttl_of(ticks)
}

fn ttl_of(ticks: u8) -> Duration {
    TICK * u32::from(ticks)
}
