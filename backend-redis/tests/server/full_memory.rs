//! A server without memory: held locks stay, and joins are refused.

use crate::common::{
    ALL, LONG, Operator, SHORT, admitted, ask, client, limited, own, permits, promptly, queue, soon, waiting,
};
use latchwork_core::backend::ExpectedLimit;
use latchwork_core::{Claim, ErrorKind, Kind, LostReason};

#[tokio::test]
async fn held_locks_outlive_a_full_memory_and_new_ones_are_refused() {
    let server = own(&["--maxmemory-policy", "noeviction"]).await;
    let mut operator = Operator::of(&server).await;
    let (holder, waiter) = (client(&server, SHORT).await, client(&server, SHORT).await);
    let queue = queue(Kind::Mutex, "a");
    let held = admitted(&holder, &ask(&queue, Claim::Exclusive)).await;
    let next = waiting(&waiter, &ask(&queue, Claim::Exclusive)).await;
    operator.say::<()>("CONFIG SET maxmemory 1").await;
    let error =
        holder.join(&ask(&crate::common::queue(Kind::Mutex, "b"), Claim::Exclusive)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("memory"), "{error}");
    // A whole TTL beyond the deadline: only renewals that pass can bring both nodes over it.
    let end = held.state().lease().deadline() + holder.lease().ttl();
    let lost = soon(async {
        tokio::select! {
            reason = held.state().until_lost() => Some(reason),
            reason = next.state().until_lost() => Some(reason),
            () = held.state().lease().clock().sleep_until(end) => None,
        }
    })
    .await;
    assert_eq!(lost, None);
    // The release and the hand-off pass too.
    held.leave().await.unwrap();
    soon(next.admitted()).await.unwrap();
    // A listing passes too.
    assert_eq!(waiter.list(&queue, ALL).await.unwrap().len(), 1);
    next.leave().await.unwrap();
}

#[tokio::test]
async fn an_uncontended_lock_outlives_a_full_memory_too() {
    let server = own(&["--maxmemory-policy", "noeviction"]).await;
    let mut operator = Operator::of(&server).await;
    let client = client(&server, SHORT).await;
    for kind in [Kind::Mutex, Kind::RwLock] {
        let queue = queue(kind, "a");
        let held = admitted(&client, &ask(&queue, Claim::Exclusive)).await;
        let one = format!("latchwork:{}:{{a}}:one", kind.as_str());
        assert_eq!(
            operator.say::<Vec<String>>(&format!("KEYS latchwork:{}:*", kind.as_str())).await,
            [&*one]
        );
        operator.say::<()>("CONFIG SET maxmemory 1").await;
        let end = held.state().lease().deadline() + client.lease().ttl();
        held.state().lease().clock().sleep_until(end).await;
        assert_eq!(held.state().lost(), None, "not renewed");
        // A second node needs more memory: refused before any write.
        let before: String = operator.say(&format!("GET {one}")).await;
        let error = client.join(&ask(&queue, Claim::Exclusive)).await.unwrap_err();
        assert!(error.to_string().contains("memory"), "{error}");
        let after: String = operator.say(&format!("GET {one}")).await;
        assert_eq!(before.split(' ').next(), after.split(' ').next());
        held.leave().await.unwrap();
        let error = client.join(&ask(&queue, Claim::Exclusive)).await.unwrap_err();
        assert!(error.to_string().contains("memory"), "{error}");
        let free: String = operator.say(&format!("GET {one}")).await;
        assert_eq!(free, held.state().sequence().to_string());
        operator.say::<()>("CONFIG SET maxmemory 0").await;
        let next = admitted(&client, &ask(&queue, Claim::Exclusive)).await;
        assert!(next.state().sequence() > held.state().sequence());
    }
}

#[tokio::test]
async fn without_memory_a_writer_turns_reader_a_limit_is_set_and_a_node_revoked() {
    let server = own(&["--maxmemory-policy", "noeviction"]).await;
    let mut operator = Operator::of(&server).await;
    let client = client(&server, LONG).await;
    let (rwlock, semaphore) = (queue(Kind::RwLock, "a"), queue(Kind::Semaphore, "a"));
    let writer = admitted(&client, &ask(&rwlock, Claim::Exclusive)).await;
    let reader = waiting(&client, &ask(&rwlock, Claim::Shared)).await;
    let held = admitted(&client, &limited(&semaphore, 1, 1)).await;
    let next = waiting(&client, &permits(&semaphore, 1)).await;
    operator.say::<()>("CONFIG SET maxmemory 1").await;
    writer.downgrade().await.unwrap();
    promptly(reader.admitted()).await.unwrap();
    client.set_limit(&semaphore, ExpectedLimit::Any, 2).await.unwrap();
    promptly(next.admitted()).await.unwrap();
    assert!(client.revoke(&semaphore, held.state().sequence()).await.unwrap());
    assert_eq!(promptly(held.state().until_lost()).await, LostReason::Revoked);
    assert!(!client.revoke(&semaphore, held.state().sequence()).await.unwrap());
    assert_eq!(client.limit(&semaphore).await.unwrap(), Some(2));
    client.set_limit(&queue(Kind::Semaphore, "none"), ExpectedLimit::Any, 2).await.unwrap();
}
