use std::sync::Arc;
use std::time::Duration;

use super::keys::{backend_of, lock_at, operator};
use crate::common::{LONG, admitted, ask, close_all, promptly, queue, soon, standing, waiting};
use latchwork_conformance::errors::fails;
use latchwork_conformance::servers::ClusteredRedis;
use latchwork_core::backend::Close;
use latchwork_core::{Address, Claim, ErrorKind, Kind, LostReason};

/// No master is replaced while a test keeps it silent.
const CALM: Duration = Duration::from_secs(60);
const SILENT: usize = 0;

async fn queues(cluster: &ClusteredRedis, kind: Kind) -> [Address; 2] {
    let mut taken = 0;
    let silent = lock_at(cluster, SILENT, &mut taken).await;
    [silent, lock_at(cluster, 1, &mut taken).await].map(|lock| queue(kind, &lock))
}

#[tokio::test]
async fn acquisitions_of_many_keep_none_of_another_server_waiting() {
    const MANY: usize = 512;
    let cluster = ClusteredRedis::start(CALM).await.unwrap();
    let [stuck, well] = queues(&cluster, Kind::Mutex).await;
    let client = backend_of(&cluster, &format!("ttl={LONG}&request_timeout=4s")).await;
    cluster.pause(SILENT).await.unwrap();
    let (failed, mut failures) = tokio::sync::mpsc::unbounded_channel();
    let asking: Vec<_> = (0..MANY)
        .map(|_| {
            let (client, stuck, failed) = (Arc::clone(&client), stuck.clone(), failed.clone());
            tokio::spawn(async move {
                while let Err(error) = client.join(&ask(&stuck, Claim::Exclusive)).await {
                    let _ = failed.send(error);
                }
            })
        })
        .collect();
    let error = soon(failures.recv()).await.expect("they fail");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    for _ in 0..20 {
        let node = soon(admitted(&client, &ask(&well, Claim::Exclusive))).await;
        soon(node.leave()).await.unwrap();
    }
    asking.iter().for_each(|asking| asking.abort());
    cluster.resume(SILENT).unwrap();
    soon(client.close(Close::Orderly)).await.unwrap();
}

#[tokio::test]
async fn a_close_leaves_no_node_on_a_server_that_answers() {
    const MANY: usize = 512;
    let cluster = ClusteredRedis::start(CALM).await.unwrap();
    let queues = queues(&cluster, Kind::RwLock).await;
    let closes = backend_of(&cluster, &format!("ttl={LONG}&request_timeout=10s")).await;
    let reads = backend_of(&cluster, &format!("ttl={LONG}")).await;
    let mut nodes = Vec::new();
    for queue in &queues {
        for _ in 0..MANY {
            nodes.push(soon(admitted(&closes, &ask(queue, Claim::Shared))).await);
        }
    }
    assert_eq!(standing(&reads, &queues[1]).await.len(), MANY);
    cluster.pause(SILENT).await.unwrap();
    fails(soon(closes.close(Close::Orderly)).await, ErrorKind::Unavailable, "a server does not answer");
    assert_eq!(standing(&reads, &queues[1]).await.len(), 0);
    cluster.resume(SILENT).unwrap();
    soon(reads.close(Close::Orderly)).await.unwrap();
}

/// The first re-check has no answer.
#[tokio::test]
async fn a_recheck_keeps_none_of_another_server_waiting() {
    let cluster = ClusteredRedis::start(CALM).await.unwrap();
    let [stuck, well] = queues(&cluster, Kind::Mutex).await;
    let mut operator = operator(&cluster, 1).await;
    let patient = format!("ttl={LONG}&request_timeout=20s");
    let client = backend_of(&cluster, &patient).await;
    let inboxes: Vec<String> = operator.say("PUBSUB CHANNELS latchwork:inbox:*").await;
    let other = backend_of(&cluster, &patient).await;
    let held = soon(admitted(&other, &ask(&stuck, Claim::Exclusive))).await;
    let behind = ask(&stuck, Claim::Exclusive);
    let waits = soon(waiting(&client, &behind)).await;
    let revoked = soon(admitted(&client, &ask(&well, Claim::Exclusive))).await;
    cluster.pause(SILENT).await.unwrap();
    operator.publish(&inboxes[0], &format!("{} -{}", behind.id, waits.state().sequence())).await;
    assert!(soon(other.revoke(&well, revoked.state().sequence())).await.unwrap());
    assert_eq!(promptly(revoked.state().until_lost()).await, LostReason::Revoked);
    cluster.resume(SILENT).unwrap();
    soon(held.leave()).await.unwrap();
    soon(waits.admitted()).await.unwrap();
    close_all([client, other]).await;
}
