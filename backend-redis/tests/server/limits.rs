use crate::common::{
    LONG, SHORT, admitted, client, limited, permits, promptly, queue, served, soon, standing, until, waiting,
};
use latchwork_conformance::actions::leave_all;
use latchwork_conformance::errors::{fails, refuses};
use latchwork_core::backend::ExpectedLimit;
use latchwork_core::{ErrorKind, Kind};

#[tokio::test]
async fn a_limit_without_a_queue_is_stored_for_good() {
    let (_server, mut operator, client) = served(LONG).await;
    let queue = queue(Kind::Semaphore, "a");
    assert_eq!(client.limit(&queue).await.unwrap(), None);
    client.set_limit(&queue, ExpectedLimit::Any, 3).await.unwrap();
    assert_eq!(client.limit(&queue).await.unwrap(), Some(3));
    let lives: i64 = operator.say("TTL latchwork:semaphore:{a}:limit").await;
    assert_eq!(lives, -1, "it never expires");
    fails(client.join(&limited(&queue, 1, 2)).await, ErrorKind::Conflict, "another limit");
    // The stored limit counts.
    let held = admitted(&client, &permits(&queue, 3)).await;
    held.leave().await.unwrap();
    assert_eq!(client.limit(&queue).await.unwrap(), Some(3));
    let keys = operator.keys("*semaphore:{a}:*").await;
    assert_eq!(keys, ["latchwork:semaphore:{a}:limit", "latchwork:semaphore:{a}:meta"]);
    let mutex = crate::common::queue(Kind::Mutex, "a");
    refuses(client.set_limit(&mutex, ExpectedLimit::Any, 1).await, "claim");
    refuses(client.limit(&mutex).await, "claim");
    operator.tell("HSET latchwork:semaphore:{b}:limit a 1").await;
    let other = crate::common::queue(Kind::Semaphore, "b");
    fails(client.limit(&other).await, ErrorKind::Conflict, "a foreign key");
    fails(client.set_limit(&other, ExpectedLimit::Any, 1).await, ErrorKind::Conflict, "a foreign key");
}

#[tokio::test]
async fn a_limit_that_is_raised_again_lets_the_heavy_waiter_in() {
    let (server, _operator, ours) = served(LONG).await;
    let others = client(&server, LONG).await;
    let queue = queue(Kind::Semaphore, "a");
    let held = admitted(&ours, &limited(&queue, 3, 3)).await;
    let heavy = waiting(&others, &permits(&queue, 3)).await;
    ours.set_limit(&queue, ExpectedLimit::Any, 2).await.unwrap();
    fails(promptly(heavy.admitted()).await, ErrorKind::Conflict, "above the limit");
    ours.set_limit(&queue, ExpectedLimit::Any, 3).await.unwrap();
    held.leave().await.unwrap();
    promptly(until(async || heavy.admitted().await.is_ok())).await;
}

#[tokio::test]
async fn waiter_fails_without_limit_and_new_join_queues_last() {
    let (server, mut operator, ours) = served(SHORT).await;
    let others = client(&server, LONG).await;
    let queue = queue(Kind::Semaphore, "a");
    let held = admitted(&others, &limited(&queue, 1, 1)).await;
    let impatient = waiting(&ours, &permits(&queue, 1)).await;
    let patient = waiting(&others, &permits(&queue, 1)).await;
    assert_eq!(operator.say::<u32>("DEL latchwork:semaphore:{a}:limit").await, 1);
    fails(soon(impatient.admitted()).await, ErrorKind::Conflict, "no limit is stored");
    assert_eq!(held.state().lost(), None);
    leave_all([impatient, held]).await;
    let newcomer = waiting(&ours, &limited(&queue, 1, 1)).await;
    assert_eq!(standing(&ours, &queue).await, [true, false]);
    drop((patient, newcomer));
}
