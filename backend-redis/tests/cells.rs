use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::cells::{value, write};
use crate::common::{
    LONG, Operator, admitted, ask, client, connect, expire, limited, operated, promptly, queue, served, soon,
    told, until, waiting,
};
use futures_util::FutureExt;
use latchwork_conformance::cell_actions::{deletion, put, written};
use latchwork_conformance::errors::{fails, refuses};
use latchwork_core::backend::{Backend, CellWritten, KeysWith, Node};
use latchwork_core::{Address, CellLife, Claim, ErrorKind, Expected, Key, Kind, QueuePrefix, Version};

fn cell(key: &str) -> Address {
    queue(Kind::Value, key)
}

async fn channels(operator: &mut Operator) -> Vec<String> {
    operator.say("PUBSUB CHANNELS *:cell").await
}

#[tokio::test]
async fn versions_rise_after_clock_step_and_differ_after_recreation() {
    let (_server, mut operator, backend) = served(LONG).await;
    let a = cell("a");
    // The clock was years ahead at this write.
    let ahead = 9_000_000_000_000_000_u64;
    operator.tell(&format!("HSET latchwork:value:{{a}}:cell v x n {ahead}-7")).await;
    let old = backend.read_cell(&a).await.unwrap().unwrap().version;
    assert_eq!(old, Version::new(ahead, 7));
    let next = written(backend.write_cell(&a, &put(Expected::Version(old), "y")).await);
    assert_eq!(next.number(), ahead + 1);
    // As if the cell was created again while the clock shows the same number.
    operator.tell(&format!("HSET latchwork:value:{{a}}:cell v z n {}-7", next.number())).await;
    let late = backend.write_cell(&a, &put(Expected::Version(next), "late")).await;
    assert!(matches!(late, Ok(CellWritten::Refused(_))), "{late:?}");
}

/// Each shape alone (folded) and with a waiter.
async fn holders(backend: &Arc<dyn Backend>, other: &Arc<dyn Backend>) -> Vec<(Address, Arc<dyn Node>)> {
    let mut holders = Vec::new();
    for (kind, claim) in crate::common::KINDS {
        for contended in [false, true] {
            let queue = queue(kind, if contended { "contended" } else { "alone" });
            let join = match kind {
                Kind::Semaphore => limited(&queue, 1, 1),
                _ => ask(&queue, claim),
            };
            let node = admitted(backend, &join).await;
            if contended {
                waiting(other, &ask(&queue, claim)).await;
            }
            holders.push((queue, node));
        }
    }
    holders
}

/// No script has dropped the expired entries.
#[tokio::test]
async fn a_held_write_is_refused_once_the_lease_has_ended_on_the_server() {
    let (server, mut operator, backend) = served(LONG).await;
    let other = client(&server, LONG).await;
    let a = cell("a");
    for (queue, node) in holders(&backend, &other).await {
        written(node.write_cell(&a, &put(Expected::Any, "held")).await);
        expire(&mut operator, &queue, &node).await;
        let error = node.write_cell(&a, &put(Expected::Any, "late")).await.unwrap_err();
        assert!(error.lost_reason().is_some(), "{queue:?}: {error}");
        assert_eq!(value(&other, &a).await.unwrap(), b"held", "{queue:?}");
    }
}

#[tokio::test]
async fn a_dropped_watch_leaves_no_subscription_and_another_of_the_cell_keeps_its_own() {
    let (_server, mut operator, backend) = served(LONG).await;
    let a = cell("a");
    let (mut first, mut second) = (backend.watch_cell(&a), backend.watch_cell(&a));
    told(&mut first).await;
    told(&mut second).await;
    assert_eq!(channels(&mut operator).await, ["latchwork:value:{a}:cell"]);
    drop(first);
    for round in 0..20 {
        drop(second);
        if round % 2 == 0 {
            tokio::task::yield_now().await;
        }
        second = backend.watch_cell(&a);
        told(&mut second).await;
        backend.write_cell(&a, &put(Expected::Any, round.to_string())).await.unwrap();
        told(&mut second).await;
    }
    drop(second);
    let mut hasty = backend.watch_cell(&cell("hasty"));
    assert!(hasty.changed().now_or_never().is_none());
    drop(hasty);
    drop(backend.watch_cell(&cell("never asked")));
    promptly(until(async || channels(&mut operator).await.is_empty())).await;
    assert_eq!(value(&backend, &a).await.unwrap(), b"19");
}

#[tokio::test]
async fn a_channel_that_is_forbidden_ends_the_watch_and_not_the_write() {
    let (server, mut operator) = operated().await;
    operator.allow("app", "resetchannels &latchwork:inbox:* +@all").await;
    let backend = connect(&format!("redis://app:word@{}?ttl={LONG}", server.addr())).await;
    let answer = promptly(backend.watch_cell(&cell("a")).changed()).await;
    fails(answer, ErrorKind::Forbidden, "the channel is forbidden");
    written(backend.write_cell(&cell("a"), &put(Expected::Any, "x")).await);
    assert_eq!(value(&backend, &cell("a")).await.unwrap(), b"x");
}

