use latchwork_core::{Claim, Kind, LeaseState, LostReason};

use crate::common::{
    LONG, SHORT, admitted, ask, client, outlive, own, promptly, queue, served, soon, waiting,
};

#[tokio::test]
async fn flushed_scripts_are_sent_again_in_the_middle_of_everything() {
    let (server, mut operator, holder) = served(SHORT).await;
    let waiter = client(&server, SHORT).await;
    let queue = queue(Kind::RwLock, "a");
    let held = admitted(&holder, &ask(&queue, Claim::Exclusive)).await;
    operator.tell("SCRIPT FLUSH").await;
    let next = waiting(&waiter, &ask(&queue, Claim::Shared)).await;
    operator.tell("SCRIPT FLUSH").await;
    outlive(held.state().lease(), 1.5).await;
    assert_eq!((held.state().lost(), next.state().lost()), (None, None));
    operator.tell("SCRIPT FLUSH").await;
    held.leave().await.unwrap();
    soon(next.admitted()).await.unwrap();
    next.leave().await.unwrap();
}

#[tokio::test]
async fn a_cut_connection_is_made_again_and_every_node_looked_at() {
    let (server, mut operator, holder) = served(LONG).await;
    let waiter = client(&server, LONG).await;
    let queue = queue(Kind::Mutex, "a");
    let held = admitted(&holder, &ask(&queue, Claim::Exclusive)).await;
    let next = waiting(&waiter, &ask(&queue, Claim::Exclusive)).await;
    operator.tell("CLIENT KILL TYPE pubsub").await;
    operator.tell("DEL latchwork:mutex:{a}:seq latchwork:mutex:{a}:exp latchwork:mutex:{a}:node").await;
    operator.tell("CLIENT KILL TYPE pubsub").await;
    for node in [held, next] {
        assert_eq!(promptly(node.state().until_lost()).await, LostReason::Revoked);
    }
}

#[tokio::test]
async fn a_restarted_server_is_found_again_and_its_loss_is_reported() {
    let server = own(&[]).await;
    let client = client(&server, "2s").await;
    let held = admitted(&client, &ask(&queue(Kind::Mutex, "a"), Claim::Exclusive)).await;
    server.kill().await.unwrap();
    let error = client.join(&ask(&queue(Kind::Mutex, "b"), Claim::Exclusive)).await.unwrap_err();
    assert!(error.may_pass(), "{error}");
    server.launch().await.unwrap();
    // The server stores nothing on disk.
    let reason = soon(held.state().until_lost()).await;
    assert!(matches!(reason, LostReason::Forgotten | LostReason::Expired), "{reason:?}");
    let again = soon(async {
        loop {
            match client.join(&ask(&queue(Kind::Mutex, "c"), Claim::Exclusive)).await {
                Ok(joined) => return joined,
                Err(error) => assert!(error.may_pass(), "{error}"),
            }
        }
    })
    .await;
    drop(again);
    assert_eq!(client.lease().state(), LeaseState::Live);
}
