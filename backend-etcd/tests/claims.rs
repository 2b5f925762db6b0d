use crate::common::{
    ask, attempt, contains, etcdctl, join, keys, proxied, queue, revision, served, server, soon,
};
use latchwork_core::backend::{ExpectedLimit, Joined, Patience};
use latchwork_core::{Claim, ErrorKind, Kind, LostReason};

#[tokio::test]
async fn limit_lowered_during_a_try_refuses_it() {
    let (server, direct) = served("").await;
    let (proxy, slow) = proxied(&server, "").await;
    let (_, two) = join(&direct, Kind::Semaphore, Claim::Permits(2), Some(3)).await;
    let before = revision(&server).await;
    assert!(attempt(&direct, Kind::Semaphore, Claim::Permits(2), Some(3)).await.is_none());
    assert_eq!(revision(&server).await, before, "a refused try wrote a key");
    for limit in [None, Some(3)] {
        let mut read = proxy.hold_reply_to(|chunk| contains(chunk, "limit/semaphore/a"));
        let asked = ask(Kind::Semaphore, Claim::Permits(1), limit, Patience::Try);
        let trying = tokio::spawn({
            let slow = slow.clone();
            async move { slow.backend().join(&asked).await }
        });
        soon(read.fired()).await.unwrap();
        etcdctl(&server, &["put", "latchwork/limit/semaphore/a", "2"]).await;
        proxy.resume();
        match (limit, soon(trying).await.unwrap()) {
            (None, answer) => assert!(matches!(answer, Ok(Joined::Refused)), "{answer:?}"),
            (Some(_), answer) => assert_eq!(answer.unwrap_err().kind(), ErrorKind::Conflict),
        }
        assert_eq!(keys(&server, "latchwork/semaphore/").await.len(), 1, "the try left its node");
        etcdctl(&server, &["put", "latchwork/limit/semaphore/a", "3"]).await;
    }
    assert!(two.state().lost().is_none());
}

/// The delete of the node may arrive at any time, so no later request may create a node with that name.
#[tokio::test]
async fn a_join_that_does_not_fit_and_is_perhaps_not_taken_back_is_over() {
    let server = server().await;
    let (proxy, client) = proxied(&server, "").await;
    let nodes = "latchwork/semaphore/a/";
    client.backend().set_limit(&queue(Kind::Semaphore), ExpectedLimit::Any, 2).await.unwrap();
    let too_wide = ask(Kind::Semaphore, Claim::Permits(3), None, Patience::Wait);
    let mut parked = proxy.park_request(move |chunk| contains(chunk, nodes) && !contains(chunk, "permits"));
    let over = client.backend().join(&too_wide).await.unwrap_err();
    parked.caught().await.unwrap();
    assert_eq!(over.lost_reason(), Some(LostReason::Expired), "{over}");
    client.backend().abandon(&too_wide).await.unwrap();
    etcdctl(&server, &["put", "latchwork/limit/semaphore/a", "3"]).await;
    let (admitted, node) = join(&client, Kind::Semaphore, Claim::Permits(3), None).await;
    parked.deliver().await.unwrap();
    assert!(admitted);
    assert_eq!(keys(&server, "latchwork/semaphore/").await.len(), 1, "only the next holder has a node");
    node.leave().await.unwrap();
}

#[tokio::test]
async fn a_limit_that_another_program_wrote_is_followed() {
    let (server, client) = served("").await;
    etcdctl(&server, &["put", "latchwork/limit/semaphore/a", "03"]).await;
    for limit in [None, Some(3)] {
        for patience in [Patience::Wait, Patience::Try] {
            let asked = ask(Kind::Semaphore, Claim::Permits(3), limit, patience);
            let Joined::Admitted(node) = client.backend().join(&asked).await.unwrap() else {
                panic!("the semaphore is free")
            };
            node.leave().await.unwrap();
        }
    }
    assert_eq!(keys(&server, "latchwork/semaphore/").await, [""; 0]);
}
