//! Cells on a real server: what a write demands, what a held write proves, and what a watch tells.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::{
    LONG, Operator, SHORT, admitted, ask, client, connect, is_script, limited, own, promptly, queue, says,
    soon,
};
use futures_util::FutureExt;
use futures_util::future::join_all;
use latchwork_conformance::proxy::Proxy;
use latchwork_conformance::servers::Server;
use latchwork_core::contracts::{
    Backend, Cell, CellLife, CellWrite, CellWritten, ChangeWatch, Close, Expected, MAX_CELL_BYTES, Node,
    Version,
};
use latchwork_core::decide::Claim;
use latchwork_core::{Address, ErrorKind, Kind, LostReason, QueuePrefix, Result};

fn cell(key: &str) -> Address {
    queue(Kind::Value, key)
}

fn put(expected: Expected, value: impl AsRef<[u8]>) -> CellWrite {
    CellWrite { expected, value: Some(value.as_ref().into()), life: CellLife::Stays }
}

const fn delete(expected: Expected) -> CellWrite {
    CellWrite { expected, value: None, life: CellLife::Stays }
}

fn written(answer: Result<CellWritten>) -> Version {
    match answer {
        Ok(CellWritten::Written(version)) => version,
        other => panic!("not written: {other:?}"),
    }
}

fn refused(answer: Result<CellWritten>) -> Option<Cell> {
    match answer {
        Ok(CellWritten::Refused(cell)) => cell,
        other => panic!("not refused: {other:?}"),
    }
}

async fn value(backend: &Arc<dyn Backend>, cell: &Address) -> Option<Vec<u8>> {
    backend.read_cell(cell).await.unwrap().map(|cell| cell.value.to_vec())
}

/// A client whose connection can be cut.
async fn proxied(server: &Server, options: &str) -> (Proxy, Arc<dyn Backend>) {
    let proxy = Proxy::start(server.addr().to_string()).await.unwrap();
    let backend = connect(&format!("redis://{}?{options}", proxy.addr())).await.unwrap();
    (proxy, backend)
}

/// The channels of cells that anybody listens to.
async fn channels(operator: &mut Operator) -> Vec<String> {
    operator.say("PUBSUB CHANNELS *:cell").await
}

#[tokio::test]
async fn a_write_is_made_under_its_condition_alone_and_a_refusal_shows_the_cell() {
    let server = own(&[]).await;
    let (backend, a) = (client(&server, LONG).await, cell("a"));
    assert_eq!(backend.read_cell(&a).await.unwrap(), None);
    let foreign = Expected::Version(Version::new(1, 1));
    assert_eq!(refused(backend.write_cell(&a, &put(foreign, "x")).await), None);
    let first = written(backend.write_cell(&a, &put(Expected::Absent, "one")).await);
    let is = Cell { version: first, value: b"one".as_slice().into() };
    assert_eq!(backend.read_cell(&a).await.unwrap(), Some(is.clone()));
    for write in [put(Expected::Absent, "x"), put(foreign, "x"), delete(Expected::Absent), delete(foreign)] {
        assert_eq!(refused(backend.write_cell(&a, &write).await), Some(is.clone()), "{write:?}");
    }
    let second = written(backend.write_cell(&a, &put(Expected::Version(first), "two")).await);
    assert!(second.number() > first.number());
    let late = put(Expected::Version(first), "late");
    assert_eq!(refused(backend.write_cell(&a, &late).await).unwrap().version, second);
    let third = written(backend.write_cell(&a, &put(Expected::Any, "three")).await);
    assert!(third.number() > second.number());
    assert_eq!(
        refused(backend.write_cell(&a, &delete(Expected::Version(second))).await).unwrap().version,
        third
    );
    for (write, was_there) in [
        (delete(Expected::Version(third)), true),
        (delete(Expected::Any), false),
        (delete(Expected::Absent), false),
    ] {
        assert_eq!(
            backend.write_cell(&a, &write).await.unwrap(),
            CellWritten::Deleted { was_there },
            "{write:?}"
        );
    }
    assert_eq!(backend.read_cell(&a).await.unwrap(), None);
    let keys: Vec<String> = Operator::of(&server).await.say("KEYS *").await;
    assert_eq!(keys, [""; 0], "a deleted cell stays");
}

