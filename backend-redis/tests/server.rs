//! What happens to the server under our hands: memory runs out, scripts are flushed, keys are removed, it restarts.

mod common;

use std::time::Duration;

use common::{Operator, SHORT, admitted, ask, client, own, queue, soon, waiting};
use futures_util::future::join_all;
use latchwork_core::contracts::{AskedLimit, Close, Join, LeaseState, Page, Patience};
use latchwork_core::decide::Claim;
use latchwork_core::{ErrorKind, Kind, LostReason};

const ALL: Page = Page { after: 0, most: 10_000 };

#[tokio::test]
async fn held_locks_outlive_a_full_memory_and_new_ones_are_refused() {
    let server = own(&["--maxmemory-policy", "noeviction"]).await;
    let mut operator = Operator::of(&server).await;
    let (holder, waiter) = (client(&server, SHORT).await, client(&server, SHORT).await);
    let queue = queue(Kind::Mutex, "a");
    let held = admitted(&holder, &ask(&queue, Claim::Exclusive)).await;
    let next = waiting(&waiter, &ask(&queue, Claim::Exclusive)).await;
    operator.say::<()>("CONFIG SET maxmemory 1").await;
    let error = holder.join(&ask(&common::queue(Kind::Mutex, "b"), Claim::Exclusive)).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("memory"), "{error}");
    // A whole TTL beyond the deadline: only renewals that pass can bring both nodes over it.
    let end = held.state().lease().deadline() + holder.lease().ttl();
    let lost = soon(async {
        tokio::select! {
            reason = held.state().until_lost() => Some(reason),
            reason = next.state().until_lost() => Some(reason),
            () = held.state().lease().clock().sleep_until(end) => None,
        }
    })
    .await;
    assert_eq!(lost, None);
    // The release and the hand-off pass too.
    held.leave().await.unwrap();
    soon(next.admitted()).await.unwrap();
    // What would have to grow is refused before anything is written.
    assert_eq!(waiter.list(&queue, ALL).await.unwrap().len(), 1);
    next.leave().await.unwrap();
}

#[tokio::test]
async fn a_lock_that_nobody_else_wants_outlives_a_full_memory_too() {
    let server = own(&["--maxmemory-policy", "noeviction"]).await;
    let mut operator = Operator::of(&server).await;
    let client = client(&server, SHORT).await;
    for kind in [Kind::Mutex, Kind::RwLock] {
        let queue = queue(kind, "a");
        let held = admitted(&client, &ask(&queue, Claim::Exclusive)).await;
        let one = format!("latchwork:{}:{{a}}:one", kind.as_str());
        assert_eq!(
            operator.say::<Vec<String>>(&format!("KEYS latchwork:{}:*", kind.as_str())).await,
            [&*one]
        );
        operator.say::<()>("CONFIG SET maxmemory 1").await;
        let end = held.state().lease().deadline() + client.lease().ttl();
        held.state().lease().clock().sleep_until(end).await;
        assert_eq!(held.state().lost(), None, "not renewed");
        // A second one needs more than there is; refused before anything is written.
        let before: String = operator.say(&format!("GET {one}")).await;
        let error = client.join(&ask(&queue, Claim::Exclusive)).await.unwrap_err();
        assert!(error.to_string().contains("memory"), "{error}");
        let after: String = operator.say(&format!("GET {one}")).await;
        assert_eq!(before.split(' ').next(), after.split(' ').next());
        held.leave().await.unwrap();
        let error = client.join(&ask(&queue, Claim::Exclusive)).await.unwrap_err();
        assert!(error.to_string().contains("memory"), "{error}");
        let free: String = operator.say(&format!("GET {one}")).await;
        assert_eq!(free, held.state().sequence().to_string());
        operator.say::<()>("CONFIG SET maxmemory 0").await;
        let next = admitted(&client, &ask(&queue, Claim::Exclusive)).await;
        assert!(next.state().sequence() > held.state().sequence());
    }
}

