use std::collections::BTreeSet;

use latchwork_conformance::{Adapter, Case, cases};

const OF_ITS_OWN: &[&str] = &[
    "RWLOCK-",
    "SEMAPHORE-",
    "MULTI-",
    "QUORUM-",
    "REENTRY-",
    "KEY-",
    "CELL-",
    "WATCH-",
    "VALUE-",
    "COUNTER-",
    "IDS-",
    "LATCH-",
    "ELECTION-",
    "GROUP-",
    "BARRIER-",
    "CLIENT-",
    "LAYOUT-",
    "MIGRATE-",
    "SEEN-",
    "CAPABILITIES",
];

const PLAYED_ONCE: &[(&str, &str)] = &[
    ("node_order_rises_in_join_order", BELOW),
    ("node_admit_exclusive", BELOW),
    ("node_admit_shared_and_exclusive", BELOW),
    ("node_admit_permits", BELOW),
    ("node_idempotent_a_repeated_join_is_the_same_node", BELOW),
    ("node_death_is_found_by_waiters_of_each_kind", BELOW),
    ("process_stopped_past_its_ttl_knows_at_the_first_call", CLOCK),
    ("node_gone_by_a_forced_release_makes_room", "of readers and of permits"),
    ("node_cancel_thousands_at_random_instants", "plays all recipes itself"),
    ("node_cancel_every_future_of_a_mutex", FUTURES),
    ("node_cancel_every_future_of_a_multi_lock", FUTURES),
    ("node_cancel_every_future_of_a_quorum_lock", FUTURES),
    ("node_cancel_every_future_of_a_reentrant_mutex", FUTURES),
    ("node_cancel_every_future_of_a_rwlock", FUTURES),
    ("node_cancel_every_future_of_a_semaphore", FUTURES),
    ("mutex_under_chaos", "one of three runs of chaos, each over one recipe"),
    ("lease_alive_while_many_guards_are_dropped", WAY),
    ("lease_alive_while_many_guards_are_released", WAY),
    ("lease_alive_while_many_tries_run", WAY),
    ("lease_close_from_another_runtime_is_bounded", RUNTIME),
    ("lease_close_of_many_holds_blocks_no_client", WAY),
    ("lease_close_of_many_is_bounded_while_the_server_is_away", WAY),
    ("lease_renewal_gone_with_its_runtime_is_reported_at_once", RUNTIME),
    ("lease_alive_in_a_soak_of_many_holds", WAY),
    ("soak_ten_thousand_holds", WAY),
    ("node_data_is_listed_and_replaced", BELOW),
    ("node_data_reaches_no_other_node", BELOW),
    ("node_data_admits_no_waiter", BELOW),
    ("node_data_of_a_lost_reply_is_unknown", BELOW),
    ("cell_list_is_by_the_beginning_of_keys", BELOW),
    ("cell_list_shows_the_life_of_each_cell", BELOW),
    ("node_queues_are_listed_by_the_beginning_of_their_keys", BELOW),
    ("node_limits_are_listed_by_the_beginning_of_their_keys", BELOW),
    ("node_limits_are_replaced_where_they_are_known", BELOW),
    ("node_wait_a_thousand_released_one_by_one", RECIPE),
    ("node_wait_readers_and_writers_released_one_by_one", RECIPE),
    ("node_wait_for_permits_released_one_by_one", RECIPE),
];

const FUTURES: &str = "each recipe has a case like this";

const CLOCK: &str = "waits for a lease in real time; a jump of the clock shows the same with every adapter";

const RUNTIME: &str = "is about the runtime of a client; the recipe does not matter";

const WAY: &str = "takes long, and is about the connection to the server";

const RECIPE: &str = "plays one recipe of three, because a long queue takes long";

const BELOW: &str = "joins without a recipe, with the claims that the case tests";

#[test]
fn every_clause_has_a_case_and_every_case_a_clause() {
    let checked: BTreeSet<_> = cases::all().iter().map(|case| case.clause).collect();
    let promised: BTreeSet<_> = cases::CLAUSES.iter().chain(cases::PROPERTIES).copied().collect();
    assert_eq!(checked, promised);
}

#[test]
fn names_are_unique() {
    let cases = cases::all();
    let titles: BTreeSet<_> = cases.iter().map(Case::title).collect();
    assert_eq!(titles.len(), cases.len());
}

#[test]
fn each_mutex_case_runs_with_every_adapter() {
    let cases = cases::all();
    let names: BTreeSet<_> = cases.iter().map(|case| case.name).collect();
    for (name, why) in PLAYED_ONCE {
        // Cases of the long tier exist only there.
        assert!(
            names.contains(name) || name.starts_with("soak_") && !cases::is_long(),
            "the case {name} does not exist"
        );
        assert!(!why.is_empty());
    }
    for name in names {
        let plays: Vec<_> = cases.iter().filter(|case| case.name == name).collect();
        let adapters: Vec<_> = plays.iter().map(|case| case.adapter).collect();
        let once = OF_ITS_OWN.iter().any(|clause| plays[0].clause.starts_with(clause))
            || PLAYED_ONCE.iter().any(|(listed, _)| *listed == name);
        match plays[0].adapted {
            true => assert_eq!(adapters, Adapter::ALL, "{name}"),
            false => assert_eq!(
                (adapters.as_slice(), once),
                (&[Adapter::Mutex][..], true),
                "{name}: tag the case, or list it here with a reason"
            ),
        }
    }
}

#[test]
fn names_begin_with_the_clause() {
    for case in cases::all() {
        let clause = case.clause.to_lowercase().replace('-', "_");
        let named = match case.clause.split_once('-') {
            Some((recipe @ ("MUTEX" | "RWLOCK" | "SEMAPHORE" | "MULTI" | "QUORUM"), _)) => {
                case.name.starts_with(&format!("{}_", recipe.to_lowercase()))
                    || case.name.starts_with("process_")
            }
            _ => case.name.starts_with(&clause) || case.name.starts_with("process_"),
        };
        let named = match case.long {
            true => case.name.starts_with("soak_"),
            false => named,
        };
        assert!(named, "{} checks {}", case.name, case.clause);
        assert!(!case.line.trim().is_empty(), "{} has a line", case.name);
    }
}
