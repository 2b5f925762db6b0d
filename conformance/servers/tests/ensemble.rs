use std::time::{Duration, Instant};

use latchwork_servers::Ensemble;
use tokio::time::timeout;

use crate::servers::PATIENCE;

async fn settled(ensemble: &Ensemble) -> (usize, Vec<usize>) {
    let settled = async {
        loop {
            let (leader, followers) = (ensemble.leader().await.unwrap(), ensemble.followers().await);
            if followers.len() == ensemble.size() - 1 && !followers.contains(&leader) {
                return (leader, followers);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(3 * PATIENCE, settled).await.expect("every server that does not lead follows")
}

async fn follow(ensemble: &Ensemble, these: &[usize]) {
    let follow = async {
        while ensemble.followers().await != these {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, follow).await.unwrap_or_else(|_| panic!("not {these:?} follow"));
}

#[tokio::test]
async fn a_follower_that_is_cut_off_serves_a_while_then_stops_and_rejoins_when_healed() {
    let ensemble = Ensemble::zookeeper(3).await.unwrap_or_else(|error| panic!("{error}"));
    let (leader, followers) = settled(&ensemble).await;
    let cut = followers[0];

    let begun = Instant::now();
    ensemble.cut(cut);
    // A slow machine may ask too late: after the sync limit the server knows it.
    let serves = ensemble.serves(cut).await;
    assert!(serves || begun.elapsed() > Ensemble::SYNC_LIMIT / 2, "it cannot know yet that it is cut off");
    ensemble.wait_until_not_serving(cut).await.unwrap();
    assert_eq!(ensemble.leader().await.unwrap(), leader, "the majority has kept its leader");
    follow(&ensemble, &followers[1..]).await;

    ensemble.heal();
    ensemble.wait_until_serving(cut).await.unwrap();
    assert_eq!(ensemble.leader().await.unwrap(), leader);
    follow(&ensemble, &followers).await;

    ensemble.cut(leader);
    ensemble.wait_until_not_serving(leader).await.unwrap();
    let next = ensemble.leader().await.unwrap();
    assert_ne!(next, leader);
    ensemble.heal();
    ensemble.wait_until_serving(leader).await.unwrap();
    assert_eq!(ensemble.leader().await.unwrap(), next);

    ensemble.kill(next).await.unwrap();
    assert_ne!(ensemble.leader().await.unwrap(), next);
    ensemble.launch(next).await.unwrap();
}

#[tokio::test]
async fn members_of_an_etcd_cluster_are_cut_off_killed_and_come_back() {
    let cluster = Ensemble::etcd(3).await.unwrap_or_else(|error| panic!("{error}"));
    let (_, followers) = settled(&cluster).await;

    cluster.cut(followers[0]);
    cluster.wait_until_not_serving(followers[0]).await.unwrap();
    // A stall of the machine for 600 ms may cause another election.
    assert_ne!(cluster.leader().await.unwrap(), followers[0]);
    cluster.heal();
    cluster.wait_until_serving(followers[0]).await.unwrap();

    // The return of a server may have caused another election.
    let leader = cluster.leader().await.unwrap();
    cluster.cut(leader);
    cluster.wait_until_not_serving(leader).await.unwrap();
    assert_ne!(cluster.leader().await.unwrap(), leader);
    cluster.heal();
    cluster.wait_until_serving(leader).await.unwrap();

    let leader = cluster.leader().await.unwrap();
    cluster.kill(leader).await.unwrap();
    let next = cluster.leader().await.unwrap();
    assert_ne!(next, leader);
    let last = (0..3).find(|server| ![leader, next].contains(server)).unwrap();
    cluster.kill(next).await.unwrap();
    cluster.wait_until_not_serving(last).await.expect("one server of three is not a majority");
    tokio::try_join!(cluster.launch(leader), cluster.launch(next)).unwrap();
    cluster.wait_until_serving(last).await.unwrap();
}
