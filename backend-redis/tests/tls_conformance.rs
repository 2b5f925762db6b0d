//! The suite against this backend over TLS, with certificates on both sides: whole in the long tier,
//! or when it is asked for.

use std::process::ExitCode;

use latchwork_conformance::servers::Kind;
use latchwork_conformance::testbeds::tls_testbed;

fn main() -> ExitCode {
    latchwork_conformance::main_on("tls", latchwork_redis::connector(), async || {
        Ok(tls_testbed(Kind::Redis).await?)
    })
}
