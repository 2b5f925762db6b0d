//! Models of the protocols. They run core's own decisions (`latchwork_core::backend::decide`).
//!
//! Each model has a coordinator, its clients, and the failures between them. A model calls core's decisions
//! and does not copy them: the Redis queue is [`Queue`](latchwork_core::backend::decide::queue::Queue), the
//! standing of a node in a chain is [`standing`](latchwork_core::backend::decide::chain::standing), and
//! deadlines, margins, renewals and contact proofs are core's functions at ticks of 200 ms. A backend does
//! the rest (list again after an event, accept a hand-off message, leave with a tombstone). The models'
//! client steps state that, each with the name of its rule in `docs/protocol/rules.md`.
//!
//! * **`redis`**: two to five clients on one Redis queue, with exclusive, shared and weighted
//!   claims. Messages are late, lost and reordered; requests are repeated. Clients cancel, crash,
//!   pause (take no step while time passes), try, renew and look again. Clocks drift, and the
//!   server's clock steps back. A second, plain queue checks core's queue over random histories,
//!   and carries the faults of a server.
//! * **`chain`**: two to six clients, and nodes in create order. ZooKeeper shows views that lag;
//!   etcd carries requests out late. The model has watches, events and arming; lost watches;
//!   unknown creates; marks; changes of the limit; announced releases and release notices;
//!   downgrades, crashes and expiry. Time is an order only: a deadline passes before its session
//!   expires.
//! * **`lease`**: on Redis, nodes that are renewed in batches. On ZooKeeper, a session at a follower that
//!   forwards touches with its pings and can be cut off. Clocks drift, a machine sleeps, a failover extends a
//!   lease or forgets it. Also a hold that its own client ends, by a fixed end or a close, while work that
//!   began under it continues.
//! * **`hold`**: one hold from its first join until the server has nothing of it, over
//!   [`life`](latchwork_core::backend::decide::life). Requests and replies are lost and late, futures are
//!   dropped at any instant, an operator removes the node, the lease ends.
//! * **`gather`**: clients that acquire several locks as one, over
//!   [`gather`](latchwork_core::backend::decide::gather).
//! * **`quorum`**: clients that acquire a majority of members. One model has the order in which clients wait
//!   for each other, over [`quorum`](latchwork_core::backend::decide::quorum). The other has late messages
//!   and a server that forgets, and checks which clients believe that they hold, over
//!   [`trial`](latchwork_core::backend::decide::trial).
//! * **`count`**: writers of a number in a cell, over [`Count`](latchwork_core::backend::decide::count::Count).
//!   Requests and replies are lost and late, operations are given up, the cell is deleted.
//! * **`barrier`**: members of a barrier in consecutive rounds, over
//!   [`Passage`](latchwork_core::backend::decide::barrier::Passage). Members die and come late, and the last
//!   one deletes the cell.
//! * **`layout`**: clients of several builds that register and read the stamp of their namespace, and
//!   operators that raise it, over [`Stamp`](latchwork_core::backend::decide::layout::Stamp). Clients lose
//!   their registrations, operators stop half-way.
//! * **`moving`**: participants of a move between two coordinators, over
//!   [`moving`](latchwork_core::backend::decide::moving). Phases go forward and back, leases are lost,
//!   acknowledgements come late, operators die. Further models have the gate of a move for plain clients,
//!   which take no part in it; its ends (it is given up or finished, and a participant that was away finds no
//!   cell); the values that move with the locks (a count is frozen, copied, compared, and used on the other
//!   side); and the stored limit of a semaphore.
//! * **`owner`**: the tasks of one owner, over the ledger that runs (`src/reentrancy/ledger.rs`).
//!
//! **Bounds.** The models visit every state within these bounds. Modules `larger` have larger bounds:
//! tier 2 runs them. `redis`: two clients with one attempt each and one loss over one TTL of two
//! ticks, and (larger) with three attempts and one crash (three ticks with `LATCHWORK_LONG=1`);
//! three clients without time, with (larger) a loss; and the bounds of each rule's own test (a TTL
//! of two to six ticks, up to three of time). A client sends only while at most two or three
//! messages are on their way.
//! `chain`: three clients (four where a rule needs them) with one unknown outcome, one failure and
//! one lost watch, or one downgrade; two clients that use names again, with two unknown outcomes
//! and one failure. `lease`: two nodes over five ticks, a session over 30. Random walks go further:
//! `LATCHWORK_SEED` and `LATCHWORK_STEPS` repeat one, `LATCHWORK_LONG=1` makes them thirty times as
//! long. From every visited state, a fault-free run must serve all live waiters within the bound
//! and leave nothing.
//!
//! **Faults.** Each test of a rule plants the opposite of that rule. It asserts that the model finds the
//! damage that the rule prevents, and prints a shortest trace. It explores the same bounds without the fault
//! too, and there the model must find nothing.
//!
//! **Not modelled.** More than 256 expired nodes at once; tombstones that end (after ten minutes);
//! Redis Cluster, Sentinel and a failover in the middle of a queue; memory limits; foreign entries;
//! `sync` at a deposed leader; the wrap of ZooKeeper's name suffixes; and the order of one client's
//! requests on one connection (the models reorder all of them).

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

/// The unit of time: the least margin (200 ms), so that core's own arithmetic works in whole ticks.
const TICK: Duration = Duration::from_millis(200);

fn moment(ticks: u8) -> Moment {
    Moment::from_nanos(0) + ttl_of(ticks)
}

fn ttl_of(ticks: u8) -> Duration {
    TICK * u32::from(ticks)
}
