//! The suite against this backend on three servers over TLS, with certificates on both sides: whole in the
//! long tier, or when it is asked for.

use std::process::ExitCode;

use latchwork_conformance::testbeds::zookeeper_tls_ensemble_testbed;

fn main() -> ExitCode {
    latchwork_conformance::main_on("tls", latchwork_zookeeper::connector(), async || {
        Ok(zookeeper_tls_ensemble_testbed().await?)
    })
}
