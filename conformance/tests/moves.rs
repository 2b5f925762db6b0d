//! Locks move between two servers while processes contend for them: each pair of backends, there and back.

use std::process::ExitCode;
use std::time::Duration;

use latchwork_conformance::cases::is_long;
use latchwork_conformance::moves::there_and_back;
use latchwork_conformance::testbeds::{ServerTestbed, etcd_testbed, redis_testbed, zookeeper_testbed};
use latchwork_servers::{Kind, Options, Server};
use libtest_mimic::{Arguments, Trial};
use tokio::runtime::Runtime;

/// Two servers of one kind first: it is the commonest move there is.
const PAIRS: [(Kind, Kind); 5] = [
    (Kind::Redis, Kind::Redis),
    (Kind::Redis, Kind::Zookeeper),
    (Kind::Zookeeper, Kind::Redis),
    (Kind::Etcd, Kind::Redis),
    (Kind::Zookeeper, Kind::Etcd),
];

fn main() -> ExitCode {
    let connectors =
        [latchwork_redis::connector(), latchwork_zookeeper::connector(), latchwork_etcd::connector()];
    if let Some(code) = latchwork_conformance::contender_main(&connectors) {
        return code;
    }
    let lasts = Duration::from_secs(if is_long() { 300 } else { 8 });
    let trials = PAIRS.into_iter().enumerate().map(|(seed, (old, new))| {
        Trial::test(format!("{old}_to_{new}"), move || {
            let runtime = Runtime::new()?;
            let (old, new) = (testbed(&runtime, old), testbed(&runtime, new));
            there_and_back(old, new, &runtime, lasts, seed as u64).map_err(Into::into)
        })
    });
    // One at a time: each has eight processes.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn testbed(runtime: &Runtime, kind: Kind) -> ServerTestbed {
    let server = Server::start(kind, Options::default());
    let server = runtime.block_on(server).expect("a server starts");
    let testbed = match kind {
        Kind::Redis => redis_testbed(server),
        Kind::Zookeeper => zookeeper_testbed(server),
        Kind::Etcd => etcd_testbed(server),
    };
    testbed.expect("its URL")
}
