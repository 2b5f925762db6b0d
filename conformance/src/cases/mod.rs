//! The cases.

pub mod attempt;
pub mod barrier;
pub mod cancel;
pub mod cell;
pub mod cell_held;
pub mod cell_key;
pub mod cell_list;
pub mod cell_unknown;
pub mod chaos;
pub mod clients;
pub mod closing;
pub mod confirm;
pub mod contended;
mod contender;
pub mod count;
pub mod counted;
pub mod downgrade;
pub mod election;
pub mod election_data;
pub mod election_seen;
pub mod ephemeral;
mod everywhere;
pub mod fleet;
pub mod futures;
pub mod group;
pub mod held;
pub mod idle;
pub mod key;
mod key_pages;
pub mod killed_leader;
pub mod label;
pub mod lease;
pub mod lease_end;
pub mod least;
pub mod limit;
pub mod limited;
pub mod load;
pub mod migrate_gate;
pub mod migrate_steps;
pub mod multi;
pub mod mutex;
pub mod node;
pub mod node_seen;
pub mod node_wait;
pub mod observed;
pub mod operator;
pub mod outlived;
pub mod process;
pub mod queue_watch;
pub mod quorum;
pub mod reentry;
pub mod rwlock;
pub mod seen;
pub mod semaphore;
pub mod soak;
pub mod upgrade;
pub mod watch;

pub use everywhere::ON_EVERY_TOPOLOGY;

use crate::case::Case;

/// The clauses in the rustdoc of `latchwork_core::backend` and `Address`.
pub const CLAUSES: &[&str] = &[
    "KEY-OPAQUE",
    "KEY-KINDS",
    "KEY-EXACT",
    "LEASE-ALIVE",
    "LEASE-STATE",
    "LEASE-DEADLINE",
    "LEASE-TTL",
    "LEASE-FIXED",
    "LEASE-CLOSE",
    "LEASE-REOPEN",
    "LEASE-EXPIRY",
    "LEASE-RENEWAL",
    "NODE-ORDER",
    "NODE-TOKEN",
    "NODE-ADMIT",
    "NODE-ONE-TRIP",
    "NODE-WAIT",
    "NODE-NO-LOST-WAKE",
    "NODE-IDEMPOTENT",
    "NODE-LEAVE-OWN",
    "NODE-CANCEL",
    "NODE-DEATH",
    "NODE-GONE",
    "NODE-FOREIGN",
    "NODE-LIST",
    "NODE-DATA",
    "NODE-QUEUES",
    "NODE-LIMITS",
    "NODE-CONFIRM",
    "CELL-CAS",
    "CELL-HELD",
    "CELL-STAY",
    "CELL-EPHEMERAL",
    "CELL-IDLE",
    "CELL-UNKNOWN",
    "CELL-COUNT",
    "CELL-LIST",
    "WATCH-ORDER",
    "WATCH-END",
    "WATCH-QUEUE",
];

/// The clauses of recipes and capabilities.
pub const PROPERTIES: &[&str] = &[
    "MUTEX-EXCLUSION",
    "MUTEX-FAIR",
    "MUTEX-TRY",
    "MUTEX-WITHIN",
    "MUTEX-RELEASE",
    "MUTEX-RUN",
    "MUTEX-OPTIONS",
    "MUTEX-AT-LEAST",
    "REENTRY-OWNER",
    "REENTRY-COUNT",
    "REENTRY-LOSS",
    "REENTRY-RACE",
    "RWLOCK-ORDER",
    "RWLOCK-CANCEL",
    "RWLOCK-EXCLUSION",
    "RWLOCK-DOWNGRADE",
    "RWLOCK-OWNER",
    "SEMAPHORE-LIMIT",
    "SEMAPHORE-ORDER",
    "SEMAPHORE-CONFLICT",
    "SEMAPHORE-OR-STORED",
    "SEMAPHORE-RESIZE",
    "SEMAPHORE-ARGUMENTS",
    "MULTI-WHOLE",
    "MULTI-ORDER",
    "MULTI-LOSS",
    "MULTI-BOUNDS",
    "QUORUM-MAJORITY",
    "QUORUM-VALIDITY",
    "QUORUM-AMNESIA",
    "QUORUM-ORDER",
    "VALUE-ARGUMENTS",
    "COUNTER-ADD",
    "IDS-UNIQUE",
    "LATCH-OPEN",
    "ELECTION-TERM",
    "ELECTION-DATA",
    "ELECTION-OBSERVE",
    "ELECTION-LOSS",
    "GROUP-MEMBERS",
    "GROUP-WATCH",
    "BARRIER-PASS",
    "BARRIER-LEAVE",
    "CLIENT-LISTED",
    "CLIENT-GONE",
    "CLIENT-AGAIN",
    "LAYOUT-STAMP",
    "LAYOUT-RAISE",
    "MIGRATE-ACK-NAMES-VERSION",
    "MIGRATE-COMPARE-AND-SET",
    "MIGRATE-EPOCH-RECORDED",
    "MIGRATE-GATE",
    "MIGRATE-LIMITS",
    "SEEN-ACQUISITIONS",
    "SEEN-LOSSES",
    "SEEN-OUTAGE",
    "SEEN-LEASE",
    "SEEN-RECHECKS",
    "SEEN-REQUESTS",
    "SEEN-LEVELS",
    "CAPABILITIES",
];

/// Adds the long tier with the value `1`.
pub const LONG: &str = "LATCHWORK_LONG";

/// Returns whether the long tier is played.
pub fn is_long() -> bool {
    std::env::var(LONG).is_ok_and(|value| value == "1")
}

/// All plays in a fixed order, with the long tier if [`LONG`] is set.
pub fn all() -> Vec<Case> {
    let mut cases = of_both_tiers();
    cases.retain(|case| is_long() || !case.long);
    cases
}

pub(crate) fn of_both_tiers() -> Vec<Case> {
    let cases = [
        key::CASES,
        lease::CASES,
        lease_end::CASES,
        closing::CASES,
        node::CASES,
        node_wait::CASES,
        node_seen::CASES,
        label::CASES,
        operator::CASES,
        attempt::CASES,
        cancel::CASES,
        contended::CASES,
        confirm::CASES,
        mutex::CASES,
        multi::CASES,
        quorum::CASES,
        least::CASES,
        process::CASES,
        reentry::CASES,
        migrate_gate::CASES,
        migrate_steps::CASES,
        rwlock::CASES,
        downgrade::CASES,
        semaphore::CASES,
        limit::CASES,
        limited::CASES,
        observed::CASES,
        queue_watch::CASES,
        cell_list::CASES,
        clients::CASES,
        upgrade::CASES,
        cell::CASES,
        cell_held::CASES,
        cell_key::CASES,
        cell_unknown::CASES,
        ephemeral::CASES,
        idle::CASES,
        watch::CASES,
        count::CASES,
        counted::CASES,
        fleet::CASES,
        election::CASES,
        election_data::CASES,
        election_seen::CASES,
        killed_leader::CASES,
        group::CASES,
        barrier::CASES,
        seen::CASES,
        load::CASES,
        outlived::CASES,
        held::CASES,
        soak::CASES,
        chaos::CASES,
    ]
    .concat();
    cases.into_iter().flat_map(Case::plays).collect()
}
