//! What changes under those who hold and wait, on a real server: a writer turns reader, the limit is set, a node is
//! removed by hand.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{
    address, admitted, backend, config, holds, join, one_proxied, put, server, soon, still_waits, stranger,
    waiting,
};
use latchwork_conformance::proxy::Proxy;
use latchwork_core::contracts::{AskedLimit, Backend, Entry, Join, Node, NodeId, Page};
use latchwork_core::decide::Claim::{self, Exclusive, Permits, Shared};
use latchwork_core::{Address, Config, ErrorKind, Kind, LostReason, Result};
use tokio::task::JoinHandle;
use zookeeper_client::{Client, CreateMode, EventType};

const ALL: Page = Page { after: 0, most: 100 };
/// ZooKeeper's numbers of a request of several parts, and of a deletion.
const MULTI: i32 = 14;
const DELETE: i32 = 2;

async fn listed(backend: &Arc<dyn Backend>, queue: &Address) -> Vec<(u64, Claim, bool)> {
    let entries = backend.list(queue, ALL).await.unwrap();
    entries.iter().map(|&Entry { sequence, claim, admitted, .. }| (sequence, claim, admitted)).collect()
}

/// The names in a queue's directory, as another program sees them.
async fn names(stranger: &Client, config: &Config, kind: Kind) -> Vec<String> {
    let queue = format!("/{}/{}/a", config.namespace, kind.as_str());
    stranger.sync(&queue).await.unwrap();
    stranger.list_children(&queue).await.unwrap()
}

fn waits(node: &Arc<dyn Node>) -> JoinHandle<Result<()>> {
    let node = Arc::clone(node);
    tokio::spawn(async move { node.admitted().await })
}

/// Well before the re-check, which would hide a wake-up that was lost.
async fn promptly<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(5), work).await.expect("not before the re-check")
}

#[tokio::test]
async fn a_writer_that_turns_reader_keeps_token_and_place() {
    let addr = server().await.addr();
    let config = config(addr);
    let queue = address(&config, Kind::RwLock, "a");
    let (one, other) = (backend(&config).await, backend(&config).await);
    let writer = admitted(one.join(&join(&queue, Exclusive)).await);
    let reader = waiting(other.join(&join(&queue, Shared)).await);
    let second = waiting(other.join(&join(&queue, Exclusive)).await);
    let last = waiting(one.join(&join(&queue, Shared)).await);
    let [w, r, w2, r2] = [&writer, &reader, &second, &last].map(|node| node.state().sequence());
    let [reads, writes, reads_last] = [&reader, &second, &last].map(waits);

    writer.downgrade().await.unwrap();
    promptly(reads).await.unwrap().unwrap();
    // Repeated, it is done already.
    writer.downgrade().await.unwrap();
    assert_eq!(writer.state().sequence(), w);
    let shown = [(w, Shared, true), (r, Shared, true), (w2, Exclusive, false), (r2, Shared, false)];
    assert_eq!(listed(&other, &queue).await, shown);
    assert!(one.list(&queue, ALL).await.unwrap().iter().all(|entry| entry.label == "tester"));
    // By pages of one, each behind the last.
    let mut after = 0;
    for (sequence, ..) in shown {
        let page = other.list(&queue, Page { after, most: 1 }).await.unwrap();
        assert_eq!(page.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [sequence]);
        after = sequence;
    }
    assert!(!writes.is_finished() && !reads_last.is_finished());
    reader.leave().await.unwrap();
    assert!(still_waits(&other, &queue, second.admitted()).await, "beside the reader that was a writer");
    writer.leave().await.unwrap();
    promptly(writes).await.unwrap().unwrap();
    assert!(still_waits(&one, &queue, last.admitted()).await);
    second.leave().await.unwrap();
    promptly(reads_last).await.unwrap().unwrap();
    last.leave().await.unwrap();
    assert!(names(&stranger(addr).await, &config, Kind::RwLock).await.is_empty());
}

#[tokio::test]
async fn only_a_held_writer_turns_reader() {
    let config = config(server().await.addr());
    let queue = address(&config, Kind::RwLock, "a");
    let backend = backend(&config).await;
    let not_held = |done: Result<()>| *done.unwrap_err().kind() == ErrorKind::NotHeld;
    let holder = admitted(backend.join(&join(&queue, Exclusive)).await);
    let waiter = waiting(backend.join(&join(&queue, Exclusive)).await);
    assert!(not_held(waiter.downgrade().await), "it would overtake");
    let mutex = address(&config, Kind::Mutex, "a");
    assert!(not_held(admitted(backend.join(&join(&mutex, Exclusive)).await).downgrade().await));
    holder.leave().await.unwrap();
    assert!(not_held(holder.downgrade().await), "it has left");
    soon(waiter.admitted()).await.unwrap();
    assert_eq!(listed(&backend, &queue).await, [(waiter.state().sequence(), Exclusive, true)]);
}

