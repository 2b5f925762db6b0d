//! The suite on clients without the fast path, which use the plain protocol alone. The short
//! tier plays the short cases about queues that may run beside each other; the long tier plays all.

use latchwork_conformance::servers::{Kind, Options, Server};
use latchwork_conformance::testbed::Testbed;
use latchwork_conformance::testbeds::etcd_testbed;
use latchwork_conformance::{Adapter, Case, cases, own_process, own_process_test, run};
use libtest_mimic::Arguments;
use tokio::runtime::Runtime;

/// Cases whose names begin so have hundreds of waits, each of which takes up to the server's 100 ms
/// sync without the fast path. They get the time of the long tier, and belong to it.
const SLOW: &str = "node_cancel_every_future";

/// The clauses of the short tier's cases begin so.
const ABOUT_QUEUES: [&str; 4] = ["NODE-", "MUTEX-", "RWLOCK-", "SEMAPHORE-"];

/// What lasts, in names of cases: left to the long tier.
const LASTING: [&str; 2] = ["under_chaos", "cancel_thousands"];

/// In a process of its own, since the suite prints the result of each case to standard output.
#[test]
fn cases_pass_over_the_plain_protocol() {
    if !own_process!() {
        return;
    }
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(Server::start(Kind::Etcd, Options::new().own()));
    let mut testbed = etcd_testbed(server.unwrap_or_else(|error| panic!("{error}"))).unwrap();
    testbed.name = "etcd without the fast path";
    testbed.connector = latchwork_etcd::connector_without_fast_path();
    let testbed: &'static dyn Testbed = Box::leak(Box::new(testbed));
    let ended = run(Arguments::default(), testbed, chosen());
    runtime.block_on(testbed.close());
    assert!(!ended.rows.is_empty() && ended.has_passed(), "a case failed");
}

/// Whether this process runs the test above, or is one of its client processes.
pub(crate) fn started_this_process() -> bool {
    own_process_test().is_some_and(|test| test.starts_with("larger::without_fast_path::"))
}

fn chosen() -> Vec<Case> {
    let mut cases = cases::all();
    let mut slow = cases.iter_mut().filter(|case| case.name.starts_with(SLOW)).peekable();
    assert!(slow.peek().is_some(), "{SLOW} is no case of the suite");
    slow.for_each(|case| case.long = true);
    let is_short = |case: &Case| {
        let about_queues = ABOUT_QUEUES.iter().any(|clause| case.clause.starts_with(clause));
        let lasts = LASTING.iter().any(|part| case.name.contains(part));
        about_queues && !lasts && case.adapter == Adapter::Mutex && !case.alone && !case.long
    };
    cases.retain(|case| cases::is_long() || is_short(case));
    cases
}