#[tokio::test]
async fn a_value_is_any_bytes_and_an_empty_one_is_there() {
    let server = own(&[]).await;
    let backend = client(&server, LONG).await;
    let all: Vec<u8> = (0..MAX_CELL_BYTES).map(|byte| byte as u8).collect();
    for (key, bytes) in
        [("empty", Vec::new()), ("any", all), ("nul", vec![0]), ("lines", b"\r\n$-1\r\n".to_vec())]
    {
        written(backend.write_cell(&cell(key), &put(Expected::Absent, &bytes)).await);
        assert_eq!(value(&backend, &cell(key)).await, Some(bytes), "{key}");
        assert!(
            refused(backend.write_cell(&cell(key), &put(Expected::Absent, "x")).await).is_some(),
            "{key}"
        );
    }
}

#[tokio::test]
async fn no_version_comes_twice_over_deletions_and_none_goes_back() {
    let server = own(&[]).await;
    let (backend, a) = (client(&server, LONG).await, cell("a"));
    let (mut last, mut first) = (0, None);
    for round in 0..50 {
        let version = written(backend.write_cell(&a, &put(Expected::Any, "x")).await);
        assert!(version.number() > last, "round {round}");
        last = version.number();
        first.get_or_insert(version);
        if round % 2 == 0 {
            backend.write_cell(&a, &delete(Expected::Any)).await.unwrap();
        }
        let late = put(Expected::Version(first.unwrap()), "late");
        if round > 0 {
            refused(backend.write_cell(&a, &late).await);
        }
    }
}

#[tokio::test]
async fn versions_rise_above_a_server_whose_clock_was_set_back_and_are_new_beside_it() {
    let server = own(&[]).await;
    let (mut operator, backend, a) = (Operator::of(&server).await, client(&server, LONG).await, cell("a"));
    // The clock was years ahead when this was written.
    let ahead = 9_000_000_000_000_000_u64;
    operator.say::<()>(&format!("HSET latchwork:value:{{a}}:cell v x n {ahead}-7")).await;
    let old = backend.read_cell(&a).await.unwrap().unwrap().version;
    assert_eq!(old, Version::new(ahead, 7));
    let next = written(backend.write_cell(&a, &put(Expected::Version(old), "y")).await);
    assert_eq!(next.number(), ahead + 1);
    // As if it had been deleted, and made anew by a clock that reads the same number.
    operator.say::<()>(&format!("HSET latchwork:value:{{a}}:cell v z n {}-7", next.number())).await;
    refused(backend.write_cell(&a, &put(Expected::Version(next), "late")).await);
}

#[tokio::test]
async fn of_clients_that_race_each_success_is_counted_once() {
    const CLIENTS: usize = 6;
    const EACH: usize = 30;
    let server = own(&[]).await;
    let a = cell("a");
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(client(&server, LONG).await);
    }
    written(clients[0].write_cell(&a, &put(Expected::Absent, "0")).await);
    soon(join_all(clients.iter().map(async |backend| {
        for _ in 0..EACH {
            let mut seen = backend.read_cell(&a).await.unwrap().unwrap();
            loop {
                let count: u64 = std::str::from_utf8(&seen.value).unwrap().parse().unwrap();
                let next = put(Expected::Version(seen.version), (count + 1).to_string());
                match backend.write_cell(&a, &next).await.unwrap() {
                    CellWritten::Written(_) => break,
                    CellWritten::Refused(now) => seen = now.unwrap(),
                    other => panic!("{other:?}"),
                }
            }
        }
    })))
    .await;
    assert_eq!(value(&clients[0], &a).await.unwrap(), (CLIENTS * EACH).to_string().as_bytes());
}

/// Admitted nodes of every shape, alone (folded) and with one waiting behind it.
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
                let next = ask(&queue, claim);
                crate::common::waiting(other, &next).await;
            }
            holders.push((queue, node));
        }
    }
    holders
}