#[tokio::test]
async fn what_is_no_text_of_ours_is_no_node() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let client = client(&server, "10s").await;
    for (key, text) in [("a", "text"), ("b", "nan"), ("c", "1\n2"), ("d", "")] {
        let mut set = redis::cmd("SET");
        operator.run(set.arg(format!("latchwork:mutex:{{{key}}}:one")).arg(text)).await;
        let queue = queue(Kind::Mutex, key);
        assert_eq!(client.list(&queue, ALL).await.unwrap().len(), 0);
        let held = admitted(&client, &ask(&queue, Claim::Exclusive)).await;
        assert_eq!(client.list(&queue, ALL).await.unwrap().len(), 1);
        held.leave().await.unwrap();
    }
}

#[tokio::test]
async fn a_label_may_be_anything_and_a_listing_changes_nothing() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let (client, other) = (client(&server, "10s").await, client(&server, "10s").await);
    let queue = queue(Kind::RwLock, "a");
    let long = "long ".repeat(1000);
    for label in ["", " ", "a b\nc", "nul \0 and \u{1F512}", &long] {
        // As a terminal may show it.
        let escaped = label.replace('\n', "\\u{a}").replace('\0', "\\u{0}");
        let is_shown = |shown: &str| match shown.strip_suffix('…') {
            Some(start) => label == long && !start.is_empty() && long.starts_with(start),
            None => shown == escaped,
        };
        let join = Join { label: label.into(), ..ask(&queue, Claim::Shared) };
        let held = admitted(&client, &join).await;
        let text: Vec<u8> = operator.say("GET latchwork:rwlock:{a}:one").await;
        assert!(is_shown(&client.list(&queue, ALL).await.unwrap()[0].label), "{label}");
        assert_eq!(operator.say::<Vec<u8>>("GET latchwork:rwlock:{a}:one").await, text);
        // And unfolded.
        let second = admitted(&other, &ask(&queue, Claim::Shared)).await;
        assert!(is_shown(&client.list(&queue, ALL).await.unwrap()[0].label), "{label}");
        held.leave().await.unwrap();
        second.leave().await.unwrap();
    }
}

#[tokio::test]
async fn a_listing_of_what_was_never_used_or_is_free_writes_nothing() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let client = client(&server, "10s").await;
    for kind in [Kind::Mutex, Kind::RwLock, Kind::Semaphore] {
        assert_eq!(client.list(&queue(kind, "unused"), ALL).await.unwrap().len(), 0);
    }
    let keys: Vec<String> = operator.say("KEYS *unused*").await;
    assert_eq!(keys, [""; 0]);
    let queue = queue(Kind::Mutex, "free");
    admitted(&client, &ask(&queue, Claim::Exclusive)).await.leave().await.unwrap();
    operator.say::<()>("PEXPIRE latchwork:mutex:{free}:one 60000").await;
    assert_eq!(client.list(&queue, ALL).await.unwrap().len(), 0);
    let lives: i64 = operator.say("PTTL latchwork:mutex:{free}:one").await;
    assert!((1..=60_000).contains(&lives), "written anew: {lives}");
}

/// More than one script drops stand in front of one that lives, and more than one page of them.
#[tokio::test]
async fn a_listing_goes_on_behind_a_crowd_that_has_expired() {
    let server = own(&[]).await;
    let (mortal, living) = (client(&server, SHORT).await, client(&server, "60s").await);
    let queue = queue(Kind::Mutex, "a");
    let mut crowd = Vec::new();
    for _ in 0..15 {
        let joins: Vec<_> = (0..100).map(|_| ask(&queue, Claim::Exclusive)).collect();
        crowd.extend(join_all(joins.iter().map(|join| mortal.join(join))).await);
    }
    assert_eq!(crowd.iter().filter(|joined| joined.is_ok()).count(), 1500);
    let last = waiting(&living, &ask(&queue, Claim::Exclusive)).await;
    let clock = mortal.lease().clock().clone();
    let gone = mortal.lease().ttl() + Duration::from_millis(200);
    mortal.close(Close::Abrupt).await.unwrap();
    clock.sleep_until(clock.now() + gone).await;
    let listed = living.list(&queue, ALL).await.unwrap();
    let sequences: Vec<_> = listed.iter().map(|entry| entry.sequence).collect();
    assert_eq!(sequences, [last.state().sequence()]);
}

