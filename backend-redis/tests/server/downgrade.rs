//! A writer turns into a reader.

use latchwork_core::{Claim, Kind};

use crate::common::{LONG, Operator, SHORT, admitted, ask, client, own, queue, standing};

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
async fn a_late_downgrade_makes_no_key_and_a_mutex_refuses_one() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let client = client(&server, LONG).await;
    let held = admitted(&client, &ask(&queue(Kind::RwLock, "a"), Claim::Exclusive)).await;
    held.leave().await.unwrap();
    held.downgrade().await.unwrap_err();
    let keys: Vec<String> = operator.say("KEYS latchwork:rwlock:{a}:*").await;
    assert_eq!(keys, ["latchwork:rwlock:{a}:one"], "the last sequence number alone");
    let mutex = admitted(&client, &ask(&queue(Kind::Mutex, "a"), Claim::Exclusive)).await;
    assert_eq!(mutex.downgrade().await.unwrap_err().argument(), Some("claim"));
}
