use futures_util::FutureExt;
use latchwork_core::backend::Join;
use latchwork_core::{Claim, Kind};

use crate::common::{
    KINDS, LONG, Operator, admitted, ask, client, limit, promptly, queue, served, soon, standing, until,
    waiting,
};

async fn stored_address(operator: &mut Operator, key: &str, id: &str) -> (String, String) {
    let text: String = operator.say(&format!("HGET {key}:node {id}")).await;
    let (secret, inbox) = text.split(' ').nth(4).unwrap().split_once('@').unwrap();
    (secret.to_owned(), inbox.to_owned())
}

#[tokio::test]
async fn a_forged_recheck_message_changes_nothing() {
    let (_server, mut operator, client) = served(LONG).await;
    let queue = queue(Kind::Mutex, "a");
    let join = ask(&queue, Claim::Exclusive);
    let held = admitted(&client, &join).await;
    let behind = ask(&queue, Claim::Exclusive);
    let next = waiting(&client, &behind).await;
    let inboxes: Vec<String> = operator.say("PUBSUB CHANNELS latchwork:inbox:*").await;
    let before = operator.calls("evalsha").await;
    for (join, node) in [(&join, &held), (&behind, &next)] {
        operator.publish(&inboxes[0], &format!("{} -{}", join.id, node.state().sequence())).await;
    }
    promptly(until(async || operator.calls("evalsha").await > before)).await;
    assert_eq!(standing(&client, &queue).await, [true, false]);
    assert_eq!((held.state().lost(), next.state().lost()), (None, None));
    assert!(next.admitted().now_or_never().is_none());
    held.leave().await.unwrap();
    promptly(next.admitted()).await.unwrap();
}

/// A program that cannot read the queue may know everything except the secret.
#[tokio::test]
async fn forged_admission_message_admits_no_waiter() {
    let (server, mut operator, holder) = served(LONG).await;
    let waiter = client(&server, LONG).await;
    for (kind, claim) in KINDS {
        let (queue, key) = (queue(kind, "a"), format!("latchwork:{}:{{a}}", kind.as_str()));
        let join = || Join { limit: limit(kind), ..ask(&queue, claim) };
        let (mine, first, second) = (join(), join(), join());
        let held = admitted(&holder, &mine).await;
        let (next, last) = (waiting(&waiter, &first).await, waiting(&waiter, &second).await);
        let (secret, inbox) = stored_address(&mut operator, &key, &first.id.to_string()).await;
        let (others, _) = stored_address(&mut operator, &key, &second.id.to_string()).await;
        let sequence = next.state().sequence();
        for forged in [String::new(), ".".into(), ".0".into(), format!(".{others}"), format!(" {secret}")] {
            operator.publish(&inbox, &format!("{} {sequence}{forged}", first.id)).await;
        }
        let before = operator.calls("evalsha").await;
        operator.publish(&inbox, &format!("{} -{sequence}", first.id)).await;
        until(async || operator.calls("evalsha").await > before).await;
        assert!(next.admitted().now_or_never().is_none(), "{kind:?}: two hold");
        assert!(last.admitted().now_or_never().is_none());
        // The earlier messages lacked only the secret.
        operator.publish(&inbox, &format!("{} {sequence}.{secret}", first.id)).await;
        soon(next.admitted()).await.unwrap();
        held.leave().await.unwrap();
        next.leave().await.unwrap();
        soon(last.admitted()).await.unwrap();
        last.leave().await.unwrap();
    }
}
