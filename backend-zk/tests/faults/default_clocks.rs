//! The cases that depend on the server's clocks, on a server with its default clocks.

use latchwork_conformance::servers::{Clocks, Kind, Options, Server};
use latchwork_conformance::testbed::Testbed;
use latchwork_conformance::testbeds::{ServerTestbed, zookeeper_testbed};
use latchwork_conformance::{cases, play};

use crate::common::beside_others;

#[test]
fn a_lease_is_kept_and_ends_as_stated_at_default_clocks() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _beside = runtime.block_on(beside_others());
    let options = Options::new().own().clocks(Clocks::Default);
    let server = runtime.block_on(Server::start(Kind::Zookeeper, options)).unwrap();
    let testbed: &'static ServerTestbed = Box::leak(Box::new(zookeeper_testbed(server).unwrap()));
    for name in
        ["lease_alive_is_renewed_in_the_background", "lease_deadline_is_known_before_another_is_admitted"]
    {
        let case = cases::all().into_iter().find(|case| case.name == name).expect("a case of the suite");
        play(testbed, &case).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
    runtime.block_on(testbed.close());
}
