//! What changes under a queue that is in use: a writer turns reader, an operator sets a limit or revokes a node.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Operator, SHORT, admitted, ask, client, own, queue, soon, waiting};
use futures_util::FutureExt;
use latchwork_core::contracts::{AskedLimit, Backend, Close, Join, Node, NodeId, Page};
use latchwork_core::decide::Claim;
use latchwork_core::recipes::Acquire;
use latchwork_core::{Address, Config, Coordinator, ErrorKind, Kind, LostReason};

const ALL: Page = Page { after: 0, most: 10_000 };

/// With this TTL the next renewal is 20 s away: what comes within [`PROMPT`] came by message.
const LONG: &str = "60s";
const PROMPT: Duration = Duration::from_secs(10);

async fn promptly<F: Future>(what: F) -> F::Output {
    let started = Instant::now();
    let output = soon(what).await;
    assert!(started.elapsed() < PROMPT, "not by message: {:?}", started.elapsed());
    output
}

fn permits(queue: &Address, weight: u32) -> Join {
    ask(queue, Claim::Permits(weight))
}

fn limited(queue: &Address, weight: u32, limit: u32) -> Join {
    Join { limit: AskedLimit::Exactly(limit), ..permits(queue, weight) }
}

/// Whether each node of the queue is admitted, in order.
async fn standing(backend: &Arc<dyn Backend>, queue: &Address) -> Vec<bool> {
    backend.list(queue, ALL).await.unwrap().iter().map(|entry| entry.admitted).collect()
}

async fn outweighed(node: &Arc<dyn Node>) {
    let error = promptly(node.admitted()).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Conflict, "{error}");
}

#[tokio::test]
async fn a_writer_that_downgrades_keeps_its_place_and_the_readers_behind_it_are_told() {
    let server = own(&[]).await;
    let (ours, others) = (client(&server, LONG).await, client(&server, LONG).await);
    let queue = queue(Kind::RwLock, "a");
    let (exclusive, shared) = (ask(&queue, Claim::Exclusive), ask(&queue, Claim::Shared));
    let fresh = |join: &Join| Join { id: NodeId::random(), ..join.clone() };
    let held = admitted(&ours, &exclusive).await;
    let reader = waiting(&others, &shared).await;
    let writer = waiting(&others, &fresh(&exclusive)).await;
    let last = waiting(&others, &fresh(&shared)).await;
    let sequence = held.state().sequence();
    held.downgrade().await.unwrap();
    promptly(reader.admitted()).await.unwrap();
    // Again, as after a lost reply: nothing more.
    held.downgrade().await.unwrap();
    assert_eq!(standing(&ours, &queue).await, [true, true, false, false]);
    let entries = ours.list(&queue, ALL).await.unwrap();
    assert_eq!((entries[0].sequence, entries[0].claim), (sequence, Claim::Shared));
    assert_eq!((held.state().sequence(), held.state().lost()), (sequence, None));
    // The next writer waits for both readers, and the last reader for that writer.
    reader.leave().await.unwrap();
    assert_eq!(standing(&ours, &queue).await, [true, false, false]);
    held.leave().await.unwrap();
    promptly(writer.admitted()).await.unwrap();
    assert!(last.admitted().now_or_never().is_none());
    writer.leave().await.unwrap();
    promptly(last.admitted()).await.unwrap();
    last.leave().await.unwrap();
    assert_eq!(standing(&ours, &queue).await, [false; 0]);
}

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
async fn a_downgrade_that_comes_late_makes_nothing() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let client = client(&server, LONG).await;
    let queue = queue(Kind::RwLock, "a");
    let held = admitted(&client, &ask(&queue, Claim::Exclusive)).await;
    let next = waiting(&client, &ask(&queue, Claim::Exclusive)).await;
    held.leave().await.unwrap();
    promptly(next.admitted()).await.unwrap();
    let error = held.downgrade().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Lost { .. }), "{error}");
    // The next one is still the only one, and a writer.
    let entries = client.list(&queue, ALL).await.unwrap();
    assert_eq!(entries.iter().map(|entry| entry.claim).collect::<Vec<_>>(), [Claim::Exclusive]);
    next.leave().await.unwrap();
    let keys: Vec<String> = operator.say("KEYS latchwork:rwlock:{a}:*").await;
    assert_eq!(keys, ["latchwork:rwlock:{a}:one"]);
    let mutex = admitted(&client, &ask(&common::queue(Kind::Mutex, "a"), Claim::Exclusive)).await;
    assert_eq!(mutex.downgrade().await.unwrap_err().argument(), Some("claim"));
}