#[tokio::test]
async fn flushed_scripts_are_sent_again_in_the_middle_of_everything() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let (holder, waiter) = (client(&server, SHORT).await, client(&server, SHORT).await);
    let queue = queue(Kind::RwLock, "a");
    let held = admitted(&holder, &ask(&queue, Claim::Exclusive)).await;
    operator.say::<()>("SCRIPT FLUSH").await;
    let next = waiting(&waiter, &ask(&queue, Claim::Shared)).await;
    operator.say::<()>("SCRIPT FLUSH").await;
    // Over a TTL: the renewals found their script again.
    let end = held.state().lease().deadline() + holder.lease().ttl() / 2;
    held.state().lease().clock().sleep_until(end).await;
    assert_eq!((held.state().lost(), next.state().lost()), (None, None));
    operator.say::<()>("SCRIPT FLUSH").await;
    held.leave().await.unwrap();
    soon(next.admitted()).await.unwrap();
    next.leave().await.unwrap();
}

#[tokio::test]
async fn a_foreign_entry_does_no_harm_and_a_foreign_key_is_a_conflict() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let client = client(&server, "10s").await;
    operator.say::<()>("ZADD latchwork:mutex:{a}:seq 1 stranger").await;
    operator.say::<()>("HSET latchwork:mutex:{a}:node stranger data").await;
    operator.say::<()>("ZADD latchwork:rwlock:{a}:writers 1 stranger").await;
    let node = admitted(&client, &ask(&queue(Kind::Mutex, "a"), Claim::Exclusive)).await;
    let reader = admitted(&client, &ask(&queue(Kind::RwLock, "a"), Claim::Shared)).await;
    operator.say::<()>("ZADD latchwork:rwlock:{a}:writers 2 stranger").await;
    let second = admitted(&client, &ask(&queue(Kind::RwLock, "a"), Claim::Shared)).await;
    for node in [node, reader, second] {
        node.leave().await.unwrap();
    }
    operator.say::<()>("SET latchwork:mutex:{b}:seq text").await;
    operator.say::<()>("SET latchwork:mutex:{c}:node text").await;
    operator.say::<()>("HSET latchwork:mutex:{d}:one a text").await;
    for key in ["b", "c", "d"] {
        let error = client.join(&ask(&queue(Kind::Mutex, key), Claim::Exclusive)).await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Conflict, "{error}");
    }
    // Refused before anything was written.
    let keys: Vec<String> = operator.say("KEYS latchwork:mutex:{b}:*").await;
    assert_eq!(keys, ["latchwork:mutex:{b}:seq"]);
}

#[tokio::test]
async fn one_queue_with_a_foreign_key_costs_the_others_no_renewal() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let client = client(&server, SHORT).await;
    let (a, b) = (queue(Kind::Mutex, "a"), queue(Kind::Mutex, "b"));
    let (spoilt, whole) = (
        admitted(&client, &ask(&a, Claim::Exclusive)).await,
        admitted(&client, &ask(&b, Claim::Exclusive)).await,
    );
    operator.say::<()>("DEL latchwork:mutex:{a}:one").await;
    operator.say::<()>("HSET latchwork:mutex:{a}:one a text").await;
    assert_eq!(soon(spoilt.state().until_lost()).await, LostReason::Expired);
    let clock = client.lease().clock().clone();
    clock.sleep_until(clock.now() + client.lease().ttl() * 3 / 2).await;
    assert_eq!(whole.state().lost(), None);
    assert_eq!((client.lease().lost(), client.lease().state()), (None, LeaseState::Live));
}

