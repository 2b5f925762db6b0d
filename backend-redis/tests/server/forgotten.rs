use latchwork_conformance::errors::is_lost;
use latchwork_conformance::recorder::Recorder;
use latchwork_conformance::servers::Server;
use latchwork_core::{Coordinator, Ended, LostReason};

use crate::common::coordinators::{queued, user};
use crate::common::{LONG, Operator, PATIENCE, SHORT, own, soon};

async fn of(server: &Server, ttl: &str) -> Coordinator {
    user(&format!("{}?ttl={ttl}", server.url())).await
}

async fn restarted(server: &Server) {
    server.kill().await.unwrap();
    server.launch().await.unwrap();
}

#[tokio::test]
async fn data_loss_reports_forgotten_and_waiters_join_again() {
    let server = own(&[]).await;
    let recorder = Recorder::new();
    let (ours, others) = (recorder.scope(of(&server, LONG)).await, of(&server, LONG).await);
    for round in 0..2 {
        let held = recorder.scope(async { ours.mutex("held").unwrap() }).await;
        let hold = soon(held.acquire()).await.unwrap();
        let waits = others.mutex("held").unwrap().acquire().within(PATIENCE);
        let waiter = queued(&held, waits).await;
        restarted(&server).await;
        assert_eq!(soon(hold.lost()).await, Ended::Lost(LostReason::Forgotten), "round {round}");
        let lost = recorder.sum("latchwork_losses_total", &[("reason", "forgotten")]);
        assert_eq!(lost, f64::from(round + 1), "{recorder:?}");
        assert!(recorder.sum("latchwork_reconnects_total", &[]) >= lost, "{recorder:?}");
        assert_eq!(hold.release().await.unwrap_err().lost_reason(), Some(LostReason::Forgotten));
        let next = soon(waiter).await.unwrap().expect("the waiter joins again within its deadline");
        next.release().await.unwrap();
    }
    ours.close().await.unwrap();
    others.close().await.unwrap();
}

#[tokio::test]
async fn a_server_that_was_flushed_has_not_forgotten() {
    let server = own(&[]).await;
    let (ours, others) = (of(&server, SHORT).await, of(&server, SHORT).await);
    restarted(&server).await;
    let mut operator = Operator::of(&server).await;
    let mutex = ours.mutex("held").unwrap();
    let hold = soon(mutex.acquire()).await.unwrap();
    let waiter = queued(&mutex, others.mutex("held").unwrap().acquire()).await;
    operator.tell("FLUSHALL").await;
    assert_eq!(soon(hold.lost()).await, Ended::Lost(LostReason::Revoked));
    is_lost(soon(waiter).await.unwrap(), LostReason::Revoked);
}
