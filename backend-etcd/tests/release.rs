//! A release answers by the server's state of the node, not by the client's.

use crate::common::{client, proxied, server, soon, until_keys};
use latchwork_core::{ErrorKind, LostReason};

#[tokio::test]
async fn a_release_after_a_forced_one_and_another_hold_is_already_lost() {
    let server = server().await;
    let (a, b) = (client(&server, "").await, client(&server, "").await);
    let (mine, theirs) = (a.mutex("a").unwrap(), b.mutex("a").unwrap());
    for _ in 0..20 {
        let hold = soon(mine.acquire()).await.unwrap();
        assert!(soon(theirs.force_release(hold.token().sequence())).await.unwrap());
        let next = soon(theirs.acquire()).await.unwrap();
        next.release().await.unwrap();
        assert_eq!(soon(hold.release()).await.unwrap_err().lost_reason(), Some(LostReason::Revoked));
    }
}

#[tokio::test]
async fn a_release_in_time_is_one_and_one_whose_reply_was_lost_is_given_back() {
    let server = server().await;
    let (proxy, client) = proxied(&server, "request_timeout=5s").await;
    let (mutex, semaphore) = (client.mutex("a").unwrap(), client.semaphore("s", 2).unwrap());
    mutex.acquire().await.unwrap().release().await.unwrap();
    semaphore.acquire(2).await.unwrap().release().await.unwrap();
    let hold = mutex.acquire().await.unwrap();
    let own = until_keys(&server, "latchwork/mutex/a/", 1).await.remove(0).into_bytes();
    let mut lost = proxy.drop_reply_to(move |chunk| chunk.windows(own.len()).any(|part| part == own));
    let released = soon(hold.release()).await;
    lost.fired().await.unwrap();
    // The server cannot tell who has deleted the node.
    let error = released.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    until_keys(&server, "latchwork/mutex/a/", 0).await;
}
