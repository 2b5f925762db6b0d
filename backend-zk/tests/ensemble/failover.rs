use latchwork_conformance::ensemble_faults::failover;
use latchwork_conformance::servers::Ensemble;
use latchwork_conformance::testbeds::zookeeper_ensemble_testbed;
use tokio::runtime::Runtime;

use crate::common::beside_none;

#[test]
fn no_two_processes_hold_while_servers_are_killed_and_cut_off() {
    let runtime = Runtime::new().unwrap();
    let _alone = runtime.block_on(beside_none());
    failover(async || Ensemble::zookeeper(3).await, zookeeper_ensemble_testbed, &runtime).unwrap();
}
