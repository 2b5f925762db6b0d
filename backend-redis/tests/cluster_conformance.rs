//! The suite against this backend on a Redis Cluster: in the long tier, or when it is asked for.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use latchwork_conformance::selection::{TOPOLOGY, plays_on};
use latchwork_conformance::servers::ClusteredRedis;
use latchwork_conformance::testbeds::clustered_redis_testbed;

/// Longer than a busy machine keeps a server waiting: nothing fails over in the suite.
const NODE_TIMEOUT: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    if !plays_on("cluster") {
        eprintln!("not played: it belongs to the long tier, and to {TOPOLOGY}=cluster");
        return ExitCode::SUCCESS;
    }
    latchwork_conformance::main(vec![latchwork_redis::connector()], |runtime| {
        let cluster =
            runtime.block_on(ClusteredRedis::start(NODE_TIMEOUT)).map_err(|error| error.to_string())?;
        Ok(Box::new(clustered_redis_testbed(Arc::new(cluster)).map_err(|error| error.to_string())?))
    })
}
