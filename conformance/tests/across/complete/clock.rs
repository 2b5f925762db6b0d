use std::collections::BTreeSet;

use latchwork_conformance::cases;
use latchwork_conformance::selection::{Tier, is_played_on};
use latchwork_conformance::servers::Kind;

const TIMED: &[&str] = &[
    "LEASE-EXPIRY",
    "LEASE-DEADLINE",
    "LEASE-ALIVE",
    "LEASE-STATE",
    "LEASE-REOPEN",
    "LEASE-RENEWAL",
    "LEASE-CLOSE",
    "LEASE-FIXED",
    "NODE-DEATH",
    "NODE-GONE",
    "NODE-NO-LOST-WAKE",
    "CELL-IDLE",
    "CELL-EPHEMERAL",
    "WATCH-QUEUE",
    "MUTEX-AT-LEAST",
    "QUORUM-VALIDITY",
    "QUORUM-AMNESIA",
    "CLIENT-GONE",
];

#[test]
fn each_server_has_a_case_in_real_time_for_every_clause_with_a_time() {
    let all = cases::all();
    for server in Kind::ALL.map(|kind| kind.to_string()) {
        let played = all.iter().filter(|case| case.keeps_time() && is_played_on(case, &server, Tier::One));
        let timed: BTreeSet<_> = played.map(|case| case.clause).collect();
        let missing: Vec<_> = TIMED.iter().filter(|clause| !timed.contains(*clause)).collect();
        assert!(missing.is_empty(), "no case keeps time for {missing:?} on {server}: tag one `clock`");
    }
}

/// A waiter must find an expiry without an event.
#[test]
fn expiry_is_found_in_each_kind_of_queue() {
    let all = cases::all();
    for name in ["node_death_is_found_by_waiters_of_each_kind", "watch_queue_reports_a_death"] {
        assert!(
            all.iter().any(|case| case.name == name && case.keeps_time()),
            "{name} is not tagged `clock`"
        );
    }
}
