//! The suite against this backend, on a server from the environment, a container, or this machine.

use std::process::ExitCode;

use latchwork_conformance::testbeds::etcd_testbed;
use latchwork_conformance::{main_with_server, servers::Kind};

fn main() -> ExitCode {
    main_with_server(vec![latchwork_etcd::connector()], Kind::Etcd, etcd_testbed)
}
