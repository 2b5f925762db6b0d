use std::sync::Arc;

use latchwork_conformance::child::SoakKind;
use latchwork_conformance::ensemble_faults::cuts_and_kills;
use latchwork_conformance::server_faults::chaos_beside;
use latchwork_conformance::servers::Ensemble;
use latchwork_conformance::testbeds::zookeeper_ensemble_testbed;
use tokio::runtime::Runtime;

use crate::common::beside_others;

#[test]
fn no_holds_conflict_during_cuts_and_kills_of_servers() {
    let runtime = Runtime::new().unwrap();
    let _beside = runtime.block_on(beside_others());
    let ensemble = Arc::new(runtime.block_on(Ensemble::zookeeper(3)).unwrap());
    let testbed = zookeeper_ensemble_testbed(Arc::clone(&ensemble)).unwrap();
    let faults = |lasts| cuts_and_kills(&ensemble, lasts);
    chaos_beside(testbed, SoakKind::Exclusive, &runtime, faults).unwrap();
}