#[tokio::test]
async fn a_held_write_is_made_while_the_node_stands_and_refused_once_it_was_revoked() {
    let server = own(&[]).await;
    let (backend, other) = (client(&server, LONG).await, client(&server, LONG).await);
    for (n, (queue, node)) in holders(&backend, &other).await.into_iter().enumerate() {
        let a = cell(&format!("cell-{n}"));
        let first = written(node.write_cell(&a, &put(Expected::Absent, "held")).await);
        assert!(refused(node.write_cell(&a, &put(Expected::Absent, "x")).await).is_some(), "{queue:?}");
        let second = written(node.write_cell(&a, &put(Expected::Version(first), "again")).await);
        assert!(other.revoke(&queue, node.state().sequence()).await.unwrap());
        for write in
            [put(Expected::Version(second), "late"), put(Expected::Any, "late"), delete(Expected::Any)]
        {
            let error = node.write_cell(&a, &write).await.unwrap_err();
            assert_eq!(error.lost_reason(), Some(LostReason::Revoked), "{queue:?} {write:?}: {error}");
        }
        assert_eq!(node.state().lost(), Some(LostReason::Revoked), "{queue:?}");
        assert_eq!(value(&other, &a).await.unwrap(), b"again", "{queue:?}");
    }
}

/// The entries are still there: nobody has looked at the queue since they ran out.
#[tokio::test]
async fn a_held_write_is_refused_once_the_lease_has_ended_on_the_server() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let (backend, other) = (client(&server, LONG).await, client(&server, LONG).await);
    let a = cell("a");
    for (queue, node) in holders(&backend, &other).await {
        written(node.write_cell(&a, &put(Expected::Any, "held")).await);
        let of = format!("latchwork:{}:{{{}}}", queue.kind().as_str(), queue.name());
        let one: Option<String> = match queue.kind() {
            Kind::Semaphore => None,
            _ => operator.say(&format!("GET {of}:one")).await,
        };
        match one {
            Some(text) => {
                let words: Vec<&str> = text.splitn(4, ' ').collect();
                let mut set = redis::cmd("SET");
                set.arg(format!("{of}:one")).arg(format!("{} {} 1 {}", words[0], words[1], words[3]));
                operator.run(&set).await;
            }
            None => {
                let ids: Vec<String> = operator.say(&format!("ZRANGE {of}:seq 0 0")).await;
                operator.say::<()>(&format!("ZADD {of}:exp 1 {}", ids[0])).await;
            }
        }
        let error = node.write_cell(&a, &put(Expected::Any, "late")).await.unwrap_err();
        assert!(error.lost_reason().is_some(), "{queue:?}: {error}");
        assert_eq!(value(&other, &a).await.unwrap(), b"held", "{queue:?}");
    }
}

