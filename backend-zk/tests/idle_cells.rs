//! The cells of the suite against a server that has nodes with a time to live. (The servers of all other
//! tests have none, as out of the box, and refuse idle cells by name.)

use std::process::ExitCode;

use latchwork_conformance::servers::{Kind, Options, Server};
use latchwork_conformance::testbed::Testbed;
use latchwork_conformance::testbeds::zookeeper_testbed;
use latchwork_conformance::{Adapter, Case, cases, contender_main, run};
use latchwork_zookeeper::connector;
use libtest_mimic::Arguments;
use tokio::runtime::Runtime;

/// The server looks for what is to go so often. A minute, its default, is long for a test.
const ROUNDS: [&str; 2] = ["extendedTypesEnabled=true", "-Dznode.container.checkIntervalMs=250"];

/// The clauses about cells begin so.
const CELLS: [&str; 7] = ["CELL-", "WATCH-", "VALUE-", "COUNTER-", "IDS-", "LATCH-", "CAPABILITIES"];

fn main() -> ExitCode {
    if let Some(code) = contender_main(&[connector()]) {
        return code;
    }
    let runtime = Runtime::new().expect("a runtime starts");
    let options = Options::new().own().args(ROUNDS);
    let server = runtime.block_on(Server::start(Kind::Zookeeper, options)).expect("a server");
    let mut testbed = zookeeper_testbed(server).expect("a testbed");
    testbed.name = "zookeeper-idle-cells";
    testbed.capabilities.idle_cells = true;
    let testbed: &'static dyn Testbed = Box::leak(Box::new(testbed));
    // The results stay out of the summary, which has a column for each backend.
    let ended = run(Arguments::from_args(), testbed, played());
    runtime.block_on(testbed.close());
    ended.code
}

fn played() -> Vec<Case> {
    let mut cases = cases::all();
    let is_about_cells = |case: &Case| CELLS.iter().any(|clause| case.clause.starts_with(clause));
    cases.retain(|case| case.adapter == Adapter::Mutex && !case.alone && is_about_cells(case));
    cases
}
