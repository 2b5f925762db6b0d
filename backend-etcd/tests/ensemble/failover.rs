use latchwork_conformance::ensemble_faults::failover;
use latchwork_conformance::servers::Ensemble;
use latchwork_conformance::testbeds::etcd_cluster_testbed;
use tokio::runtime::Runtime;

#[test]
fn no_two_processes_hold_while_servers_are_killed_and_cut_off() {
    let runtime = Runtime::new().unwrap();
    failover(async || Ensemble::etcd(3).await, etcd_cluster_testbed, &runtime).unwrap();
}