#[tokio::test]
async fn a_held_write_that_comes_after_the_leave_and_the_next_holder_is_not_made() {
    let server = own(&[]).await;
    let (proxy, backend) = proxied(&server, &format!("ttl={LONG}&request_timeout=2s")).await;
    let (other, a, mutex) = (client(&server, LONG).await, cell("a"), queue(Kind::Mutex, "m"));
    let node = admitted(&backend, &ask(&mutex, Claim::Exclusive)).await;
    written(node.write_cell(&a, &put(Expected::Any, "held")).await);
    let mut parked = proxy.park_request(says("late"));
    let error = node.write_cell(&a, &put(Expected::Any, "late")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    soon(parked.caught()).await.unwrap();
    assert!(other.revoke(&mutex, node.state().sequence()).await.unwrap());
    let next = admitted(&other, &ask(&mutex, Claim::Exclusive)).await;
    written(next.write_cell(&a, &put(Expected::Any, "next")).await);
    soon(parked.deliver()).await.unwrap();
    assert_eq!(value(&other, &a).await.unwrap(), b"next");
}

#[tokio::test]
async fn a_write_whose_reply_is_lost_is_unknown_and_was_made() {
    let server = own(&[]).await;
    let (proxy, backend) = proxied(&server, &format!("ttl={LONG}")).await;
    let (other, a) = (client(&server, LONG).await, cell("a"));
    // The server knows the script from here on.
    let first = written(backend.write_cell(&a, &put(Expected::Any, "one")).await);
    let mut dropped = proxy.drop_reply_to(says("two"));
    let error = backend.write_cell(&a, &put(Expected::Version(first), "two")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    soon(dropped.fired()).await.unwrap();
    assert_eq!(value(&other, &a).await.unwrap(), b"two");
    // Sent again by hand, it would be refused: nothing is made twice.
    refused(other.write_cell(&a, &put(Expected::Version(first), "two")).await);
}

#[tokio::test]
async fn a_late_write_with_an_old_version_does_nothing() {
    let server = own(&[]).await;
    let (proxy, backend) = proxied(&server, &format!("ttl={LONG}")).await;
    let (other, a) = (client(&server, LONG).await, cell("a"));
    let first = written(backend.write_cell(&a, &put(Expected::Any, "one")).await);
    let mut parked = proxy.park_request(says("late"));
    let error = backend.write_cell(&a, &put(Expected::Version(first), "late")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    soon(parked.caught()).await.unwrap();
    // Deleted and made anew with the same value.
    other.write_cell(&a, &delete(Expected::Version(first))).await.unwrap();
    let anew = written(other.write_cell(&a, &put(Expected::Absent, "one")).await);
    soon(parked.deliver()).await.unwrap();
    assert_eq!(other.read_cell(&a).await.unwrap().unwrap().version, anew);
}

#[tokio::test]
async fn a_read_without_an_answer_is_unavailable_and_so_is_a_write_that_was_not_sent() {
    let server = own(&[]).await;
    let (proxy, backend) = proxied(&server, &format!("ttl={LONG}")).await;
    let a = cell("a");
    assert_eq!(value(&backend, &a).await, None);
    let _lost = proxy.drop_reply_to(is_script);
    let error = backend.read_cell(&a).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    proxy.cut();
    soon(async {
        // The first may be under way when the cut shows.
        while backend.write_cell(&a, &put(Expected::Any, "x")).await.unwrap_err().kind()
            == ErrorKind::OutcomeUnknown
        {}
    })
    .await;
    let error = backend.write_cell(&a, &put(Expected::Any, "x")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

async fn told(watch: &mut Box<dyn ChangeWatch>) {
    promptly(watch.changed()).await.unwrap();
}

fn silent(watch: &mut Box<dyn ChangeWatch>) {
    assert!(watch.changed().now_or_never().is_none(), "told of nothing");
}

#[tokio::test]
async fn a_watch_tells_of_each_change_also_between_two_calls_and_of_no_refusal() {
    let server = own(&[]).await;
    let (backend, other, a) = (client(&server, LONG).await, client(&server, LONG).await, cell("a"));
    let node = admitted(&other, &ask(&queue(Kind::Mutex, "m"), Claim::Exclusive)).await;
    let mut watch = backend.watch_cell(&a);
    told(&mut watch).await;
    silent(&mut watch);
    other.write_cell(&a, &put(Expected::Absent, "one")).await.unwrap();
    told(&mut watch).await;
    node.write_cell(&a, &put(Expected::Any, "two")).await.unwrap();
    told(&mut watch).await;
    backend.write_cell(&a, &delete(Expected::Any)).await.unwrap();
    told(&mut watch).await;
    // Neither changes anything.
    other.write_cell(&a, &delete(Expected::Any)).await.unwrap();
    other.write_cell(&a, &put(Expected::Version(Version::new(1, 1)), "x")).await.unwrap();
    other.write_cell(&cell("b"), &put(Expected::Any, "x")).await.unwrap();
    // A message of the server would be here before this answer.
    backend.read_cell(&a).await.unwrap();
    silent(&mut watch);
}

#[tokio::test]
async fn a_watch_survives_a_cut_answers_once_for_the_gap_and_rings_after_it() {
    let server = own(&[]).await;
    let (proxy, backend) = proxied(&server, &format!("ttl={LONG}")).await;
    let (other, a) = (client(&server, LONG).await, cell("a"));
    let (mut first, mut second) = (backend.watch_cell(&a), backend.watch_cell(&a));
    for round in 0..3 {
        if round > 0 {
            proxy.sever();
        }
        told(&mut first).await;
        told(&mut second).await;
        silent(&mut first);
        other.write_cell(&a, &put(Expected::Any, "x")).await.unwrap();
        told(&mut first).await;
        told(&mut second).await;
    }
}

#[tokio::test]
async fn a_watch_of_a_closed_client_ends_and_so_does_one_of_a_dropped_client() {
    let server = own(&[]).await;
    for how in [Close::Orderly, Close::Abrupt] {
        let backend = client(&server, LONG).await;
        let (mut watch, mut idle) = (backend.watch_cell(&cell("a")), backend.watch_cell(&cell("a")));
        told(&mut watch).await;
        let waiting = tokio::spawn(async move { watch.changed().await });
        backend.close(how).await.unwrap();
        assert_eq!(promptly(waiting).await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(idle.changed().await.unwrap_err().kind(), ErrorKind::Closed);
        let write = backend.write_cell(&cell("a"), &put(Expected::Any, "x")).await;
        assert_eq!(write.unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(backend.read_cell(&cell("a")).await.unwrap_err().kind(), ErrorKind::Closed);
    }
    let backend = client(&server, LONG).await;
    let mut watch = backend.watch_cell(&cell("a"));
    told(&mut watch).await;
    let waiting = tokio::spawn(async move { watch.changed().await });
    drop(backend);
    assert_eq!(promptly(waiting).await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn a_dropped_watch_leaves_no_subscription_and_another_of_the_cell_keeps_its_own() {
    let server = own(&[]).await;
    let (mut operator, backend) = (Operator::of(&server).await, client(&server, LONG).await);
    let a = cell("a");
    let (mut first, mut second) = (backend.watch_cell(&a), backend.watch_cell(&a));
    told(&mut first).await;
    told(&mut second).await;
    assert_eq!(channels(&mut operator).await, ["latchwork:value:{a}:cell"]);
    drop(first);
    for round in 0..20 {
        // Left and joined at the same time: the requests must not overtake each other.
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
    // One whose first answer nobody awaits.
    let mut hasty = backend.watch_cell(&cell("hasty"));
    assert!(hasty.changed().now_or_never().is_none());
    drop(hasty);
    drop(backend.watch_cell(&cell("never asked")));
    promptly(async {
        while !channels(&mut operator).await.is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(value(&backend, &a).await.unwrap(), b"19");
}

#[tokio::test]
async fn a_channel_that_is_forbidden_ends_the_watch_and_not_the_write() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    operator.say::<()>("ACL SETUSER app on >hunter2 ~* &latchwork:inbox:* +@all").await;
    let backend = connect(&format!("redis://app:hunter2@{}?ttl={LONG}", server.addr())).await.unwrap();
    let error = promptly(backend.watch_cell(&cell("a")).changed()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Forbidden, "{error}");
    written(backend.write_cell(&cell("a"), &put(Expected::Any, "x")).await);
    assert_eq!(value(&backend, &cell("a")).await.unwrap(), b"x");
}

#[tokio::test]
async fn the_documented_rights_are_enough_for_cells() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let rights = "+@read +@write +@pubsub +@scripting +@connection -@dangerous +time +info";
    operator.say::<()>(&format!("ACL SETUSER app on >hunter2 ~latchwork:* &latchwork:* {rights}")).await;
    let backend = connect(&format!("redis://app:hunter2@{}?ttl={LONG}", server.addr())).await.unwrap();
    let node = admitted(&backend, &ask(&queue(Kind::Mutex, "m"), Claim::Exclusive)).await;
    let mut watch = backend.watch_cell(&cell("a"));
    told(&mut watch).await;
    written(node.write_cell(&cell("a"), &put(Expected::Any, "x")).await);
    told(&mut watch).await;
    assert_eq!(value(&backend, &cell("a")).await.unwrap(), b"x");
    backend.write_cell(&cell("a"), &delete(Expected::Any)).await.unwrap();
    drop(watch);
}

#[tokio::test]
async fn kinds_odd_keys_and_exact_addresses_are_cells_of_their_own() {
    let server = own(&[]).await;
    let backend = client(&server, LONG).await;
    let exact = |name: &str| Address::new("latchwork", Kind::Value, Address::exact(name)).unwrap();
    let mut cells: Vec<Address> =
        [Kind::Value, Kind::Counter, Kind::Ids, Kind::Latch].map(|kind| queue(kind, "a")).into();
    cells.extend(["a}b", "{", "a/b", "a:cell", "ü\u{1F512}", " \r\n", "*", "."].map(cell));
    cells.extend(["a", "a/b", "with space", "*", "ü"].map(exact));
    // Queues of the same names stand beside them.
    let _held = admitted(&backend, &ask(&queue(Kind::Mutex, "a"), Claim::Exclusive)).await;
    for (n, cell) in cells.iter().enumerate() {
        let mut watch = backend.watch_cell(cell);
        told(&mut watch).await;
        written(backend.write_cell(cell, &put(Expected::Absent, n.to_string())).await);
        told(&mut watch).await;
    }
    for (n, cell) in cells.iter().enumerate() {
        assert_eq!(value(&backend, cell).await.unwrap(), n.to_string().as_bytes(), "{cell:?}");
    }
    for refused in ["a{b", "}"] {
        let error = backend.read_cell(&exact(refused)).await.unwrap_err();
        assert_eq!(error.argument(), Some("key"), "{error}");
        let write = backend.write_cell(&exact(refused), &put(Expected::Any, "x")).await;
        assert_eq!(write.unwrap_err().argument(), Some("key"));
        assert_eq!(backend.watch_cell(&exact(refused)).changed().await.unwrap_err().argument(), Some("key"));
    }
}

#[tokio::test]
async fn a_foreign_thing_in_the_place_of_a_cell_is_a_conflict_and_stays() {
    let server = own(&[]).await;
    let (mut operator, backend) = (Operator::of(&server).await, client(&server, LONG).await);
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
        operator.say::<()>(made).await;
        let a = cell(key);
        let error = backend.read_cell(&a).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{key}: {error}");
        for write in [put(Expected::Any, "x"), put(Expected::Absent, "x"), delete(Expected::Any)] {
            for answer in [backend.write_cell(&a, &write).await, node.write_cell(&a, &write).await] {
                let error = answer.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Conflict, "{key} {write:?}: {error}");
            }
        }
        assert!(operator.say::<bool>(&format!("EXISTS latchwork:value:{{{key}}}:cell")).await, "{key}");
    }
}

#[tokio::test]
async fn a_cell_outlives_its_client_and_never_expires() {
    let server = own(&[]).await;
    let backend = client(&server, SHORT).await;
    written(backend.write_cell(&cell("a"), &put(Expected::Any, "stays")).await);
    backend.close(Close::Orderly).await.unwrap();
    assert_eq!(Operator::of(&server).await.say::<i64>("PTTL latchwork:value:{a}:cell").await, -1);
    let other = client(&server, SHORT).await;
    assert_eq!(value(&other, &cell("a")).await.unwrap(), b"stays");
}

#[tokio::test]
async fn a_full_server_takes_no_write_but_reads_and_deletes() {
    let server = own(&[]).await;
    let (mut operator, backend, a) = (Operator::of(&server).await, client(&server, LONG).await, cell("a"));
    let first = written(backend.write_cell(&a, &put(Expected::Any, "one")).await);
    operator.say::<()>("CONFIG SET maxmemory-policy noeviction").await;
    operator.say::<()>("CONFIG SET maxmemory 1").await;
    let error = backend.write_cell(&a, &put(Expected::Any, "two")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(backend.read_cell(&a).await.unwrap().unwrap().version, first);
    let deleted = backend.write_cell(&a, &delete(Expected::Version(first))).await.unwrap();
    assert_eq!(deleted, CellWritten::Deleted { was_there: true });
}

#[tokio::test]
async fn reading_writing_and_a_held_write_are_one_request_each() {
    let server = own(&[]).await;
    let (mut operator, backend, a) = (Operator::of(&server).await, client(&server, "1h").await, cell("a"));
    let node = admitted(&backend, &ask(&queue(Kind::Mutex, "m"), Claim::Exclusive)).await;
    let all = async || {
        backend.read_cell(&a).await.unwrap();
        backend.write_cell(&a, &put(Expected::Any, "x")).await.unwrap();
        node.write_cell(&a, &put(Expected::Any, "x")).await.unwrap();
    };
    // The server learns the scripts.
    all().await;
    let before = (operator.calls("evalsha").await, operator.calls("eval").await);
    all().await;
    assert_eq!((operator.calls("evalsha").await, operator.calls("eval").await), (before.0 + 3, before.1));
}

/// `SCAN` shows some hundred keys at a time, and a page of one cell ends with the step that has shown it.
#[tokio::test]
async fn cells_of_a_full_server_are_listed_over_many_pages() {
    const MANY: usize = 1000;
    let server = own(&[]).await;
    let client = client(&server, LONG).await;
    for number in 0..MANY {
        let _ =
            written(client.write_cell(&cell(&format!("many/{number}")), &put(Expected::Any, b"here")).await);
    }
    let of = QueuePrefix::new("latchwork", Kind::Value, "many/").unwrap();
    let (mut listed, mut pages, mut after) = (BTreeSet::new(), 0, None);
    loop {
        let page = soon(client.cells(&of, after.as_deref(), 1)).await.unwrap();
        listed.extend(page.cells.into_iter().map(|listed| listed.cell.name().to_owned()));
        pages += 1;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(listed.len(), MANY);
    assert!((5..=MANY / 20).contains(&pages), "{pages} pages");
}
