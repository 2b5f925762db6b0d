//! The server keeps all writes that it has acknowledged.

use latchwork_conformance::child::SoakKind;
use latchwork_conformance::server_faults::{chaos_beside, restarts_and_stalls};
use latchwork_conformance::servers::{Kind, Options, Server};
use latchwork_conformance::testbeds::redis_testbed;
use tokio::runtime::Runtime;

#[test]
fn no_holds_conflict_while_the_server_restarts_and_stalls() {
    let runtime = Runtime::new().unwrap();
    let options = Options::new().own().args(["--appendonly", "yes", "--appendfsync", "always"]);
    let server = runtime.block_on(Server::start(Kind::Redis, options)).unwrap();
    let testbed = redis_testbed(Server::at(Kind::Redis, server.url(), server.clocks())).unwrap();
    let faults = |lasts| restarts_and_stalls(&server, lasts);
    chaos_beside(testbed, SoakKind::ReadWrite, &runtime, faults).unwrap();
}