#[tokio::test]
async fn a_downgrade_whose_reply_was_lost_is_repeated_without_harm() {
    let addr = server().await.addr();
    let proxy = Proxy::start(addr).await.unwrap();
    let config = config(&proxy.addr().to_string());
    let backend = backend(&config).await;
    let queue = address(&config, Kind::RwLock, "a");
    let node = admitted(backend.join(&join(&queue, Exclusive)).await);
    let mut cut = proxy.drop_reply_to(|chunk| holds(chunk, MULTI));
    assert_eq!(*node.downgrade().await.unwrap_err().kind(), ErrorKind::Unknown);
    soon(cut.fired()).await.unwrap();
    soon(node.downgrade()).await.unwrap();
    let expected = [(node.state().sequence(), Shared, true)];
    assert_eq!(soon(listed(&backend, &queue)).await, expected);
    assert_eq!(node.state().lost(), None);
    node.leave().await.unwrap();
    assert!(names(&stranger(addr).await, &config, Kind::RwLock).await.is_empty());
}

/// A downgrade of unknown outcome was carried out, or waits to be, or comes when all is over.
#[tokio::test]
async fn a_leave_after_an_unknown_downgrade_leaves_nothing() {
    let addr = server().await.addr();
    let stranger = stranger(addr).await;
    for late in [false, true] {
        let proxy = Proxy::start(addr).await.unwrap();
        let config = config(&proxy.addr().to_string());
        let backend = backend(&config).await;
        let queue = address(&config, Kind::RwLock, "a");
        let node = admitted(backend.join(&join(&queue, Exclusive)).await);
        let unknown = async || assert_eq!(*node.downgrade().await.unwrap_err().kind(), ErrorKind::Unknown);
        let reads = waits(&waiting(backend.join(&join(&queue, Shared)).await));
        if late {
            let parked = proxy.park_request(|chunk| holds(chunk, MULTI));
            unknown().await;
            soon(async { while node.leave().await.is_err() {} }).await;
            // The server may have closed this connection when the session moved to another.
            let _ = soon(parked.deliver()).await;
        } else {
            let mut cut = proxy.drop_reply_to(|chunk| holds(chunk, MULTI));
            unknown().await;
            soon(cut.fired()).await.unwrap();
            soon(async { while node.leave().await.is_err() {} }).await;
        }
        promptly(reads).await.unwrap().unwrap();
        let left = names(&stranger, &config, Kind::RwLock).await;
        assert!(left.len() == 1 && left[0].ends_with("__READ__0000000001"), "late {late}: {left:?}");
    }
}

#[tokio::test]
async fn a_leave_while_a_downgrade_is_under_way_leaves_nothing() {
    let addr = server().await.addr();
    let stranger = stranger(addr).await;
    let config = config(addr);
    let backend = backend(&config).await;
    let queue = address(&config, Kind::RwLock, "a");
    for downgrade_first in [true, false, true, false] {
        let node = admitted(backend.join(&join(&queue, Exclusive)).await);
        let (downgraded, left) = if downgrade_first {
            tokio::join!(biased; node.downgrade(), node.leave())
        } else {
            let (left, downgraded) = tokio::join!(biased; node.leave(), node.downgrade());
            (downgraded, left)
        };
        left.unwrap();
        assert_eq!(downgraded.is_ok(), downgrade_first, "{downgraded:?}");
        assert!(names(&stranger, &config, Kind::RwLock).await.is_empty());
        assert_eq!(node.state().lost(), None, "its own doing");
    }
}

