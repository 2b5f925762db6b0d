//! The suite against this backend on a master that Sentinels watch: in the long tier, or when it is
//! asked for; else a part of it.

use std::process::ExitCode;
use std::sync::Arc;

use latchwork_conformance::selection::{TOPOLOGY, plays_on};
use latchwork_conformance::servers::WatchedRedis;
use latchwork_conformance::testbeds::watched_redis_testbed;

fn main() -> ExitCode {
    if !plays_on("sentinel") {
        eprintln!("not played: it belongs to the long tier, and to {TOPOLOGY}=sentinel");
        return ExitCode::SUCCESS;
    }
    latchwork_conformance::main(vec![latchwork_redis::connector()], |runtime| {
        let watched = runtime.block_on(WatchedRedis::start()).map_err(|error| error.to_string())?;
        Ok(Box::new(watched_redis_testbed(Arc::new(watched)).map_err(|error| error.to_string())?))
    })
}
