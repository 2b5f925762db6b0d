use latchwork_conformance::errors::fails;
use latchwork_core::{Ended, ErrorKind, LostReason};

use super::outlive;
use crate::common::coordinators::{said, user, uses};
use crate::common::{SHORT, operated, soon};

#[tokio::test]
async fn rights_that_are_taken_away_are_reported_and_the_hold_ends_in_time() {
    let (server, mut operator) = operated().await;
    operator.tell("ACL SETUSER app on >hunter2 ~latchwork:* &latchwork:* +@all").await;
    let client = user(&format!("redis://app:hunter2@{}?ttl=1s", server.addr())).await;
    let hold = client.mutex("a").unwrap().acquire().await.unwrap();
    operator.tell("ACL SETUSER app resetkeys").await;
    let error =
        fails(client.mutex("b").unwrap().acquire().await, ErrorKind::Forbidden, "the keys are forbidden");
    said(&error, &["ACL", "keys"]);
    assert!(!error.to_string().contains("hunter2"));
    assert_eq!(soon(hold.lost()).await, Ended::Lost(LostReason::Expired));
    operator.tell("ACL SETUSER app ~latchwork:*").await;
    uses(&client, "a").await;
}

/// One script renews all, and the server refuses it for any forbidden key. The client keeps the rights to its
/// registration, without which all its holds end.
#[tokio::test]
async fn rights_to_one_queue_that_are_taken_away_cost_nothing_else() {
    let (server, mut operator) = operated().await;
    operator.tell("ACL SETUSER app on >hunter2 ~latchwork:* &latchwork:* +@all").await;
    let client = user(&format!("redis://app:hunter2@{}?ttl={SHORT}", server.addr())).await;
    let hold = async |key: &str| client.mutex(key).unwrap().acquire().await.unwrap();
    let kept = [hold("kept-1").await, hold("kept-2").await, hold("kept-3").await];
    let taken = hold("taken").await;
    operator.tell("ACL SETUSER app resetkeys ~latchwork:*kept* ~latchwork:clients:*").await;
    assert_eq!(soon(taken.lost()).await, Ended::Lost(LostReason::Expired));
    outlive(&client).await;
    for hold in kept {
        hold.check().expect("its own queue is not forbidden");
        hold.release().await.unwrap();
    }
}
