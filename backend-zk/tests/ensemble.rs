//! Three servers: a holder whose follower is cut off from its leader must give up before another is
//! admitted.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{PATIENCE, config};
use latchwork_conformance::servers::Ensemble;
use latchwork_core::contracts::Backend;
use latchwork_core::{Clock, Config, Coordinator, LostReason, Moment};
use latchwork_zookeeper::ZooKeeperBackend;
use tokio::time::timeout;

/// When the holder behind the cut-off follower noticed its loss, and when the other was admitted.
struct Outcome {
    lost: Moment,
    admitted: Moment,
}

async fn cut_off(ensemble: &Ensemble, connect: impl AsyncFn(Config) -> ZooKeeperBackend) -> Outcome {
    let leader = ensemble.leader().await.unwrap();
    let follower = ensemble.followers().await[0];
    let mut config = config(&ensemble.addr(follower));
    // Nearly half of it lies between a renewal and the deadline of the last one: more than a busy
    // machine takes away.
    config.ttl = Duration::from_secs(3);
    let holder = Coordinator::new(Arc::new(connect(config.clone()).await) as Arc<dyn Backend>, &config);
    config.hosts = vec![ensemble.addr(leader)];
    let other = common::coordinator(&config).await;

    let held = holder.mutex("a").unwrap().acquire().await.unwrap();
    let waiting = other.mutex("a").unwrap();
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    while holder.mutex("a").unwrap().queue(0, 10).await.unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    // Healthy for longer than a TTL first. Otherwise a deadline that counts from the creation would
    // pass.
    assert!(timeout(config.ttl * 2, held.lost()).await.is_err(), "healthy");

    ensemble.cut(follower);
    let clock = Clock::system();
    let (lost, admitted) = tokio::join!(
        async {
            let lost = timeout(PATIENCE, held.lost()).await.expect("it learns of its loss");
            (clock.now(), lost.reason())
        },
        async {
            let next = timeout(PATIENCE, waiting).await.expect("the next is admitted").unwrap().unwrap();
            (clock.now(), next)
        }
    );
    let (admitted, next) = admitted;
    assert_eq!(lost.1, LostReason::Expired);
    assert!(next.token() > held.token());
    ensemble.heal();
    ensemble.wait_until_serving(follower).await.unwrap();
    let _ = next.release().await.unwrap();
    other.close().await.unwrap();
    holder.close().await.unwrap();
    Outcome { lost: lost.0, admitted }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_behind_a_cut_off_follower_gives_up_before_the_next_is_admitted() {
    let ensemble = Ensemble::zookeeper(3).await.unwrap();
    let honest = cut_off(&ensemble, async |config| ZooKeeperBackend::connect(&config).await.unwrap()).await;
    assert!(honest.lost < honest.admitted, "two held, for {:?}", honest.lost.since(honest.admitted));

    // The control: the follower goes on answering reads, and a client that believes them holds
    // beside the next.
    let believing = async |config| ZooKeeperBackend::connect_believing_reads(&config).await.unwrap();
    let broken = cut_off(&ensemble, believing).await;
    assert!(broken.admitted < broken.lost, "a client that counts from its last read must be found out");
}