#[tokio::test]
async fn a_downgrade_of_what_was_revoked_tells_the_holder() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let client = client(&server, LONG).await;
    let held = admitted(&client, &ask(&queue(Kind::RwLock, "a"), Claim::Exclusive)).await;
    operator.say::<()>("FLUSHALL").await;
    let error = held.downgrade().await.unwrap_err();
    assert_eq!(error.lost_reason(), Some(LostReason::Revoked), "{error}");
    assert_eq!(held.state().lost(), Some(LostReason::Revoked));
}

#[tokio::test]
async fn a_limit_without_a_queue_is_stored_for_good() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let client = client(&server, LONG).await;
    let queue = queue(Kind::Semaphore, "a");
    assert_eq!(client.limit(&queue).await.unwrap(), None);
    client.set_limit(&queue, 3).await.unwrap();
    assert_eq!(client.limit(&queue).await.unwrap(), Some(3));
    let lives: i64 = operator.say("TTL latchwork:semaphore:{a}:limit").await;
    assert_eq!(lives, -1, "it never expires");
    let error = client.join(&limited(&queue, 1, 2)).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Conflict, "{error}");
    // None is asked for: the stored one rules.
    let held = admitted(&client, &permits(&queue, 3)).await;
    held.leave().await.unwrap();
    assert_eq!(client.limit(&queue).await.unwrap(), Some(3));
    let mut keys: Vec<String> = operator.say("KEYS *semaphore:{a}:*").await;
    keys.sort();
    assert_eq!(keys, ["latchwork:semaphore:{a}:limit", "latchwork:semaphore:{a}:meta"]);
    let mutex = common::queue(Kind::Mutex, "a");
    assert_eq!(client.set_limit(&mutex, 1).await.unwrap_err().argument(), Some("claim"));
    assert_eq!(client.limit(&mutex).await.unwrap_err().argument(), Some("claim"));
    operator.say::<()>("HSET latchwork:semaphore:{b}:limit a 1").await;
    let other = common::queue(Kind::Semaphore, "b");
    for error in [client.limit(&other).await.unwrap_err(), client.set_limit(&other, 1).await.unwrap_err()] {
        assert_eq!(*error.kind(), ErrorKind::Conflict, "{error}");
    }
}

#[tokio::test]
async fn a_raised_limit_admits_at_once() {
    let server = own(&[]).await;
    let (ours, others) = (client(&server, LONG).await, client(&server, LONG).await);
    let queue = queue(Kind::Semaphore, "a");
    let held = admitted(&ours, &limited(&queue, 1, 1)).await;
    let next = waiting(&others, &limited(&queue, 1, 1)).await;
    let last = waiting(&ours, &permits(&queue, 1)).await;
    ours.set_limit(&queue, 2).await.unwrap();
    promptly(next.admitted()).await.unwrap();
    assert!(last.admitted().now_or_never().is_none());
    assert_eq!(standing(&ours, &queue).await, [true, true, false]);
    held.leave().await.unwrap();
    promptly(last.admitted()).await.unwrap();
}

#[tokio::test]
async fn a_lowered_limit_revokes_nobody_and_admits_nobody_until_the_sum_fits() {
    let server = own(&[]).await;
    let (ours, others) = (client(&server, LONG).await, client(&server, LONG).await);
    let queue = queue(Kind::Semaphore, "a");
    let two = admitted(&ours, &limited(&queue, 2, 3)).await;
    let one = admitted(&ours, &permits(&queue, 1)).await;
    let next = waiting(&others, &permits(&queue, 1)).await;
    ours.set_limit(&queue, 2).await.unwrap();
    assert_eq!(standing(&ours, &queue).await, [true, true, false]);
    assert_eq!((two.state().lost(), one.state().lost()), (None, None));
    one.leave().await.unwrap();
    // Two of two are taken still.
    assert_eq!(standing(&ours, &queue).await, [true, false]);
    two.leave().await.unwrap();
    promptly(next.admitted()).await.unwrap();
}