#[tokio::test]
async fn a_cell_may_have_any_exact_name_without_braces() {
    let (_server, _operator, backend) = served(LONG).await;
    let exact = |name: &str| Address::new("latchwork", Kind::Value, Key::exact(name)).unwrap();
    let cells = ["a", "a/b", "with space", "*", "ü"].map(exact);
    for cell in &cells {
        let mut watch = backend.watch_cell(cell);
        told(&mut watch).await;
        written(backend.write_cell(cell, &put(Expected::Absent, cell.name())).await);
        told(&mut watch).await;
    }
    for cell in &cells {
        assert_eq!(value(&backend, cell).await.unwrap(), cell.name().as_bytes());
    }
    for refused in ["a{b", "}"] {
        refuses(backend.read_cell(&exact(refused)).await, "key");
        refuses(backend.write_cell(&exact(refused), &put(Expected::Any, "x")).await, "key");
        refuses(backend.watch_cell(&exact(refused)).changed().await, "key");
    }
}

#[tokio::test]
async fn a_foreign_thing_in_the_place_of_a_cell_is_a_conflict_and_stays() {
    let (_server, mut operator, backend) = served(LONG).await;
    let node = admitted(&backend, &ask(&queue(Kind::Mutex, "m"), Claim::Exclusive)).await;
    for (key, made) in [
        ("text", "SET latchwork:value:{text}:cell x"),
        ("list", "RPUSH latchwork:value:{list}:cell x"),
        ("hash", "HSET latchwork:value:{hash}:cell field x"),
        ("half", "HSET latchwork:value:{half}:cell v x"),
        ("other", "HSET latchwork:value:{other}:cell n 5-5"),
        ("no-number", "HSET latchwork:value:{no-number}:cell v x n five"),
        ("fraction", "HSET latchwork:value:{fraction}:cell v x n 1.5-5"),
        ("huge", "HSET latchwork:value:{huge}:cell v x n 99999999999999999999-5"),
    ] {
        operator.tell(made).await;
        let a = cell(key);
        fails(backend.read_cell(&a).await, ErrorKind::Conflict, key);
        for write in [put(Expected::Any, "x"), put(Expected::Absent, "x"), deletion(Expected::Any)] {
            for answer in [backend.write_cell(&a, &write).await, node.write_cell(&a, &write).await] {
                fails(answer, ErrorKind::Conflict, &format!("{key} {write:?}"));
            }
        }
        assert!(operator.say::<bool>(&format!("EXISTS latchwork:value:{{{key}}}:cell")).await, "{key}");
    }
}

#[tokio::test]
async fn a_full_server_takes_no_write_but_reads_and_deletes() {
    let (_server, mut operator, backend) = served(LONG).await;
    let a = cell("a");
    let first = written(backend.write_cell(&a, &put(Expected::Any, "one")).await);
    operator.fill_memory().await;
    let answer = backend.write_cell(&a, &put(Expected::Any, "two")).await;
    fails(answer, ErrorKind::Unavailable, "the memory is full");
    assert_eq!(backend.read_cell(&a).await.unwrap().unwrap().version, first);
    let deleted = backend.write_cell(&a, &deletion(Expected::Version(first))).await.unwrap();
    assert_eq!(deleted, CellWritten::Deleted { was_there: true });
}

#[tokio::test]
async fn reading_writing_and_a_held_write_are_one_request_each() {
    let (_server, mut operator, backend) = served("1h").await;
    let a = cell("a");
    let node = admitted(&backend, &ask(&queue(Kind::Mutex, "m"), Claim::Exclusive)).await;
    let all = async || {
        backend.read_cell(&a).await.unwrap();
        backend.write_cell(&a, &put(Expected::Any, "x")).await.unwrap();
        node.write_cell(&a, &put(Expected::Any, "x")).await.unwrap();
    };
    all().await;
    let [by_hash, by_text] = operator.script_calls().await;
    all().await;
    assert_eq!(operator.script_calls().await, [by_hash + 3, by_text]);
}

/// A page of one cell ends with the step of `SCAN` (some hundred keys) that shows the cell.
#[tokio::test]
async fn cells_of_a_full_server_are_listed_over_many_pages() {
    const MANY: usize = 1000;
    let (_server, _operator, client) = served(LONG).await;
    for number in 0..MANY {
        write(&client, &cell(&format!("many/{number}")), "here", CellLife::Stays).await;
    }
    let of = QueuePrefix::new("latchwork", Kind::Value, "many/").unwrap();
    let (mut listed, mut pages, mut after) = (BTreeSet::new(), 0, None);
    loop {
        let page = soon(client.list_keys(KeysWith::Cell, &of, after.as_deref(), 1)).await.unwrap();
        listed.extend(page.items.into_iter().map(|key| key.address.name().to_owned()));
        pages += 1;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(listed.len(), MANY);
    assert!((5..=MANY / 20).contains(&pages), "{pages} pages");
}
