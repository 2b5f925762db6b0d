//! The server loses its scripts or a connection.

use std::time::Duration;

use latchwork_core::{Claim, Kind, LostReason};

use crate::common::{Operator, SHORT, admitted, ask, client, own, queue, soon, waiting};

#[tokio::test]
async fn flushed_scripts_are_sent_again_in_the_middle_of_everything() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let (holder, waiter) = (client(&server, SHORT).await, client(&server, SHORT).await);
    let queue = queue(Kind::RwLock, "a");
    let held = admitted(&holder, &ask(&queue, Claim::Exclusive)).await;
    operator.say::<()>("SCRIPT FLUSH").await;
    let next = waiting(&waiter, &ask(&queue, Claim::Shared)).await;
    operator.say::<()>("SCRIPT FLUSH").await;
    // Longer than a TTL: the renewals found their script again.
    let end = held.state().lease().deadline() + holder.lease().ttl() / 2;
    held.state().lease().clock().sleep_until(end).await;
    assert_eq!((held.state().lost(), next.state().lost()), (None, None));
    operator.say::<()>("SCRIPT FLUSH").await;
    held.leave().await.unwrap();
    soon(next.admitted()).await.unwrap();
    next.leave().await.unwrap();
}

#[tokio::test]
async fn a_cut_connection_is_made_again_and_every_node_looked_at() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let (holder, waiter) = (client(&server, "30s").await, client(&server, "30s").await);
    let queue = queue(Kind::Mutex, "a");
    let held = admitted(&holder, &ask(&queue, Claim::Exclusive)).await;
    let next = waiting(&waiter, &ask(&queue, Claim::Exclusive)).await;
    // Both lose their connection, with the inbox, and learn of the removal when they are back, long
    // before the next renewal.
    operator.say::<()>("CLIENT KILL TYPE pubsub").await;
    operator.say::<()>("DEL latchwork:mutex:{a}:seq latchwork:mutex:{a}:exp latchwork:mutex:{a}:node").await;
    operator.say::<()>("CLIENT KILL TYPE pubsub").await;
    let started = std::time::Instant::now();
    assert_eq!(soon(held.state().until_lost()).await, LostReason::Revoked);
    assert_eq!(soon(next.state().until_lost()).await, LostReason::Revoked);
    assert!(started.elapsed() < Duration::from_secs(10), "at the next renewal only");
}