#[tokio::test]
async fn a_first_waiter_that_does_not_fit_the_new_limit_gives_up_at_once() {
    let server = own(&[]).await;
    let (ours, others) = (client(&server, LONG).await, client(&server, LONG).await);
    let queue = queue(Kind::Semaphore, "a");
    let held = admitted(&ours, &limited(&queue, 3, 3)).await;
    let heavy = waiting(&others, &permits(&queue, 3)).await;
    let light = waiting(&ours, &permits(&queue, 1)).await;
    let (mut first, mut second) = (Box::pin(heavy.admitted()), Box::pin(light.admitted()));
    assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
    ours.set_limit(&queue, 2).await.unwrap();
    let error = promptly(first).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("was set to 2"), "{error}");
    heavy.leave().await.unwrap();
    held.leave().await.unwrap();
    promptly(second).await.unwrap();
}

#[tokio::test]
async fn a_waiter_that_does_not_fit_is_told_when_it_becomes_the_first() {
    let server = own(&[]).await;
    let (ours, others) = (client(&server, LONG).await, client(&server, LONG).await);
    let queue = queue(Kind::Semaphore, "a");
    let held = admitted(&ours, &limited(&queue, 3, 3)).await;
    let before = waiting(&ours, &permits(&queue, 1)).await;
    let heavy = waiting(&others, &permits(&queue, 3)).await;
    let after = waiting(&ours, &permits(&queue, 1)).await;
    ours.set_limit(&queue, 2).await.unwrap();
    // In the middle nobody tells it yet; as the first it is told, whether those before it got in or went.
    held.leave().await.unwrap();
    promptly(before.admitted()).await.unwrap();
    outweighed(&heavy).await;
    heavy.leave().await.unwrap();
    promptly(after.admitted()).await.unwrap();
}

