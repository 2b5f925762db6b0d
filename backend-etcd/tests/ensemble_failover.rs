//! Servers of a cluster are killed and cut off while processes contend: no two hold at once.

use std::process::ExitCode;

use latchwork_conformance::ensemble_faults::failover_main;
use latchwork_conformance::servers::Ensemble;
use latchwork_conformance::testbeds::etcd_cluster_testbed;
use tokio::runtime::Runtime;

fn main() -> ExitCode {
    if let Some(code) = latchwork_conformance::contender_main(&[latchwork_etcd::connector()]) {
        return code;
    }
    let runtime = Runtime::new().expect("a runtime starts");
    failover_main(async || Ensemble::etcd(3).await, etcd_cluster_testbed, &runtime)
}