/// With the own watch armed by the wait, and with none yet.
#[tokio::test]
async fn a_removal_after_a_downgrade_is_told_at_once_and_the_downgrade_is_none() {
    let addr = server().await.addr();
    let stranger = stranger(addr).await;
    let config = config(addr);
    let backend = backend(&config).await;
    let queue = address(&config, Kind::RwLock, "a");
    for waited in [false, true] {
        let first = admitted(backend.join(&join(&queue, Exclusive)).await);
        let node = if waited {
            let node = waiting(backend.join(&join(&queue, Exclusive)).await);
            let admitted = waits(&node);
            // Longer than a wait does without a watch on its own node, and as many round trips as arming takes.
            let since = Instant::now();
            while since.elapsed() < Duration::from_millis(400) {
                assert_eq!(listed(&backend, &queue).await.len(), 2);
            }
            first.leave().await.unwrap();
            soon(admitted).await.unwrap().unwrap();
            node
        } else {
            first
        };
        node.downgrade().await.unwrap();
        let lost = tokio::time::timeout(Duration::from_millis(300), node.state().until_lost()).await;
        assert!(lost.is_err(), "{lost:?}");
        let name = names(&stranger, &config, Kind::RwLock).await.remove(0);
        assert!(name.contains("__READ__"));
        stranger.delete(&format!("/{}/rwlock/a/{name}", config.namespace), None).await.unwrap();
        assert_eq!(promptly(node.state().until_lost()).await, LostReason::Revoked);
        assert_eq!(node.downgrade().await.unwrap_err().lost_reason(), Some(LostReason::Revoked));
        assert_eq!(backend.lease().lost(), None);
    }
}

#[tokio::test]
async fn a_writer_that_was_removed_does_not_come_back_as_a_reader() {
    let addr = server().await.addr();
    let stranger = stranger(addr).await;
    let config = config(addr);
    let (proxy, [cut_off, other]) = one_proxied(&config).await;
    let queue = address(&config, Kind::RwLock, "a");
    let node = admitted(cut_off.join(&join(&queue, Exclusive)).await);
    let parked = proxy.park_request(|chunk| holds(chunk, MULTI));
    assert_eq!(*node.downgrade().await.unwrap_err().kind(), ErrorKind::Unknown);
    assert!(other.revoke(&queue, node.state().sequence()).await.unwrap());
    assert_eq!(promptly(node.state().until_lost()).await, LostReason::Revoked);
    let _ = soon(parked.deliver()).await;
    assert!(names(&stranger, &config, Kind::RwLock).await.is_empty());
}

#[tokio::test]
async fn a_raised_limit_admits_at_once_and_down_the_queue() {
    let addr = server().await.addr();
    let config = config(addr);
    let queue = address(&config, Kind::Semaphore, "a");
    let backend = backend(&config).await;
    assert_eq!(backend.limit(&queue).await.unwrap(), None);
    backend.set_limit(&queue, 1).await.unwrap();
    assert_eq!(backend.limit(&queue).await.unwrap(), Some(1));
    let request = || Join { limit: AskedLimit::Stored, ..join(&queue, Permits(1)) };
    let holder = admitted(backend.join(&request()).await);
    let [head, next, last] = [
        waiting(backend.join(&request()).await),
        waiting(backend.join(&request()).await),
        waiting(backend.join(&request()).await),
    ];
    let [head_waits, next_waits, last_waits] = [&head, &next, &last].map(waits);
    assert!(still_waits(&backend, &queue, head.admitted()).await);
    backend.set_limit(&queue, 2).await.unwrap();
    promptly(head_waits).await.unwrap().unwrap();
    assert!(still_waits(&backend, &queue, next.admitted()).await);
    backend.set_limit(&queue, 4).await.unwrap();
    promptly(next_waits).await.unwrap().unwrap();
    promptly(last_waits).await.unwrap().unwrap();
    for node in [holder, head, next, last] {
        node.leave().await.unwrap();
    }
    let stranger = stranger(addr).await;
    assert!(names(&stranger, &config, Kind::Semaphore).await.is_empty());
    let limits = stranger.list_children(&format!("/{}/limits", config.namespace)).await.unwrap();
    assert_eq!(limits, ["a"]);
}

