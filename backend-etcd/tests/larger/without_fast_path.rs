use latchwork_conformance::once_more::{play_all, without_fast_path};
use latchwork_conformance::servers::{Kind, Options, Server};
use latchwork_conformance::testbeds::etcd_testbed;
use latchwork_conformance::{own_process, own_process_test};
use tokio::runtime::Runtime;

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
    play_all(&runtime, testbed, without_fast_path());
}

pub(crate) fn started_this_process() -> bool {
    own_process_test().is_some_and(|test| test.starts_with("larger::without_fast_path::"))
}
