use latchwork_conformance::once_more::a_lease_is_kept_and_ends_at_default_clocks;
use latchwork_conformance::servers::{Clocks, Kind, Options, Server};
use latchwork_conformance::testbeds::etcd_testbed;

#[test]
fn a_lease_is_kept_and_ends_as_stated_at_default_clocks() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let options = Options::new().own().clocks(Clocks::Default);
    let server = runtime.block_on(Server::start(Kind::Etcd, options)).unwrap();
    a_lease_is_kept_and_ends_at_default_clocks(&runtime, etcd_testbed(server).unwrap());
}
