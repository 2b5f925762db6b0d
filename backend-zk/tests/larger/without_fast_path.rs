//! No case counts requests so exactly that it fails here.

use latchwork_conformance::once_more::{play_all, without_fast_path};
use latchwork_conformance::servers::Options;
use latchwork_conformance::testbeds::zookeeper_testbed;
use latchwork_conformance::{own_process, own_process_test};
use latchwork_zookeeper::connector_without_fast_path;
use tokio::runtime::Runtime;

use crate::common::started;

#[test]
fn cases_pass_over_the_plain_protocol() {
    if !own_process!() {
        return;
    }
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(started(Options::new()));
    let mut testbed = zookeeper_testbed(server).unwrap();
    (testbed.name, testbed.connector) = ("zookeeper-plain", connector_without_fast_path());
    play_all(&runtime, testbed, without_fast_path());
}

pub(crate) fn started_this_process() -> bool {
    own_process_test().is_some_and(|test| test.starts_with("larger::without_fast_path::"))
}
