//! The suite against this backend on three servers: whole in the long tier, or when it is asked for.

use std::process::ExitCode;
use std::sync::Arc;

use latchwork_conformance::servers::Ensemble;
use latchwork_conformance::testbeds::zookeeper_ensemble_testbed;

fn main() -> ExitCode {
    latchwork_conformance::main_on("ensemble", latchwork_zookeeper::connector(), async || {
        let ensemble = Ensemble::zookeeper(3).await?;
        Ok(zookeeper_ensemble_testbed(Arc::new(ensemble))?)
    })
}