#[tokio::test]
async fn a_lowered_limit_revokes_nobody_and_admits_nobody_until_the_sum_fits() {
    let config = config(server().await.addr());
    let queue = address(&config, Kind::Semaphore, "a");
    let (one, other) = (backend(&config).await, backend(&config).await);
    let with = |limit: AskedLimit, weight: u32| Join { limit, ..join(&queue, Permits(weight)) };
    let two = admitted(one.join(&with(AskedLimit::Exactly(3), 2)).await);
    let single = admitted(other.join(&with(AskedLimit::Stored, 1)).await);
    other.set_limit(&queue, 2).await.unwrap();
    assert_eq!(*one.join(&with(AskedLimit::Exactly(3), 1)).await.unwrap_err().kind(), ErrorKind::Conflict);
    let next = waiting(one.join(&with(AskedLimit::Exactly(2), 1)).await);
    let last = waiting(other.join(&with(AskedLimit::Stored, 1)).await);
    let [next_waits, last_waits] = [&next, &last].map(waits);
    assert!(still_waits(&one, &queue, next.admitted()).await);
    single.leave().await.unwrap();
    assert!(still_waits(&one, &queue, next.admitted()).await, "the first alone takes all of it");
    assert_eq!((two.state().lost(), single.state().lost()), (None, None));
    two.leave().await.unwrap();
    promptly(next_waits).await.unwrap().unwrap();
    promptly(last_waits).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_waiter_that_does_not_fit_any_more_gives_up_promptly_and_those_behind_get_on() {
    let config = config(server().await.addr());
    let queue = address(&config, Kind::Semaphore, "a");
    let (one, other) = (backend(&config).await, backend(&config).await);
    let with = |weight: u32| Join { limit: AskedLimit::Exactly(3), ..join(&queue, Permits(weight)) };
    let holder = admitted(one.join(&with(1)).await);
    let unfit = waiting(other.join(&with(3)).await);
    let unfit_too = waiting(one.join(&with(3)).await);
    let fit = waiting(other.join(&with(1)).await);
    let [gives_up, gives_up_too, gets_on] = [&unfit, &unfit_too, &fit].map(waits);
    assert!(still_waits(&one, &queue, unfit.admitted()).await);
    one.set_limit(&queue, 2).await.unwrap();
    for (node, gives_up) in [(unfit, gives_up), (unfit_too, gives_up_too)] {
        let error = promptly(gives_up).await.unwrap().unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Conflict, "{error}");
        assert!(error.to_string().contains("was set to 2"), "{error}");
        // As core does.
        node.leave().await.unwrap();
    }
    promptly(gets_on).await.unwrap().unwrap();
    assert_eq!(listed(&one, &queue).await.len(), 2);
    for node in [holder, fit] {
        node.leave().await.unwrap();
    }
}

#[tokio::test]
async fn whoever_is_revoked_hears_it_at_once_and_the_next_one_is_admitted() {
    let config = config(server().await.addr());
    let (one, operator) = (backend(&config).await, backend(&config).await);
    let revoked = async |queue: &Address, node: &Arc<dyn Node>| {
        assert!(operator.revoke(queue, node.state().sequence()).await.unwrap());
        assert_eq!(promptly(node.state().until_lost()).await, LostReason::Revoked);
        assert!(!operator.revoke(queue, node.state().sequence()).await.unwrap(), "it was there");
        // Nothing is left to be left.
        node.leave().await.unwrap();
    };
    for (kind, claim) in [(Kind::Mutex, Exclusive), (Kind::RwLock, Exclusive), (Kind::Semaphore, Permits(2))]
    {
        let queue = address(&config, kind, "a");
        assert!(!operator.revoke(&queue, 1).await.unwrap(), "the queue was never used");
        let holder = admitted(one.join(&join(&queue, claim)).await);
        let waiter = waiting(one.join(&join(&queue, claim)).await);
        let next = waiting(one.join(&join(&queue, claim)).await);
        let [waiter_waits, next_waits] = [&waiter, &next].map(waits);
        assert!(still_waits(&one, &queue, waiter.admitted()).await);
        revoked(&queue, &waiter).await;
        let told = promptly(waiter_waits).await.unwrap().unwrap_err();
        assert_eq!(told.lost_reason(), Some(LostReason::Revoked));
        assert!(still_waits(&one, &queue, next.admitted()).await);
        revoked(&queue, &holder).await;
        promptly(next_waits).await.unwrap().unwrap();
        next.leave().await.unwrap();
    }

    // A reader that was a writer, by the number that it has always had.
    let queue = address(&config, Kind::RwLock, "a");
    let holder = admitted(one.join(&join(&queue, Exclusive)).await);
    let next = waiting(one.join(&join(&queue, Exclusive)).await);
    let next_waits = waits(&next);
    holder.downgrade().await.unwrap();
    assert!(still_waits(&one, &queue, next.admitted()).await);
    revoked(&queue, &holder).await;
    promptly(next_waits).await.unwrap().unwrap();
    next.leave().await.unwrap();
}

