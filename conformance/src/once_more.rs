//! Runs cases of the suite again in one test.

use libtest_mimic::Arguments;
use tokio::runtime::Runtime;

use crate::adapter::Adapter;
use crate::case::Case;
use crate::testbed::Testbed;
use crate::testbeds::ServerTestbed;
use crate::{cases, play, run};

const OF_CLOCKS: [&str; 2] =
    ["lease_alive_is_renewed_in_the_background", "lease_deadline_is_known_before_another_is_admitted"];

const OF_QUEUES: [&str; 4] = ["NODE-", "MUTEX-", "RWLOCK-", "SEMAPHORE-"];

const LASTING: [&str; 3] = ["under_chaos", "cancel_thousands", EACH_FUTURE];

/// Hundreds of waits, which take long without the fast path.
const EACH_FUTURE: &str = "node_cancel_every_future";

/// Plays these cases at the same time. The test needs its own process, because each report goes to standard output.
pub fn play_all(runtime: &Runtime, testbed: ServerTestbed, cases: Vec<Case>) {
    let testbed: &'static dyn Testbed = Box::leak(Box::new(testbed));
    let ended = run(Arguments::default(), testbed, cases);
    runtime.block_on(testbed.close());
    assert!(!ended.rows.is_empty() && ended.has_passed(), "a case failed");
}

/// Asserts that a lease is renewed, and ends in time, at default clocks.
pub fn a_lease_is_kept_and_ends_at_default_clocks(runtime: &Runtime, testbed: ServerTestbed) {
    let testbed: &'static ServerTestbed = Box::leak(Box::new(testbed));
    for name in OF_CLOCKS {
        let case = cases::all().into_iter().find(|case| case.name == name).expect("a case of the suite");
        play(testbed, &case).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
    runtime.block_on(testbed.close());
}

/// Returns the cases for the plain protocol: in the short tier the short ones about queues with one recipe.
pub fn without_fast_path() -> Vec<Case> {
    let mut cases = cases::all();
    let mut slow = cases.iter_mut().filter(|case| case.name.starts_with(EACH_FUTURE)).peekable();
    assert!(slow.peek().is_some(), "{EACH_FUTURE} is missing in the suite");
    slow.for_each(|case| case.long = true);
    let is_short = |case: &Case| {
        let about_queues = OF_QUEUES.iter().any(|clause| case.clause.starts_with(clause));
        let lasts = LASTING.iter().any(|part| case.name.contains(part));
        about_queues && !lasts && case.adapter == Adapter::Mutex && !case.alone && !case.long
    };
    cases.retain(|case| cases::is_long() || is_short(case));
    cases
}
