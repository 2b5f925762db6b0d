use super::{Crowd, NODES, last_inbox};
use crate::common::{etcdctl, keys, soon, still_waits};
use latchwork_conformance::actions::take_a_turn;
use latchwork_core::LostReason;
use latchwork_core::backend::Leave;

#[tokio::test]
async fn hold_by_forged_notice_is_lost_and_admits_no_waiter() {
    let mut crowd = Crowd::new(20).await;
    let first = crowd.ahead.remove(0);
    soon(first.admitted()).await.unwrap();
    let (node, waiting) = crowd.waits().await;
    let (inbox, created) = last_inbox(&crowd.server).await;
    let (next, mut waiting_too) = crowd.waits().await;
    let forged = format!(r#"{{"to":{created},"word":"next","behind":[]}}"#);
    etcdctl(&crowd.server, &["put", &inbox, &forged]).await;
    soon(waiting).await.unwrap().unwrap();
    assert_eq!(soon(node.state().until_lost()).await, LostReason::Revoked);
    assert!(first.state().lost().is_none());
    let mut lists = crowd.lists();
    node.leave().await.unwrap();
    soon(lists.fired()).await.unwrap();
    still_waits(&mut waiting_too).await;
    first.leave().await.unwrap();
    let last = crowd.all_but_the_last().await;
    take_a_turn(&last).await;
    soon(waiting_too).await.unwrap().unwrap();
    next.leave().await.unwrap();
    crowd.end().await;
}

/// The notice would need that lease.
#[tokio::test]
async fn node_leaves_although_its_successor_has_no_lease() {
    let mut crowd = Crowd::new(1).await;
    let node = crowd.ahead.pop().unwrap();
    soon(node.admitted()).await.unwrap();
    let foreign = format!("{NODES}7b-{}", "0".repeat(32));
    etcdctl(&crowd.server, &["put", &foreign, ""]).await;
    assert_eq!(node.leave().await.unwrap(), Leave::Removed);
    assert_eq!(keys(&crowd.server, NODES).await, [foreign.as_str()]);
    etcdctl(&crowd.server, &["del", &foreign]).await;
    crowd.end().await;
}

#[tokio::test]
async fn notice_without_admission_for_this_node_admits_no_waiter() {
    let mut crowd = Crowd::new(20).await;
    let (node, mut waiting) = crowd.waits().await;
    let (inbox, created) = last_inbox(&crowd.server).await;
    for text in [
        String::new(),
        "1 2".to_owned(),
        format!(r#"{{"to":{},"word":"next","behind":[]}}"#, created - 1),
        format!(r#"{{"to":{created},"word":"look","behind":[]}}"#),
        format!(r#"{{"to":{created},"word":"next"}}"#),
    ] {
        let mut lists = crowd.lists();
        etcdctl(&crowd.server, &["put", &inbox, &text]).await;
        soon(lists.fired()).await.unwrap();
        still_waits(&mut waiting).await;
    }
    let last = crowd.all_but_the_last().await;
    take_a_turn(&last).await;
    soon(waiting).await.unwrap().unwrap();
    node.leave().await.unwrap();
    crowd.end().await;
}
