//! Nothing is forgotten: every clause has cases, every clause has a broken backend.

// Here they are counted; they play in `broken.rs`.
#[allow(dead_code)]
#[path = "broken/mod.rs"]
mod broken;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use broken::controls;
use latchwork_conformance::report::{Counts, Row, Summary};
use latchwork_conformance::{Adapter, Case, Played, cases};

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
    "CAPABILITIES",
];

/// Clauses without a broken backend, each with the reason.
const WITHOUT_CONTROL: &[(&str, &str)] = &[
    ("MUTEX-OPTIONS", "options are refused before any backend is asked: no backend can break it"),
    ("REENTRY-OWNER", OWNERS),
    ("REENTRY-COUNT", OWNERS),
    ("REENTRY-LOSS", OWNERS),
    ("REENTRY-RACE", OWNERS),
    ("RWLOCK-OWNER", OWNERS),
    ("SEMAPHORE-ARGUMENTS", "arguments are refused before any backend is asked: no backend can break it"),
];

const OWNERS: &str =
    "kept by core's ledger above every backend: its own tests play each rule on the code that runs";

/// Clauses about one recipe, or about what lies below all of them: their cases are played as they are.
const OF_ITS_OWN: &[&str] = &["RWLOCK-", "SEMAPHORE-", "REENTRY-", "KEY-", "CAPABILITIES"];

/// Other cases that are not played with every adapter, each with the reason.
const PLAYED_ONCE: &[(&str, &str)] = &[
    ("node_order_rises_in_join_order", BELOW),
    ("node_admit_exclusive", BELOW),
    ("node_admit_shared_and_exclusive", BELOW),
    ("node_admit_permits", BELOW),
    ("node_gone_by_a_forced_release_makes_room", "of readers and of permits"),
    ("node_cancel_ten_thousand_at_random_instants", "plays all recipes itself"),
    ("node_cancel_every_future_at_every_await_point", "plays all recipes itself"),
    ("mutex_in_a_storm", "one of three storms, each over one recipe"),
    ("lease_alive_beside_many_dropped_at_once", WAY),
    ("lease_alive_beside_many_released_at_once", WAY),
    ("lease_alive_beside_many_tries_at_once", WAY),
    ("lease_close_from_another_runtime_is_bounded", RUNTIME),
    ("lease_keeper_gone_with_its_runtime_is_told_at_once", RUNTIME),
    ("lease_alive_in_a_soak_of_many_holds", WAY),
    ("soak_ten_thousand_holds", WAY),
    ("node_wait_a_thousand_released_one_by_one", RECIPE),
    ("node_wait_readers_and_writers_released_one_by_one", RECIPE),
    ("node_wait_for_permits_released_one_by_one", RECIPE),
];

const RUNTIME: &str = "is about the runtime of a client, whatever it holds";

const WAY: &str = "takes its time, and is about the way to the server";

const RECIPE: &str = "plays one recipe of three, since a crowd takes its time";

const BELOW: &str = "joins below the recipes, with the claims that it is about";

/// Public futures of core that are not in the table of those that are dropped at every await point, each with the reason.
const NOT_DROPPED: &[(&str, &str)] = &[
    ("Coordinator::crash", "for tests: it leaves what is held to the lease, whether it is dropped or not"),
    ("Coordinator::close_after", "the work of its caller, and then `close`, which is in the table"),
    ("Backend::close", CONTRACT),
    ("Connector::connect", CONTRACT),
    ("Flight::landed", FLIGHT),
    ("Flight::landed_within", FLIGHT),
    ("Node::admitted", CONTRACT),
    ("Node::downgrade", CONTRACT),
    ("Node::leave", CONTRACT),
    ("Pauses::pause", "of backends: it sleeps, and holds nothing"),
    ("SequentialNodes::abandon", CONTRACT),
    ("SequentialNodes::join", CONTRACT),
    ("SequentialNodes::limit", CONTRACT),
    ("SequentialNodes::list", CONTRACT),
    ("SequentialNodes::revoke", CONTRACT),
    ("SequentialNodes::set_limit", CONTRACT),
    (
        "Turns::take",
        "of backends: requests wait in it for their turn, and are dropped there with the futures that send them",
    ),
];

const CONTRACT: &str = "of the contract: core awaits it, and drops it wherever a recipe's future is dropped";

