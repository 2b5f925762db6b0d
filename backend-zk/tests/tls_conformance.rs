//! The suite against this backend over TLS, with certificates on both sides: in the long tier, or when it
//! is asked for.

use std::process::ExitCode;

use latchwork_conformance::selection::{TOPOLOGY, plays_on};
use latchwork_conformance::servers::Kind;
use latchwork_conformance::testbeds::tls_testbed;

fn main() -> ExitCode {
    if !plays_on("tls") {
        eprintln!("not played: it belongs to the long tier, and to {TOPOLOGY}=tls");
        return ExitCode::SUCCESS;
    }
    latchwork_conformance::main(vec![latchwork_zookeeper::connector()], |runtime| {
        let testbed = runtime.block_on(tls_testbed(Kind::Zookeeper)).map_err(|error| error.to_string())?;
        Ok(Box::new(testbed))
    })
}
