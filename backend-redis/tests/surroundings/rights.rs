//! A server that takes rights away.

use latchwork_core::{Ended, ErrorKind, LostReason};

use super::outlive;
use crate::common::coordinators::{at, said};
use crate::common::{Operator, own, soon};

#[tokio::test]
async fn rights_that_are_taken_away_are_reported_and_the_hold_ends_in_time() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    operator.say::<()>("ACL SETUSER app on >hunter2 ~latchwork:* &latchwork:* +@all").await;
    let client = at(&format!("redis://app:hunter2@{}?ttl=1s", server.addr())).await.unwrap();
    let mutex = client.mutex("a").unwrap();
    let hold = mutex.acquire().await.unwrap();
    operator.say::<()>("ACL SETUSER app resetkeys").await;
    let error = client.mutex("b").unwrap().acquire().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Forbidden, "{error}");
    said(&error, &["ACL", "keys"]);
    assert!(!error.to_string().contains("hunter2"));
    assert_eq!(soon(hold.lost()).await, Ended::Lost(LostReason::Expired));
    operator.say::<()>("ACL SETUSER app ~latchwork:*").await;
    soon(mutex.acquire()).await.unwrap().release().await.unwrap();
}

/// One script renews all of them, and the server refuses it for any forbidden key.
#[tokio::test]
async fn rights_to_one_queue_that_are_taken_away_cost_nothing_else() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    operator.say::<()>("ACL SETUSER app on >hunter2 ~latchwork:* &latchwork:* +@all").await;
    let client =
        at(&format!("redis://app:hunter2@{}?ttl={}", server.addr(), crate::common::SHORT)).await.unwrap();
    let hold = async |key: &str| client.mutex(key).unwrap().acquire().await.unwrap();
    let kept = [hold("kept-1").await, hold("kept-2").await, hold("kept-3").await];
    let taken = hold("taken").await;
    operator.say::<()>("ACL SETUSER app resetkeys ~latchwork:*kept*").await;
    assert_eq!(soon(taken.lost()).await, Ended::Lost(LostReason::Expired));
    outlive(&client).await;
    for hold in kept {
        hold.check().expect("its own queue is not forbidden");
        hold.release().await.unwrap();
    }
}
