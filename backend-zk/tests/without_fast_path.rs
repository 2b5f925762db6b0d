//! The suite against the plain protocol: clients whose fast path is switched off.
//!
//! With `LATCHWORK_LONG=1` all cases are played, and all must pass: the fast path saves listings,
//! and no case counts requests so closely. The short tier plays the short cases about queues, each
//! with one recipe.

use std::process::ExitCode;

use latchwork_conformance::servers::{Kind, Options, Server};
use latchwork_conformance::testbed::Testbed;
use latchwork_conformance::testbeds::zookeeper_testbed;
use latchwork_conformance::{Adapter, Case, cases, contender_main, run};
use latchwork_zookeeper::connector_without_fast_path;
use libtest_mimic::Arguments;
use tokio::runtime::Runtime;

/// What lasts, in names of cases: left to the long tier.
const LASTING: [&str; 3] = ["under_chaos", "cancel_thousands", "every_future"];

/// The clauses of the short tier begin so.
const QUEUES: [&str; 5] = ["NODE-", "MUTEX-", "RWLOCK-", "SEMAPHORE-", "DOWNGRADE-"];

fn main() -> ExitCode {
    if let Some(code) = contender_main(&[connector_without_fast_path()]) {
        return code;
    }
    let runtime = Runtime::new().expect("a runtime starts");
    let server = runtime.block_on(Server::start(Kind::Zookeeper, Options::new())).expect("a server");
    let mut testbed = zookeeper_testbed(server).expect("a testbed");
    (testbed.name, testbed.connector) = ("zookeeper-plain", connector_without_fast_path());
    let testbed: &'static dyn Testbed = Box::leak(Box::new(testbed));
    // The results stay out of the summary, which has a column for each backend.
    let ended = run(Arguments::from_args(), testbed, played());
    runtime.block_on(testbed.close());
    ended.code
}

fn played() -> Vec<Case> {
    let mut cases = cases::all();
    if !cases::is_long() {
        let is_about_queues = |case: &Case| QUEUES.iter().any(|clause| case.clause.starts_with(clause));
        let lasts = |case: &Case| LASTING.iter().any(|part| case.name.contains(part));
        let is_short = |case: &Case| case.adapter == Adapter::Mutex && !case.alone && !lasts(case);
        cases.retain(|case| is_short(case) && is_about_queues(case));
    }
    cases
}
