//! The suite against this backend on a Redis Cluster: whole in the long tier, or when it is asked for.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use latchwork_conformance::servers::ClusteredRedis;
use latchwork_conformance::testbeds::clustered_redis_testbed;

/// Longer than a busy machine keeps a server waiting: nothing fails over in the suite.
const NODE_TIMEOUT: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    latchwork_conformance::main_on("cluster", latchwork_redis::connector(), async || {
        let cluster = ClusteredRedis::start(NODE_TIMEOUT).await?;
        Ok(clustered_redis_testbed(Arc::new(cluster))?)
    })
}