/// More nodes ahead than are read in one trip, one of them another program's.
#[tokio::test]
async fn a_node_far_back_and_a_strangers_node_are_found_by_their_numbers() {
    let addr = server().await.addr();
    let config = config(addr);
    let queue = address(&config, Kind::RwLock, "a");
    let backend = backend(&config).await;
    let stranger = stranger(addr).await;
    let holder = admitted(backend.join(&join(&queue, Exclusive)).await);
    let prefix = |claim: &str| {
        format!("/{}/rwlock/a/_c_{}-__{claim}__", config.namespace, NodeId::random().hyphenated())
    };
    let mut theirs = Vec::new();
    for _ in 0..300 {
        theirs.push(put(&stranger, &prefix("READ"), CreateMode::EphemeralSequential).await);
    }
    let last = waiting(backend.join(&join(&queue, Exclusive)).await);
    let entries = backend.list(&queue, Page { after: 0, most: 1000 }).await.unwrap();
    assert_eq!(entries.len(), 302);
    assert!(backend.revoke(&queue, entries[290].sequence).await.unwrap());
    assert_eq!(stranger.check_stat(&theirs[289]).await.unwrap(), None);
    assert_eq!(names(&stranger, &config, Kind::RwLock).await.len(), 301);
    assert!(backend.revoke(&queue, last.state().sequence()).await.unwrap());
    // A waiter hears it in its wait.
    assert_eq!(promptly(last.admitted()).await.unwrap_err().lost_reason(), Some(LostReason::Revoked));
    holder.leave().await.unwrap();
}

#[tokio::test]
async fn a_revocation_whose_reply_was_lost_is_repeated_without_harm() {
    let config = config(server().await.addr());
    let (proxy, [operator, one]) = one_proxied(&config).await;
    let queue = address(&config, Kind::Mutex, "a");
    let holder = admitted(one.join(&join(&queue, Exclusive)).await);
    let next = waiting(one.join(&join(&queue, Exclusive)).await);
    let mut cut = proxy.drop_reply_to(|chunk| holds(chunk, DELETE));
    let error = operator.revoke(&queue, holder.state().sequence()).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Unknown, "{error}");
    soon(cut.fired()).await.unwrap();
    assert!(!soon(operator.revoke(&queue, holder.state().sequence())).await.unwrap());
    soon(next.admitted()).await.unwrap();
    assert_eq!(promptly(holder.state().until_lost()).await, LostReason::Revoked);
    next.leave().await.unwrap();
}

/// Its first look is that of its join; by then it stands behind a few, whom it watches one by one, or more.
#[tokio::test]
async fn a_limit_that_is_set_between_the_look_and_the_arming_admits_the_head() {
    let config = config(server().await.addr());
    let backend = backend(&config).await;
    for holders in [1, 5] {
        let queue = address(&config, Kind::Semaphore, if holders == 1 { "few" } else { "many" });
        let with = |limit| Join { limit, ..join(&queue, Permits(1)) };
        let mut held = Vec::new();
        for _ in 0..holders {
            held.push(admitted(backend.join(&with(AskedLimit::Exactly(holders))).await));
        }
        let head = waiting(backend.join(&with(AskedLimit::Stored)).await);
        backend.set_limit(&queue, holders + 1).await.unwrap();
        promptly(head.admitted()).await.unwrap();
        assert!(held.iter().all(|node| node.state().lost().is_none()));
    }
}

#[tokio::test]
async fn a_limit_that_is_set_and_set_back_has_the_holders_marked() {
    let addr = server().await.addr();
    let config = config(addr);
    let (backend, stranger) = (backend(&config).await, stranger(addr).await);
    let queue = address(&config, Kind::Semaphore, "a");
    let with = |limit| Join { limit, ..join(&queue, Permits(1)) };
    // Whoever stores it is marked at once: nobody can tell by which limit it was admitted.
    admitted(backend.join(&with(AskedLimit::Exactly(2))).await).leave().await.unwrap();
    let holder = admitted(backend.join(&with(AskedLimit::Exactly(2))).await);
    let path =
        format!("/{}/semaphore/a/{}", config.namespace, names(&stranger, &config, Kind::Semaphore).await[0]);
    let (before, _, marked) = stranger.get_and_watch_data(&path).await.unwrap();
    // Before the holder watches the limit, as a rule: a hold is to last a while first.
    backend.set_limit(&queue, 1).await.unwrap();
    backend.set_limit(&queue, 2).await.unwrap();
    assert_eq!(promptly(marked.changed()).await.event_type, EventType::NodeDataChanged);
    assert_ne!(stranger.get_data(&path).await.unwrap().0, before);
    holder.leave().await.unwrap();
}