#[tokio::test]
async fn a_cut_connection_is_made_again_and_every_node_looked_at() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let (holder, waiter) = (client(&server, "30s").await, client(&server, "30s").await);
    let queue = queue(Kind::Mutex, "a");
    let held = admitted(&holder, &ask(&queue, Claim::Exclusive)).await;
    let next = waiting(&waiter, &ask(&queue, Claim::Exclusive)).await;
    // Both lose their connection, with the inbox; and what is removed meanwhile is told when they are back, long
    // before the next renewal.
    operator.say::<()>("CLIENT KILL TYPE pubsub").await;
    operator.say::<()>("DEL latchwork:mutex:{a}:seq latchwork:mutex:{a}:exp latchwork:mutex:{a}:node").await;
    operator.say::<()>("CLIENT KILL TYPE pubsub").await;
    let started = std::time::Instant::now();
    assert_eq!(soon(held.state().until_lost()).await, LostReason::Revoked);
    assert_eq!(soon(next.state().until_lost()).await, LostReason::Revoked);
    assert!(started.elapsed() < Duration::from_secs(10), "at the next renewal only");
}

#[tokio::test]
async fn a_restarted_server_is_found_again_and_its_loss_is_told() {
    let server = own(&[]).await;
    let client = client(&server, "2s").await;
    let held = admitted(&client, &ask(&queue(Kind::Mutex, "a"), Claim::Exclusive)).await;
    server.kill().await.unwrap();
    let error = client.join(&ask(&queue(Kind::Mutex, "b"), Claim::Exclusive)).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    server.launch().await.unwrap();
    // Nothing was kept on disk: gone, or run out meanwhile.
    let reason = soon(held.state().until_lost()).await;
    assert!(matches!(reason, LostReason::Forgotten | LostReason::Expired), "{reason:?}");
    let again = soon(async {
        loop {
            match client.join(&ask(&queue(Kind::Mutex, "c"), Claim::Exclusive)).await {
                Ok(joined) => return joined,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
    })
    .await;
    drop(again);
    assert_eq!(client.lease().state(), LeaseState::Live);
}

#[tokio::test]
async fn an_uncontended_join_is_one_script_and_a_leave_one_more() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let client = client(&server, "1h").await;
    let before = (operator.calls("evalsha").await, operator.calls("eval").await);
    let node = admitted(&client, &ask(&queue(Kind::Mutex, "a"), Claim::Exclusive)).await;
    assert_eq!(operator.calls("evalsha").await, before.0 + 1);
    node.leave().await.unwrap();
    assert_eq!((operator.calls("evalsha").await, operator.calls("eval").await), (before.0 + 2, before.1));
    // Inside, where nobody contends: each reads the time and one key, and writes that key.
    let commands = ["time", "get", "set", "pexpire", "hset", "zadd"];
    let mut calls = Vec::new();
    for command in commands {
        calls.push(operator.calls(command).await);
    }
    let node = admitted(&client, &ask(&queue(Kind::Mutex, "a"), Claim::Exclusive)).await;
    node.leave().await.unwrap();
    for (command, (before, more)) in commands.into_iter().zip(calls.into_iter().zip([2, 2, 2, 0, 0, 0])) {
        assert_eq!(operator.calls(command).await - before, more, "{command}");
    }
}

#[tokio::test]
async fn a_refused_try_leaves_nothing() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let client = client(&server, "10s").await;
    let queue = queue(Kind::Semaphore, "a");
    let mut join = ask(&queue, Claim::Permits(2));
    join.limit = AskedLimit::Exactly(2);
    let held = admitted(&client, &join).await;
    let attempt = latchwork_core::contracts::Join {
        id: latchwork_core::contracts::NodeId::random(),
        patience: Patience::Try,
        claim: Claim::Permits(1),
        ..join.clone()
    };
    let refused = client.join(&attempt).await.unwrap();
    assert!(matches!(refused, latchwork_core::contracts::Joined::Refused), "{refused:?}");
    let nodes: u32 = operator.say("ZCARD latchwork:semaphore:{a}:seq").await;
    assert_eq!(nodes, 1);
    held.leave().await.unwrap();
    let keys: Vec<String> = operator.say("KEYS latchwork:semaphore:{a}:*").await;
    assert!(
        !keys.iter().any(|key| key.ends_with(":seq") || key.ends_with(":node") || key.ends_with(":exp")),
        "{keys:?}"
    );
}

