use latchwork_conformance::once_more::play_all;
use latchwork_conformance::servers::Options;
use latchwork_conformance::testbeds::zookeeper_testbed;
use latchwork_conformance::{Adapter, Case, cases};
use tokio::runtime::Runtime;

use crate::common::started;

/// The default, a minute, is too long.
pub(crate) const ROUNDS: [&str; 2] = ["extendedTypesEnabled=true", "-Dznode.container.checkIntervalMs=250"];

/// The clauses about cells.
const CELLS: [&str; 7] = ["CELL-", "WATCH-", "VALUE-", "COUNTER-", "IDS-", "LATCH-", "CAPABILITIES"];

#[test]
fn cases_about_cells_pass_on_a_server_with_idle_cells() {
    if !latchwork_conformance::own_process!() {
        return;
    }
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(started(Options::new().own().args(ROUNDS)));
    let mut testbed = zookeeper_testbed(server).unwrap();
    testbed.name = "zookeeper-idle-cells";
    testbed.capabilities.idle_cells = true;
    let mut played = cases::all();
    let is_about_cells = |case: &Case| CELLS.iter().any(|clause| case.clause.starts_with(clause));
    played.retain(|case| case.adapter == Adapter::Mutex && !case.alone && is_about_cells(case));
    play_all(&runtime, testbed, played);
}
