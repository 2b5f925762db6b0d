//! A storm over a server that is killed and started again, and stands still, at random; it keeps all that it has acknowledged.

use latchwork_conformance::beds::redis_bed;
use latchwork_conformance::order::SoakKind;
use latchwork_conformance::servers::{Kind, Options, Server};
use latchwork_conformance::weather::{restarts_and_stalls, storm_beside};
use tokio::runtime::Runtime;

#[test]
fn nobody_holds_beside_another_while_the_server_is_killed_and_stands_still() {
    let runtime = Runtime::new().unwrap();
    let options = Options::new().own().args(["--appendonly", "yes", "--appendfsync", "always"]);
    let server = runtime.block_on(Server::start(Kind::Redis, options)).unwrap();
    let bed = redis_bed(Server::at(Kind::Redis, server.url(), server.clocks())).unwrap();
    let weather = |lasts| restarts_and_stalls(&server, lasts);
    storm_beside(bed, SoakKind::ReadWrite, &runtime, weather).unwrap();
}
