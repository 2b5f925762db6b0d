//! Chaos over three servers that are cut off from each other, and killed, at random: two must never
//! hold.

use std::sync::Arc;
use std::time::Duration;

use latchwork_conformance::order::SoakKind;
use latchwork_conformance::server_faults::chaos_beside;
use latchwork_conformance::servers::Ensemble;
use latchwork_conformance::testbeds::zookeeper_ensemble_testbed;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);

/// `ensemble.rs` has the control: a client that believes a follower which is cut off.
#[test]
fn nobody_holds_beside_another_while_servers_are_cut_off_and_killed() {
    let runtime = Runtime::new().unwrap();
    let ensemble = Arc::new(runtime.block_on(Ensemble::zookeeper(3)).unwrap());
    let testbed = zookeeper_ensemble_testbed(Arc::clone(&ensemble)).unwrap();
    let faults = |lasts| server_faults(&ensemble, lasts);
    chaos_beside(testbed, SoakKind::Exclusive, &runtime, faults).unwrap();
}

/// What the servers suffer, one thing after the other, for so long; then they are well.
async fn server_faults(ensemble: &Ensemble, lasts: Duration) {
    let mut chance = StdRng::seed_from_u64(rand::random());
    let ends = Instant::now() + lasts;
    let (mut cuts, mut kills) = (0, 0);
    while Instant::now() < ends {
        let leader = ensemble.leader().await.expect("one leads");
        let others: Vec<_> = (0..ensemble.size()).filter(|server| *server != leader).collect();
        let other = others[chance.random_range(0..others.len())];
        let left = ends.saturating_duration_since(Instant::now()).clamp(SECOND, SECOND * 6);
        let time = chance.random_range(SECOND / 2..left);
        match chance.random_range(0..4) {
            0 => ensemble.cut(leader),
            1 => ensemble.cut(other),
            2 => ensemble.cut_between(leader, other),
            _ => {
                let server = if chance.random() { leader } else { other };
                ensemble.kill(server).await.expect("killed");
                sleep(time / 3).await;
                ensemble.launch(server).await.expect("launched");
                kills += 1;
                continue;
            }
        }
        sleep(time).await;
        ensemble.heal();
        cuts += 1;
        // Some time to serve in.
        sleep(chance.random_range(SECOND / 2..SECOND * 2)).await;
    }
    ensemble.leader().await.expect("one leads again");
    eprintln!("{cuts} cuts, {kills} kills");
}