#[tokio::test]
async fn many_readers_wake_by_one_message_and_more_than_one_script_looks_at() {
    let server = own(&[]).await;
    let (writer, readers) = (client(&server, "30s").await, client(&server, "30s").await);
    let queue = queue(Kind::RwLock, "a");
    let held = admitted(&writer, &ask(&queue, Claim::Exclusive)).await;
    let mut nodes = Vec::new();
    for _ in 0..600 {
        nodes.push(waiting(&readers, &ask(&queue, Claim::Shared)).await);
    }
    let mut operator = Operator::of(&server).await;
    let before = operator.calls("publish").await;
    held.leave().await.unwrap();
    for node in &nodes {
        soon(node.admitted()).await.unwrap();
    }
    // 256 a script, one message each, since all are of one client.
    assert_eq!(operator.calls("publish").await - before, 3);
    assert!(readers.list(&queue, ALL).await.unwrap().iter().all(|entry| entry.admitted));
    readers.close(Close::Orderly).await.unwrap();
    assert_eq!(writer.list(&queue, ALL).await.unwrap().len(), 0);
}

#[tokio::test]
async fn a_closed_client_leaves_nothing_and_a_dead_one_what_it_had() {
    let server = own(&[]).await;
    let (orderly, abrupt, other) =
        (client(&server, "30s").await, client(&server, "30s").await, client(&server, "30s").await);
    let (a, b) = (queue(Kind::Mutex, "a"), queue(Kind::Mutex, "b"));
    let (held, left) = (
        admitted(&orderly, &ask(&a, Claim::Exclusive)).await,
        admitted(&abrupt, &ask(&b, Claim::Exclusive)).await,
    );
    let next = waiting(&other, &ask(&a, Claim::Exclusive)).await;
    orderly.close(Close::Orderly).await.unwrap();
    abrupt.close(Close::Abrupt).await.unwrap();
    assert_eq!(held.state().lost(), Some(LostReason::Closed));
    // A client that died does not know it: what it held is lost at its deadline.
    assert_eq!(left.state().lost(), None);
    for (client, node) in [(&orderly, &held), (&abrupt, &left)] {
        assert_eq!(client.lease().state(), LeaseState::Lost(LostReason::Closed));
        assert_eq!(*node.leave().await.unwrap_err().kind(), ErrorKind::Closed);
        client.close(Close::Orderly).await.unwrap();
    }
    soon(next.admitted()).await.unwrap();
    assert_eq!(other.list(&b, ALL).await.unwrap().len(), 1);
}

/// Each looks again when the writer may have expired, which its own renewals put off.
#[tokio::test]
async fn many_who_wait_for_one_of_a_shorter_ttl_look_again_together() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let (writer, readers) = (client(&server, SHORT).await, client(&server, "60s").await);
    let queue = queue(Kind::RwLock, "a");
    let held = admitted(&writer, &ask(&queue, Claim::Exclusive)).await;
    let joins: Vec<_> = (0..300).map(|_| ask(&queue, Claim::Shared)).collect();
    let nodes = join_all(joins.iter().map(|join| waiting(&readers, join))).await;
    let before = operator.calls("evalsha").await;
    let lease = writer.lease();
    let looking = join_all(nodes.iter().map(|node| node.admitted()));
    tokio::select! {
        _ = looking => panic!("admitted beside the writer"),
        () = lease.clock().sleep_until(lease.clock().now() + lease.ttl() * 3) => {}
    }
    let calls = operator.calls("evalsha").await - before;
    assert!(calls < 300, "{calls} requests");
    held.leave().await.unwrap();
    soon(join_all(nodes.iter().map(|node| node.admitted()))).await.into_iter().for_each(Result::unwrap);
}
