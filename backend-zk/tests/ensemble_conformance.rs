//! The suite against this backend on three servers: in the long tier, or when it is asked for.

use std::process::ExitCode;
use std::sync::Arc;

use latchwork_conformance::selection::{TOPOLOGY, plays_on};
use latchwork_conformance::servers::Ensemble;
use latchwork_conformance::testbeds::zookeeper_ensemble_testbed;

fn main() -> ExitCode {
    if !plays_on("ensemble") {
        eprintln!("not played: it belongs to the long tier, and to {TOPOLOGY}=ensemble");
        return ExitCode::SUCCESS;
    }
    latchwork_conformance::main(vec![latchwork_zookeeper::connector()], |runtime| {
        let ensemble = runtime.block_on(Ensemble::zookeeper(3)).map_err(|error| error.to_string())?;
        Ok(Box::new(zookeeper_ensemble_testbed(Arc::new(ensemble)).map_err(|error| error.to_string())?))
    })
}
