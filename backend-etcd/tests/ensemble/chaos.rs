use std::sync::Arc;

use latchwork_conformance::child::SoakKind;
use latchwork_conformance::ensemble_faults::cuts_and_kills;
use latchwork_conformance::server_faults::chaos_beside;
use latchwork_conformance::servers::Ensemble;
use latchwork_conformance::testbeds::etcd_cluster_testbed;
use tokio::runtime::Runtime;

#[test]
fn no_holds_conflict_during_cuts_and_kills_of_servers() {
    let runtime = Runtime::new().unwrap();
    let ensemble = Arc::new(runtime.block_on(Ensemble::etcd(3)).unwrap());
    let testbed = etcd_cluster_testbed(Arc::clone(&ensemble)).unwrap();
    let faults = |lasts| cuts_and_kills(&ensemble, lasts);
    chaos_beside(testbed, SoakKind::ReadWrite, &runtime, faults).unwrap();
}
