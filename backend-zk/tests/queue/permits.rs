use std::time::Duration;

use crate::common::{
    ALL, address, admitted, backend, config, is_marked, join, place, promptly, server, soon, stored, waiting,
};
use latchwork_core::Claim::{self, Permits};
use latchwork_core::backend::{Join, Joined};
use latchwork_core::{Kind, Limit};

#[tokio::test]
async fn many_permits_go_round_without_a_sleeper() {
    let mut config = config(server().await.addr());
    config.ttl = Duration::from_secs(60);
    let queue = address(&config, Kind::Semaphore, "a");
    let backends = [backend(&config).await, backend(&config).await];
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..24 {
        let (backend, queue) = (backends[n % 2].clone(), queue.clone());
        tasks.spawn(async move {
            let request =
                Join { limit: Limit::Exactly(7), ..join(&queue, Permits(1 + u32::try_from(n % 3).unwrap())) };
            let node = match backend.join(&request).await.unwrap() {
                Joined::Admitted(node) => node,
                Joined::Waiting(node) => {
                    // After 45 s a re-check would hide a lost event.
                    let admitted = tokio::time::timeout(Duration::from_secs(30), node.admitted()).await;
                    admitted.expect("no event within 30 s").unwrap();
                    node
                }
                Joined::Refused => panic!("the join is not a try"),
            };
            node.leave().await.unwrap();
        });
    }
    soon(async {
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    })
    .await;
}

/// permits(3): A(2) and B(1) hold, the limit is lowered to 2, and C(1) joins. By the sums C would wait for B
/// for ever (CHAIN-LIMIT-CHANGE-MARKS-HOLDERS).
#[tokio::test]
async fn lowered_limit_blocks_no_waiter_forever() {
    let (config, backend, stranger) = place().await;
    let queue = address(&config, Kind::Semaphore, "a");
    let directory = format!("/{}/semaphore/a", config.namespace);
    let with = |limit: Limit, claim: Claim| Join { limit, ..join(&queue, claim) };
    let first = admitted(backend.join(&with(Limit::Exactly(3), Permits(2))).await);
    let second = admitted(backend.join(&with(Limit::Stored, Permits(1))).await);
    stranger.set_data(&format!("/{}/limits/a", config.namespace), b"2", None).await.unwrap();
    let third = waiting(backend.join(&with(Limit::Stored, Permits(1))).await);
    let waits = tokio::spawn({
        let node = third.clone();
        async move { node.admitted().await }
    });
    let marks = async || stored(&stranger, &directory).await.iter().filter(|data| is_marked(data)).count();
    soon(async { while marks().await != 2 {} }).await;
    assert!(backend.list(&queue, ALL).await.unwrap().iter().filter(|entry| entry.admitted).count() == 2);
    first.leave().await.unwrap();
    promptly(waits).await.unwrap().unwrap();
    second.leave().await.unwrap();
    third.leave().await.unwrap();
}
