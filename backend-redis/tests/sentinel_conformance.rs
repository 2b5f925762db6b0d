//! The suite against this backend on a master that Sentinels watch: whole in the long tier, or when
//! it is asked for.

use std::process::ExitCode;
use std::sync::Arc;

use latchwork_conformance::servers::WatchedRedis;
use latchwork_conformance::testbeds::watched_redis_testbed;

fn main() -> ExitCode {
    latchwork_conformance::main_on("sentinel", latchwork_redis::connector(), async || {
        let watched = WatchedRedis::start().await?;
        Ok(watched_redis_testbed(Arc::new(watched))?)
    })
}
