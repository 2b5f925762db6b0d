//! A storm over a server that is killed and started again, and stands still, at random; it keeps all that it has acknowledged.

use std::time::Duration;

use latchwork_conformance::beds::redis_bed;
use latchwork_conformance::cases::{is_long, storm};
use latchwork_conformance::servers::{Kind, Options, Server};
use latchwork_conformance::soak::SoakKind;
use tokio::runtime::Runtime;

/// How long the storm goes on when the server is well again.
const AFTERMATH: Duration = Duration::from_secs(10);

#[test]
fn nobody_holds_beside_another_while_the_server_is_killed_and_stands_still() {
    let lasts = Duration::from_secs(if is_long() { 60 } else { 12 });
    let runtime = Runtime::new().unwrap();
    let options = Options::new().own().args(["--appendonly", "yes", "--appendfsync", "always"]);
    let server = runtime.block_on(Server::start(Kind::Redis, options)).unwrap();
    let bed = redis_bed(Server::at(Kind::Redis, server.url(), server.clocks())).unwrap();
    let weather = storm::restarts_and_stalls(&server, lasts);
    storm::play_beside(bed, SoakKind::ReadWrite, lasts + AFTERMATH, &runtime, weather).unwrap();
}
