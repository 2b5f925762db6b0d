use latchwork_core::{Claim, Kind};

use crate::common::{LONG, SHORT, admitted, ask, outlive, queue, served, standing};

#[tokio::test]
async fn a_downgraded_node_is_renewed_like_any_other() {
    let (_server, _operator, client) = served(SHORT).await;
    let queue = queue(Kind::RwLock, "a");
    let held = admitted(&client, &ask(&queue, Claim::Exclusive)).await;
    held.downgrade().await.unwrap();
    outlive(held.state().lease(), 2.0).await;
    assert_eq!(held.state().lost(), None);
    assert_eq!(standing(&client, &queue).await, [true]);
}

#[tokio::test]
async fn a_late_downgrade_makes_no_key_and_a_mutex_refuses_one() {
    let (_server, mut operator, client) = served(LONG).await;
    let held = admitted(&client, &ask(&queue(Kind::RwLock, "a"), Claim::Exclusive)).await;
    held.leave().await.unwrap();
    held.downgrade().await.unwrap_err();
    assert_eq!(
        operator.keys("latchwork:rwlock:{a}:*").await,
        ["latchwork:rwlock:{a}:one"],
        "the last sequence number alone"
    );
    let mutex = admitted(&client, &ask(&queue(Kind::Mutex, "a"), Claim::Exclusive)).await;
    assert_eq!(mutex.downgrade().await.unwrap_err().argument(), Some("claim"));
}
