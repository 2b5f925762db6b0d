//! Why a node is gone: an operator removed it, or the server forgot it.

use latchwork_conformance::recorder::Recorder;
use latchwork_conformance::servers::Server;
use latchwork_core::{Config, Coordinator, Ended, LostReason, connect};

use crate::common::{LONG, Operator, SHORT, own, soon};

async fn at(server: &Server, ttl: &str) -> Coordinator {
    let config: Config = format!("{}?ttl={ttl}", server.url()).parse().unwrap();
    connect(&[latchwork_redis::connector()], &config).await.unwrap()
}

/// Restarts the server, which forgets all.
async fn restarted(server: &Server) {
    server.kill().await.unwrap();
    server.launch().await.unwrap();
}

#[tokio::test]
async fn a_server_that_lost_its_data_has_forgotten_and_a_waiter_joins_anew() {
    let server = own(&[]).await;
    let recorder = Recorder::new();
    let (ours, others) = (recorder.scope(at(&server, LONG)).await, at(&server, LONG).await);
    for round in 0..2 {
        let held = recorder.scope(async { ours.mutex("held").unwrap() }).await;
        let hold = soon(held.acquire()).await.unwrap();
        let mutex = others.mutex("held").unwrap();
        let waiter = tokio::spawn(async move { mutex.acquire().within(crate::common::PATIENCE).await });
        let queue = ours.mutex("held").unwrap();
        soon(async {
            while queue.queue().first(10).await.unwrap().len() < 2 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        restarted(&server).await;
        assert_eq!(soon(hold.lost()).await, Ended::Lost(LostReason::Forgotten), "round {round}");
        let lost = recorder.sum("latchwork_losses_total", &[("reason", "forgotten")]);
        assert_eq!(lost, f64::from(round + 1), "{recorder:?}");
        assert!(recorder.sum("latchwork_reconnects_total", &[]) >= lost, "{recorder:?}");
        assert_eq!(hold.release().await.unwrap_err().lost_reason(), Some(LostReason::Forgotten));
        let next = soon(waiter).await.unwrap().expect("it joined anew, within its deadline");
        next.release().await.unwrap();
    }
    ours.close().await.unwrap();
    others.close().await.unwrap();
}

#[tokio::test]
async fn a_server_that_was_flushed_has_not_forgotten() {
    let server = own(&[]).await;
    let (ours, others) = (at(&server, SHORT).await, at(&server, SHORT).await);
    // Before any hold.
    restarted(&server).await;
    let mut operator = Operator::of(&server).await;
    let hold = soon(ours.mutex("held").unwrap().acquire()).await.unwrap();
    let mutex = others.mutex("held").unwrap();
    let waiter = tokio::spawn(async move { mutex.acquire().await });
    let queue = ours.mutex("held").unwrap();
    soon(async {
        while queue.queue().first(10).await.unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    operator.say::<()>("FLUSHALL").await;
    assert_eq!(soon(hold.lost()).await, Ended::Lost(LostReason::Revoked));
    let error = soon(waiter).await.unwrap().expect_err("removed by hand");
    assert_eq!(error.lost_reason(), Some(LostReason::Revoked), "{error}");
}