#[tokio::test]
async fn a_limit_that_is_raised_again_lets_the_heavy_waiter_in() {
    let server = own(&[]).await;
    let (ours, others) = (client(&server, LONG).await, client(&server, LONG).await);
    let queue = queue(Kind::Semaphore, "a");
    let held = admitted(&ours, &limited(&queue, 3, 3)).await;
    let heavy = waiting(&others, &permits(&queue, 3)).await;
    ours.set_limit(&queue, 2).await.unwrap();
    outweighed(&heavy).await;
    // Whoever has not given up yet follows the limit.
    ours.set_limit(&queue, 3).await.unwrap();
    held.leave().await.unwrap();
    promptly(async {
        while heavy.admitted().await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_revoked_holder_and_a_revoked_waiter_hear_it_at_once() {
    let server = own(&[]).await;
    let (ours, others, operator) =
        (client(&server, LONG).await, client(&server, LONG).await, client(&server, LONG).await);
    for (kind, claim) in [
        (Kind::Mutex, Claim::Exclusive),
        (Kind::RwLock, Claim::Exclusive),
        (Kind::Semaphore, Claim::Permits(1)),
    ] {
        let queue = queue(kind, "a");
        let join = || Join { limit: AskedLimit::Exactly(1), ..ask(&queue, claim) };
        let held = admitted(&ours, &join()).await;
        let (second, third) = (waiting(&others, &join()).await, waiting(&ours, &join()).await);
        assert!(operator.revoke(&queue, second.state().sequence()).await.unwrap());
        assert_eq!(promptly(second.state().until_lost()).await, LostReason::Revoked);
        let error = second.admitted().await.unwrap_err();
        assert_eq!(error.lost_reason(), Some(LostReason::Revoked), "{error}");
        assert!(operator.revoke(&queue, held.state().sequence()).await.unwrap());
        assert_eq!(promptly(held.state().until_lost()).await, LostReason::Revoked);
        promptly(third.admitted()).await.unwrap();
        // Once is enough, and nobody else is hit.
        assert!(!operator.revoke(&queue, held.state().sequence()).await.unwrap());
        assert_eq!(third.state().lost(), None);
        held.leave().await.unwrap();
        assert_eq!(standing(&operator, &queue).await, [true]);
        third.leave().await.unwrap();
    }
    assert_eq!(ours.lease().lost(), None, "the other nodes of the client are untouched");
}

#[tokio::test]
async fn a_forged_message_to_look_again_changes_nothing() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let client = client(&server, LONG).await;
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
    // Both were looked at, and stand as they did.
    promptly(async {
        while operator.calls("evalsha").await == before {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(standing(&client, &queue).await, [true, false]);
    assert_eq!((held.state().lost(), next.state().lost()), (None, None));
    assert!(next.admitted().now_or_never().is_none());
    held.leave().await.unwrap();
    promptly(next.admitted()).await.unwrap();
}

#[tokio::test]
async fn without_memory_a_writer_turns_reader_a_limit_is_set_and_a_node_revoked() {
    let server = own(&["--maxmemory-policy", "noeviction"]).await;
    let mut operator = Operator::of(&server).await;
    let client = client(&server, LONG).await;
    let (rwlock, semaphore) = (queue(Kind::RwLock, "a"), queue(Kind::Semaphore, "a"));
    let writer = admitted(&client, &ask(&rwlock, Claim::Exclusive)).await;
    let reader = waiting(&client, &ask(&rwlock, Claim::Shared)).await;
    let held = admitted(&client, &limited(&semaphore, 1, 1)).await;
    let next = waiting(&client, &permits(&semaphore, 1)).await;
    operator.say::<()>("CONFIG SET maxmemory 1").await;
    writer.downgrade().await.unwrap();
    promptly(reader.admitted()).await.unwrap();
    client.set_limit(&semaphore, 2).await.unwrap();
    promptly(next.admitted()).await.unwrap();
    assert!(client.revoke(&semaphore, held.state().sequence()).await.unwrap());
    assert_eq!(promptly(held.state().until_lost()).await, LostReason::Revoked);
    assert!(!client.revoke(&semaphore, held.state().sequence()).await.unwrap());
    assert_eq!(client.limit(&semaphore).await.unwrap(), Some(2));
    client.set_limit(&queue(Kind::Semaphore, "none"), 2).await.unwrap();
}

#[tokio::test]
async fn a_client_that_closes_leaves_what_is_to_be_kept_to_its_expiry() {
    let server = own(&[]).await;
    let (closing, other) = (client(&server, SHORT).await, client(&server, LONG).await);
    let (a, b) = (queue(Kind::Mutex, "a"), queue(Kind::Mutex, "b"));
    // Longer than its TTL, which nobody renews after the close: nothing outlives its client by more.
    let coordinator = Coordinator::new(Arc::clone(&closing), &Config::new("redis"));
    let options = Acquire::new().hold_at_least(Duration::from_secs(600));
    let kept = coordinator.mutex("a").unwrap().acquire_with(options).await.unwrap();
    let free = admitted(&closing, &ask(&b, Claim::Exclusive)).await;
    let next = waiting(&other, &ask(&a, Claim::Exclusive)).await;
    let (clock, margin) = (closing.lease().clock().clone(), closing.lease().margin());
    let deadline = clock.now() + kept.remaining();
    closing.close(Close::Orderly).await.unwrap();
    assert_eq!(kept.lost().reason(), Some(LostReason::Closed));
    assert_eq!(free.state().lost(), Some(LostReason::Closed));
    assert_eq!(standing(&other, &b).await, [false; 0]);
    assert_eq!(standing(&other, &a).await, [true, false], "given back");
    soon(next.admitted()).await.unwrap();
    // The client would have given it up at its deadline, and the server one margin later, by a clock that may be set meanwhile.
    let expiry = deadline + margin - Duration::from_millis(1);
    assert!(clock.now() >= expiry, "let in {:?} before its expiry", expiry.since(clock.now()));
    assert_eq!(standing(&other, &a).await, [true]);
}

#[tokio::test]
async fn without_the_stored_limit_waiters_give_up_and_whoever_brings_one_joins_behind_the_rest() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let (ours, others) = (client(&server, SHORT).await, client(&server, LONG).await);
    let queue = queue(Kind::Semaphore, "a");
    let held = admitted(&others, &limited(&queue, 1, 1)).await;
    let impatient = waiting(&ours, &permits(&queue, 1)).await;
    let patient = waiting(&others, &permits(&queue, 1)).await;
    assert_eq!(operator.say::<u32>("DEL latchwork:semaphore:{a}:limit").await, 1);
    let error = soon(impatient.admitted()).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(held.state().lost(), None);
    for node in [impatient, held] {
        node.leave().await.unwrap();
    }
    // Nobody asks it to look again, since the first has left: it is let in by whoever brings the limit.
    let newcomer = waiting(&ours, &limited(&queue, 1, 1)).await;
    assert_eq!(standing(&ours, &queue).await, [true, false]);
    drop((patient, newcomer));
}
