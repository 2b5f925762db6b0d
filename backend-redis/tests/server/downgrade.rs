//! A writer turns into a reader.

use futures_util::FutureExt;
use latchwork_core::contracts::{Join, NodeId};
use latchwork_core::decide::Claim;
use latchwork_core::{ErrorKind, Kind, LostReason};

use crate::common::{
    ALL, LONG, Operator, SHORT, admitted, ask, client, own, promptly, queue, standing, waiting,
};

#[tokio::test]
async fn a_writer_that_downgrades_keeps_its_place_and_the_readers_behind_it_are_notified() {
    let server = own(&[]).await;
    let (ours, others) = (client(&server, LONG).await, client(&server, LONG).await);
    let queue = queue(Kind::RwLock, "a");
    let (exclusive, shared) = (ask(&queue, Claim::Exclusive), ask(&queue, Claim::Shared));
    let fresh = |join: &Join| Join { id: NodeId::random(), ..join.clone() };
    let held = admitted(&ours, &exclusive).await;
    let reader = waiting(&others, &shared).await;
    let writer = waiting(&others, &fresh(&exclusive)).await;
    let last = waiting(&others, &fresh(&shared)).await;
    let sequence = held.state().sequence();
    held.downgrade().await.unwrap();
    promptly(reader.admitted()).await.unwrap();
    // A repetition, as after a lost reply, changes nothing.
    held.downgrade().await.unwrap();
    assert_eq!(standing(&ours, &queue).await, [true, true, false, false]);
    let entries = ours.list(&queue, ALL).await.unwrap();
    assert_eq!((entries[0].sequence, entries[0].claim), (sequence, Claim::Shared));
    assert_eq!((held.state().sequence(), held.state().lost()), (sequence, None));
    // The next writer waits for both readers, and the last reader for that writer.
    reader.leave().await.unwrap();
    assert_eq!(standing(&ours, &queue).await, [true, false, false]);
    held.leave().await.unwrap();
    promptly(writer.admitted()).await.unwrap();
    assert!(last.admitted().now_or_never().is_none());
    writer.leave().await.unwrap();
    promptly(last.admitted()).await.unwrap();
    last.leave().await.unwrap();
    assert_eq!(standing(&ours, &queue).await, [false; 0]);
}

#[tokio::test]
async fn a_downgraded_node_is_renewed_like_any_other() {
    let server = own(&[]).await;
    let client = client(&server, SHORT).await;
    let queue = queue(Kind::RwLock, "a");
    let held = admitted(&client, &ask(&queue, Claim::Exclusive)).await;
    held.downgrade().await.unwrap();
    let end = held.state().lease().deadline() + client.lease().ttl();
    held.state().lease().clock().sleep_until(end).await;
    assert_eq!(held.state().lost(), None);
    assert_eq!(standing(&client, &queue).await, [true]);
}

#[tokio::test]
async fn a_downgrade_that_comes_late_makes_nothing() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let client = client(&server, LONG).await;
    let queue = queue(Kind::RwLock, "a");
    let held = admitted(&client, &ask(&queue, Claim::Exclusive)).await;
    let next = waiting(&client, &ask(&queue, Claim::Exclusive)).await;
    held.leave().await.unwrap();
    promptly(next.admitted()).await.unwrap();
    let error = held.downgrade().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Lost(_)), "{error}");
    // The next node is still the only one, and a writer.
    let entries = client.list(&queue, ALL).await.unwrap();
    assert_eq!(entries.iter().map(|entry| entry.claim).collect::<Vec<_>>(), [Claim::Exclusive]);
    next.leave().await.unwrap();
    let keys: Vec<String> = operator.say("KEYS latchwork:rwlock:{a}:*").await;
    assert_eq!(keys, ["latchwork:rwlock:{a}:one"]);
    let mutex = admitted(&client, &ask(&crate::common::queue(Kind::Mutex, "a"), Claim::Exclusive)).await;
    assert_eq!(mutex.downgrade().await.unwrap_err().argument(), Some("claim"));
}

#[tokio::test]
async fn a_downgrade_of_a_revoked_node_ends_the_hold() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let client = client(&server, LONG).await;
    let held = admitted(&client, &ask(&queue(Kind::RwLock, "a"), Claim::Exclusive)).await;
    operator.say::<()>("FLUSHALL").await;
    let error = held.downgrade().await.unwrap_err();
    assert_eq!(error.lost_reason(), Some(LostReason::Revoked), "{error}");
    assert_eq!(held.state().lost(), Some(LostReason::Revoked));
}
