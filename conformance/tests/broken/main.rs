//! Each broken backend breaks one promise: one case of the suite must catch it and another must pass. A case
//! that lets its broken backend pass proves nothing on a real one.

mod cells;
mod clients;
mod counts;
mod defect;
mod elections;
mod endings;
mod foreign;
mod key;
mod lease;
mod leaves;
mod listings;
mod mutex;
mod node;
mod observed;
mod order;
mod recipes;
mod seen;
mod states;
mod terms;
mod waits;
mod watches;
mod wrapper;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;

use latchwork_conformance::testbed::Testbed;
use latchwork_conformance::testbeds::MemoryTestbed;
use latchwork_conformance::{Case, Played, cases, play};
use libtest_mimic::{Arguments, Failed, Trial};

use self::defect::Defect;
use self::foreign::PlantTestbed;
use self::wrapper::Reach;

/// Clauses without a broken backend, each with the reason.
const WITHOUT_CONTROL: &[(&str, &str)] = &[
    ("MUTEX-OPTIONS", "options are refused before any backend is asked: no backend can break it"),
    ("REENTRY-OWNER", OWNERS),
    ("REENTRY-COUNT", OWNERS),
    ("REENTRY-LOSS", OWNERS),
    ("REENTRY-RACE", OWNERS),
    ("RWLOCK-OWNER", OWNERS),
    ("VALUE-ARGUMENTS", "arguments are refused before any backend is asked: no backend can break it"),
    ("SEEN-RECHECKS", "each backend counts in its own re-check: core has no re-check to break"),
    ("SEEN-ACQUISITIONS", "core counts them, and no backend takes part"),
    (
        "SEEN-REQUESTS",
        "the testbed of memory reads the counter itself; other backends use the server's own number",
    ),
    ("SEMAPHORE-ARGUMENTS", "arguments are refused before any backend is asked: no backend can break it"),
];

const OWNERS: &str =
    "kept by core's ledger above every backend: its own tests play each rule on the code that runs";

fn main() -> ExitCode {
    // The results have the messages.
    std::panic::set_hook(Box::new(|_| {}));
    let mut trials: Vec<_> =
        controls().into_iter().map(|control| trial(control.name, move || caught(&control))).collect();
    trials.push(trial("an_honest_backend_beside_plants_passes", || {
        played(play(leak(Box::new(PlantTestbed::honest())), &case("node_foreign_entries_do_no_harm")?))
    }));
    trials.push(trial("every_clause_has_one", || {
        every_clause_has_a_broken_backend();
        Ok(())
    }));
    trials.push(trial("names_are_unique", || {
        let names: BTreeSet<_> = controls().iter().map(|control| control.name).collect();
        assert_eq!(names.len(), controls().len());
        Ok(())
    }));
    let mut arguments = Arguments::from_args();
    // libtest-mimic does not read the variable of the standard harness.
    let threads = || std::env::var("RUST_TEST_THREADS").ok()?.parse().ok();
    arguments.test_threads = arguments.test_threads.or_else(threads);
    libtest_mimic::run(&arguments, trials).exit_code()
}

#[derive(Clone, Copy)]
struct Control {
    /// The defect in words: the test's name.
    name: &'static str,
    /// With a plain mutex, unless the title names an adapter.
    case: &'static str,
    /// Unrelated: the defect affects no more than its name says.
    beside: &'static str,
    reach: Reach,
    /// All clients of one testbed share it.
    defect: fn() -> Arc<dyn Defect>,
}

const fn broken(name: &'static str, defect: fn() -> Arc<dyn Defect>) -> Control {
    Control { name, case: "", beside: "", reach: Reach::Recipes, defect }
}

/// The defect also breaks the clients' registry and the layout.
const fn broken_everywhere(name: &'static str, defect: fn() -> Arc<dyn Defect>) -> Control {
    Control { reach: Reach::Everything, ..broken(name, defect) }
}

impl Control {
    const fn fails(self, case: &'static str) -> Self {
        Self { case, ..self }
    }

    const fn passes(self, beside: &'static str) -> Self {
        Self { beside, ..self }
    }

    fn testbed(&self) -> Box<dyn Testbed> {
        let defect = (self.defect)();
        defect.testbed(MemoryTestbed::broken(self.name, wrapper::wrap(Arc::clone(&defect), self.reach)))
    }
}

fn controls() -> Vec<Control> {
    [
        key::CONTROLS,
        lease::CONTROLS,
        node::CONTROLS,
        mutex::CONTROLS,
        recipes::CONTROLS,
        cells::CONTROLS,
        counts::CONTROLS,
        elections::CONTROLS,
        observed::CONTROLS,
        clients::CONTROLS,
        terms::CONTROLS,
        seen::CONTROLS,
    ]
    .concat()
}

fn every_clause_has_a_broken_backend() {
    let clause_of =
        |title: &str| cases::all().iter().find(|case| case.title() == title).map(|case| case.clause);
    let mut broken = BTreeSet::new();
    for control in controls() {
        let clause = clause_of(control.case);
        broken.insert(
            clause.unwrap_or_else(|| panic!("{}: the case {} does not exist", control.name, control.case)),
        );
        assert!(
            clause_of(control.beside).is_some(),
            "{}: the case {} does not exist",
            control.name,
            control.beside
        );
        assert_ne!(control.case, control.beside, "{}", control.name);
    }
    for (clause, why) in WITHOUT_CONTROL {
        assert!(!why.is_empty());
        assert!(broken.insert(clause), "{clause} is excused, but has a broken backend");
    }
    let promised: BTreeSet<_> = cases::CLAUSES.iter().chain(cases::PROPERTIES).copied().collect();
    assert_eq!(broken, promised);
}

fn trial(name: &str, run: impl FnOnce() -> Result<(), String> + Send + 'static) -> Trial {
    Trial::test(format!("broken::{name}"), || run().map_err(Failed::from))
}

fn caught(control: &Control) -> Result<(), String> {
    let Control { name, case: exists_for_it, beside, .. } = *control;
    match play(leak(control.testbed()), &case(exists_for_it)?) {
        Ok(_) => return Err(format!("{exists_for_it} does not detect it")),
        Err(message)
            if ["the testbed gives no fixture", "took longer"]
                .iter()
                .any(|start| message.starts_with(start)) =>
        {
            return Err(format!("{exists_for_it} did not finish: {message}"));
        }
        Err(message) => println!("{name}: {exists_for_it} fails: {message}"),
    }
    played(play(leak(control.testbed()), &case(beside)?))
        .map_err(|message| format!("the unrelated case {beside} fails too: {message}"))
}

/// A case that is left out proves nothing.
fn played(outcome: Result<Played, String>) -> Result<(), String> {
    match outcome? {
        Played::Whole => Ok(()),
        Played::LeftOut(why) => Err(format!("it was not played: {why}")),
    }
}

fn case(title: &str) -> Result<Case, String> {
    cases::all()
        .into_iter()
        .find(|case| case.title() == title)
        .ok_or_else(|| format!("the case {title} does not exist"))
}

fn leak(testbed: Box<dyn Testbed>) -> &'static dyn Testbed {
    Box::leak(testbed)
}
