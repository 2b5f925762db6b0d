use crate::common::coordinators::said;
use crate::common::{
    LONG, SHORT, admitted, ask, limited, outlive, permits, promptly, queue, served, waiting,
};
use latchwork_core::backend::ExpectedLimit;
use latchwork_core::{Claim, Kind, LostReason};

#[tokio::test]
async fn an_uncontended_lock_outlives_a_full_memory_too() {
    let (_server, mut operator, client) = served(SHORT).await;
    for kind in [Kind::Mutex, Kind::RwLock] {
        let queue = queue(kind, "a");
        let held = admitted(&client, &ask(&queue, Claim::Exclusive)).await;
        let one = format!("latchwork:{}:{{a}}:one", kind.as_str());
        assert_eq!(operator.keys(&format!("latchwork:{}:*", kind.as_str())).await, [&*one]);
        operator.fill_memory().await;
        // Only a renewed node outlives this.
        outlive(held.state().lease(), 2.0).await;
        assert_eq!(held.state().lost(), None, "not renewed");
        let before: String = operator.say(&format!("GET {one}")).await;
        let error = client.join(&ask(&queue, Claim::Exclusive)).await.unwrap_err();
        said(&error, &["memory"]);
        let after: String = operator.say(&format!("GET {one}")).await;
        assert_eq!(before.split(' ').next(), after.split(' ').next());
        held.leave().await.unwrap();
        let error = client.join(&ask(&queue, Claim::Exclusive)).await.unwrap_err();
        said(&error, &["memory"]);
        let free: String = operator.say(&format!("GET {one}")).await;
        assert_eq!(free, held.state().sequence().to_string());
        operator.tell("CONFIG SET maxmemory 0").await;
        let next = admitted(&client, &ask(&queue, Claim::Exclusive)).await;
        assert!(next.state().sequence() > held.state().sequence());
    }
}

#[tokio::test]
async fn without_memory_a_writer_turns_reader_a_limit_is_set_and_a_node_revoked() {
    let (_server, mut operator, client) = served(LONG).await;
    let (rwlock, semaphore) = (queue(Kind::RwLock, "a"), queue(Kind::Semaphore, "a"));
    let writer = admitted(&client, &ask(&rwlock, Claim::Exclusive)).await;
    let reader = waiting(&client, &ask(&rwlock, Claim::Shared)).await;
    let held = admitted(&client, &limited(&semaphore, 1, 1)).await;
    let next = waiting(&client, &permits(&semaphore, 1)).await;
    operator.fill_memory().await;
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
