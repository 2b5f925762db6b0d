//! Cases of the suite as one test.

use latchwork_conformance::testbed::Testbed;
use latchwork_conformance::testbeds::ServerTestbed;
use latchwork_conformance::{Case, run};
use libtest_mimic::Arguments;
use tokio::runtime::Runtime;

/// Plays these cases side by side. The test has a process of its own, since the report of each case goes to
/// standard output.
pub(crate) fn play_all(runtime: &Runtime, testbed: ServerTestbed, cases: Vec<Case>) {
    let testbed: &'static dyn Testbed = Box::leak(Box::new(testbed));
    // The results stay out of the summary, which has a column for each backend.
    let ended = run(Arguments::default(), testbed, cases);
    runtime.block_on(testbed.close());
    assert!(!ended.rows.is_empty() && ended.has_passed(), "a case failed");
}