const FLIGHT: &str = "of backends: what it waits for is another task's, and its unit tests drop it";

/// In the table, though they are not declared with `async`.
const NOT_ASYNC: &[&str] = &["Hold::lost", "Hold::run", "Hold::states", "connect_lazy"];

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
    let clause_of =
        |title: &str| cases::all().iter().find(|case| case.title() == title).map(|case| case.clause);
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
    let (titles, broken): (BTreeSet<_>, BTreeSet<_>) =
        (cases.iter().map(Case::title).collect(), controls.iter().map(|control| control.name).collect());
    assert_eq!((titles.len(), broken.len()), (cases.len(), controls.len()));
}

#[test]
fn what_a_mutex_does_is_played_with_every_adapter() {
    let cases = cases::all();
    let names: BTreeSet<_> = cases.iter().map(|case| case.name).collect();
    for (name, why) in PLAYED_ONCE {
        // Those of the long tier are there in the long tier only.
        assert!(
            names.contains(name) || name.starts_with("soak_") && !cases::is_long(),
            "there is no case {name}"
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
                "{name}: tag it, or say why not"
            ),
        }
    }
}

/// One result that is not there, of whatever backend, case and adapter, makes the summary fail.
#[test]
fn a_missing_result_of_any_adapter_shows_and_fails() {
    let cases = cases::all();
    let missing =
        cases.iter().position(|case| case.title() == "mutex_is_fair@rwlock-writer").expect("it is a case");
    let folder = tempfile::tempdir().expect("a folder");
    for backend in ["one", "other"] {
        let rows: Vec<_> = (cases.iter().enumerate())
            .filter(|(place, _)| backend == "one" || *place != missing)
            .map(|(_, case)| Row::new(backend, case, &Ok(Played::Whole), Duration::from_secs(1)))
            .collect();
        let file = folder.path().join(format!("{backend}.json"));
        fs::write(file, serde_json::to_string(&rows).expect("rows are JSON")).expect("written");
    }
    let expected = ["one".to_owned(), "other".to_owned()];
    let summary = Summary::read(folder.path(), &expected, &[]).expect("read");
    assert_eq!(summary.counts(), Counts { passed: 2 * cases.len() - 1, failed: 1, left_out: 0 });
    let table = summary.render();
    let gaps: Vec<_> = table.lines().filter(|line| line.contains("MISSING")).collect();
    assert!(gaps.len() == 1 && gaps[0].contains("rwlock-writer") && gaps[0].contains("ok 1.0s"), "{gaps:?}");
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

/// Every recipe is asked in one grammar: each of its verbs has all ways of `core/src/recipes/verb.rs`, and nothing is named like a
/// way that is none. (The order of what they take is the table's to show, which calls them.)
#[test]
fn every_verb_of_every_recipe_has_all_its_ways() {
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src");
    let mut declared = BTreeSet::new();
    collect_futures(&core.join("recipes"), &mut declared);
    let recipes: Vec<_> = declared.iter().filter_map(|name| name.strip_suffix("::force_release")).collect();
    assert_eq!(
        recipes,
        ["Mutex", "ReentrantMutex", "RwLock", "Semaphore"],
        "a new recipe is one of these then"
    );
    assert_eq!(ungrammatical(&declared, &recipes), Vec::<String>::new());
    // It sees one that is missing, one too many, and a recipe without a verb.
    for (without, with) in
        [("Mutex::try_acquire_as_with", "Mutex::queue"), ("Mutex::queue", "RwLock::read_as_within")]
    {
        let mut spoilt = declared.clone();
        spoilt.remove(without);
        spoilt.insert(with.to_owned());
        assert_eq!(ungrammatical(&spoilt, &recipes).len(), 1, "without {without}, with {with}");
    }
    assert_eq!(ungrammatical(&BTreeSet::new(), &["Mutex"]).len(), 1);
}

const VERBS: &[&str] = &["acquire", "read", "write"];

/// What is missing, or too much.
fn ungrammatical(declared: &BTreeSet<String>, recipes: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for recipe in recipes {
        let own: BTreeSet<_> =
            declared.iter().filter_map(|name| name.strip_prefix(&format!("{recipe}::"))).collect();
        let of = |verb: &str| {
            let ways = ["", "_within", "_with", "_as", "_as_with"].map(|way| format!("{verb}{way}"));
            let tries = ["", "_with", "_as", "_as_with"].map(|way| format!("try_{verb}{way}"));
            ways.into_iter().chain(tries).collect::<BTreeSet<_>>()
        };
        let like = |name: &str, verb: &str| {
            let rest = name.strip_prefix("try_").unwrap_or(name).strip_prefix(verb);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        };
        let verbs: Vec<_> = VERBS.iter().filter(|verb| own.iter().any(|name| like(name, verb))).collect();
        if verbs.is_empty() {
            found.push(format!("{recipe} has no verb"));
        }
        for verb in verbs {
            let (ways, named) = (of(verb), own.iter().filter(|name| like(name, verb)));
            let named: BTreeSet<_> = named.map(|name| (*name).to_owned()).collect();
            found.extend(ways.symmetric_difference(&named).map(|name| format!("{recipe}::{name}")));
        }
    }
    found
}

/// A new future of core belongs into the table of `cases/futures.rs`, or gets a reason here.
#[test]
fn every_public_future_of_core_is_dropped_at_every_await_point() {
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src");
    let mut declared = BTreeSet::new();
    collect_futures(&core, &mut declared);
    let sample = ["Mutex::acquire", "Hold::release", "Node::leave", "connect"];
    assert!(sample.iter().all(|name| declared.contains(*name)), "the sources are read wrongly: {declared:?}");
    let tabled: BTreeSet<_> = cases::futures::names().map(str::to_owned).collect();
    let excused: BTreeSet<_> = NOT_DROPPED.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert!(NOT_DROPPED.iter().all(|(_, why)| !why.is_empty()));
    assert!(tabled.is_disjoint(&excused), "in the table after all: {:?}", tabled.intersection(&excused));
    let known: BTreeSet<_> = tabled.union(&excused).cloned().collect();
    declared.extend(NOT_ASYNC.iter().map(|name| (*name).to_owned()));
    assert_eq!(known, declared);
}

/// What a line of core's macro `verb!` declares: names alone, or the verb with its arguments and its guard.
fn ways(line: &str) -> Option<impl Iterator<Item = String>> {
    let inside =
        line.strip_prefix("        ").filter(|rest| rest.starts_with(|char: char| char.is_lowercase()))?;
    let names = match inside.split_once('(') {
        Some((verb, rest)) if rest.contains(", by ") => verb,
        Some(_) => return None,
        None => inside,
    };
    let names = names.trim_end().trim_end_matches(';');
    let plain = |name: &str| !name.is_empty() && name.chars().all(|char| char.is_lowercase() || char == '_');
    let names: Vec<_> = names.split(", ").map(str::to_owned).collect();
    let is_verb = inside.ends_with(';') && names.iter().all(|name| plain(name));
    is_verb.then(|| names.into_iter())
}

/// The names of all `pub async fn` and of the `async fn` of public traits, as `Type::function`. Memory's own are those of a
/// test's hands.
fn collect_futures(folder: &Path, into: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("core's sources stand beside the suite") {
        let path = entry.expect("read").path();
        if path.is_dir() {
            if !path.ends_with("memory") {
                collect_futures(&path, into);
            }
            continue;
        }
        let text = fs::read_to_string(&path).expect("read");
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let mut owner = None;
        for line in code.lines() {
            if let Some(rest) = line.strip_prefix("impl") {
                // What a trait declares counts there.
                owner = (!rest.contains(" for "))
                    .then(|| (name(rest.split_once(' ').map_or("", |(_, it)| it)), false));
            } else if let Some(rest) = line.strip_prefix("pub trait ") {
                owner = Some((name(rest), true));
            } else if line == "}" {
                owner = None;
            }
            if let (Some((owner, _)), Some(ways)) = (&owner, ways(line)) {
                into.extend(ways.map(|way| format!("{owner}::{way}")));
            }
            let function = match &owner {
                Some((_, true)) => line.strip_prefix("    async fn "),
                Some((_, false)) => line.strip_prefix("    pub async fn "),
                None => line.strip_prefix("pub async fn "),
            };
            if let Some(function) = function.map(name) {
                into.insert(
                    owner.as_ref().map_or(function.clone(), |(owner, _)| format!("{owner}::{function}")),
                );
            }
        }
    }
}

/// The identifier that a text begins with.
fn name(text: &str) -> String {
    text.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect()
}
