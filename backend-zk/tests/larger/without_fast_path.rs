//! The suite against the plain protocol: clients whose fast path is switched off.
//!
//! With `LATCHWORK_LONG=1` all cases are played, and all must pass: the fast path saves listings,
//! and no case counts requests so closely. The short tier plays the short cases about queues, each
//! with one recipe.

use latchwork_conformance::servers::Options;
use latchwork_conformance::testbeds::zookeeper_testbed;
use latchwork_conformance::{Adapter, Case, cases};
use latchwork_zookeeper::connector_without_fast_path;
use tokio::runtime::Runtime;

use crate::common::{play_all, started};

/// What lasts, in names of cases: left to the long tier.
const LASTING: [&str; 3] = ["under_chaos", "cancel_thousands", "every_future"];

/// The clauses of the short tier begin so.
const QUEUES: [&str; 5] = ["NODE-", "MUTEX-", "RWLOCK-", "SEMAPHORE-", "DOWNGRADE-"];

#[test]
fn cases_pass_over_the_plain_protocol() {
    if !latchwork_conformance::own_process!() {
        return;
    }
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(started(Options::new()));
    let mut testbed = zookeeper_testbed(server).unwrap();
    (testbed.name, testbed.connector) = ("zookeeper-plain", connector_without_fast_path());
    play_all(&runtime, testbed, played());
}

/// Whether this process belongs to the test above: it, or one of its contenders.
pub(crate) fn started_this_process() -> bool {
    latchwork_conformance::own_process_test()
        .is_some_and(|test| test.starts_with("larger::without_fast_path::"))
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
