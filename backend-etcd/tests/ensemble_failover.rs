//! Servers of a cluster are killed and cut off while processes contend: no two hold at once.

use std::process::ExitCode;
use std::sync::Arc;

use latchwork_conformance::ensemble_faults::failover_main;
use latchwork_conformance::servers::Ensemble;
use latchwork_conformance::testbeds::etcd_cluster_testbed;
use tokio::runtime::Runtime;

fn main() -> ExitCode {
    if let Some(code) = latchwork_conformance::contender_main(&[latchwork_etcd::connector()]) {
        return code;
    }
    let runtime = Runtime::new().expect("a runtime starts");
    let ensemble = Arc::new(runtime.block_on(Ensemble::etcd(3)).expect("servers start"));
    let testbed = etcd_cluster_testbed(Arc::clone(&ensemble)).expect("its URL");
    failover_main(&ensemble, testbed, &runtime)
}
