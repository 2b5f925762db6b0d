//! Nothing is forgotten: every clause has cases, every clause has a broken backend.

// Here they are counted; they play in `broken.rs`.
#[allow(dead_code)]
#[path = "broken/mod.rs"]
mod broken;

use std::collections::BTreeSet;

use broken::controls;
use latchwork_conformance::cases;

/// The clauses of the contracts, as the rustdoc of `latchwork_core::contracts` and `Address` states them.
const CLAUSES: &[&str] = &[
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
    "LEASE-KEEPER",
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
];

/// What the recipes promise beyond them, and the capabilities.
const PROPERTIES: &[&str] = &[
    "MUTEX-EXCLUSION",
    "MUTEX-FAIR",
    "MUTEX-TRY",
    "MUTEX-WITHIN",
    "MUTEX-RELEASE",
    "MUTEX-RUN",
    "MUTEX-OPTIONS",
    "REENTRY-OWNER",
    "REENTRY-COUNT",
    "REENTRY-LOSS",
    "REENTRY-RACE",
    "RWLOCK-ORDER",
    "RWLOCK-CANCEL",
    "RWLOCK-EXCLUSION",
    "SEMAPHORE-LIMIT",
    "SEMAPHORE-ORDER",
    "SEMAPHORE-CONFLICT",
    "SEMAPHORE-ARGUMENTS",
    "CAPABILITIES",
];

/// Clauses without a broken backend, each with the reason.
const WITHOUT_CONTROL: &[(&str, &str)] = &[
    ("MUTEX-OPTIONS", "options are refused before any backend is asked: no backend can break it"),
    ("REENTRY-OWNER", OWNERS),
    ("REENTRY-COUNT", OWNERS),
    ("REENTRY-LOSS", OWNERS),
    ("REENTRY-RACE", OWNERS),
    ("SEMAPHORE-ARGUMENTS", "arguments are refused before any backend is asked: no backend can break it"),
];

const OWNERS: &str =
    "kept by core's ledger above every backend: its own tests play each rule on the code that runs";

fn promised() -> BTreeSet<&'static str> {
    CLAUSES.iter().chain(PROPERTIES).copied().collect()
}

#[test]
fn every_clause_has_a_case_and_every_case_a_clause() {
    let checked: BTreeSet<_> = cases::all().iter().map(|case| case.clause).collect();
    assert_eq!(checked, promised());
}

#[test]
fn every_clause_has_a_broken_backend() {
    let clause_of = |name: &str| cases::all().iter().find(|case| case.name == name).map(|case| case.clause);
    let mut broken = BTreeSet::new();
    for control in controls() {
        let clause = clause_of(control.case);
        broken
            .insert(clause.unwrap_or_else(|| panic!("{}: there is no case {}", control.name, control.case)));
        assert!(clause_of(control.beside).is_some(), "{}: there is no case {}", control.name, control.beside);
        assert_ne!(control.case, control.beside, "{}", control.name);
    }
    for (clause, why) in WITHOUT_CONTROL {
        assert!(!why.is_empty());
        assert!(broken.insert(clause), "{clause} has a broken backend after all");
    }
    assert_eq!(broken, promised());
}

#[test]
fn names_are_unique() {
    let (cases, controls) = (cases::all(), controls());
    let (names, broken): (BTreeSet<_>, BTreeSet<_>) =
        (cases.iter().map(|case| case.name).collect(), controls.iter().map(|control| control.name).collect());
    assert_eq!((names.len(), broken.len()), (cases.len(), controls.len()));
}

/// A case of a contract is named after its clause, so that a failure says which promise is broken; those with processes of
/// their own say so instead, since they take longer.
#[test]
fn names_begin_with_the_clause() {
    for case in cases::all() {
        let clause = case.clause.to_lowercase().replace('-', "_");
        let named = match case.clause.split_once('-') {
            Some((recipe @ ("MUTEX" | "RWLOCK" | "SEMAPHORE"), _)) => {
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
