//! Cells: writes under a condition, writes of a hold, lost and late requests, and other programs.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{
    ask, client, config, etcdctl, field, join, keys, lease_of, login_config, proxied, require_log_in, server,
    soon, until_keys,
};
use futures_util::future::join_all;
use latchwork_conformance::proxy::{Direction, Proxy};
use latchwork_conformance::servers::Server;
use latchwork_core::contracts::{
    Cell, CellLife, CellWrite, CellWritten, Close, Expected, Joined, Node, Patience, Version,
};
use latchwork_core::decide::Claim;
use latchwork_core::{Address, Coordinator, Error, ErrorKind, Kind, LostReason, Name, Result, connect};

fn cell(name: impl Into<Name>) -> Address {
    Address::new("latchwork", Kind::Value, name).unwrap()
}

fn put(expected: Expected, value: impl AsRef<[u8]>) -> CellWrite {
    CellWrite { expected, value: Some(value.as_ref().into()), life: CellLife::Stays }
}

fn ephemeral(expected: Expected, value: &str) -> CellWrite {
    CellWrite { life: CellLife::Lease, ..put(expected, value) }
}

fn deletion(expected: Expected) -> CellWrite {
    CellWrite { expected, value: None, life: CellLife::Stays }
}

async fn ask_for(client: &Coordinator, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
    soon(client.backend().write_cell(cell, write)).await
}

async fn write(client: &Coordinator, cell: &Address, write: &CellWrite) -> CellWritten {
    ask_for(client, cell, write).await.unwrap()
}

/// Makes a write that must be made.
async fn written(client: &Coordinator, cell: &Address, expected: Expected, value: &str) -> Version {
    match write(client, cell, &put(expected, value)).await {
        CellWritten::Written(version) => version,
        other => panic!("{other:?}"),
    }
}

async fn read(client: &Coordinator, cell: &Address) -> Option<Cell> {
    soon(client.backend().read_cell(cell)).await.unwrap()
}

async fn text(client: &Coordinator, cell: &Address) -> Option<String> {
    read(client, cell).await.map(|cell| String::from_utf8(cell.value.to_vec()).unwrap())
}

async fn hold(client: &Coordinator) -> Arc<dyn Node> {
    let (admitted, node) = join(client, Kind::Mutex, Claim::Exclusive, None).await;
    assert!(admitted);
    node
}

fn names(text: &'static str) -> impl Fn(&[u8]) -> bool + Send + 'static {
    move |chunk| chunk.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn a_write_is_made_when_the_cell_is_as_expected_and_else_answers_the_cell() {
    let server = server().await;
    let client = client(&server, "").await;
    let a = cell("a");
    assert_eq!(read(&client, &a).await, None);
    let never = Expected::Version(Version::new(1, 1));
    assert_eq!(write(&client, &a, &put(never, "no")).await, CellWritten::Refused(None));
    assert_eq!(write(&client, &a, &deletion(never)).await, CellWritten::Refused(None));
    for expected in [Expected::Any, Expected::Absent] {
        let nothing = CellWritten::Deleted { was_there: false };
        assert_eq!(write(&client, &a, &deletion(expected)).await, nothing, "{expected:?}");
    }
    // Any bytes are a value, also none.
    let every: Vec<u8> = (0..4096).map(|at| at as u8).collect();
    let mut last = None;
    for value in [&b""[..], b"\0", &every] {
        let expected = last.map_or(Expected::Absent, Expected::Version);
        let answer = write(&client, &a, &put(expected, value)).await;
        let CellWritten::Written(version) = answer else { panic!("{answer:?}") };
        let now = Cell { version, value: value.into() };
        assert_eq!(read(&client, &a).await, Some(now.clone()));
        for stale in [Some(Expected::Absent), last.map(Expected::Version)].into_iter().flatten() {
            for refused in [put(stale, "no"), deletion(stale)] {
                let answer = write(&client, &a, &refused).await;
                assert_eq!(answer, CellWritten::Refused(Some(now.clone())), "{refused:?}");
            }
        }
        last = Some(version);
    }
    let version = written(&client, &a, Expected::Any, "over it").await;
    assert_eq!(
        write(&client, &a, &deletion(Expected::Version(version))).await,
        CellWritten::Deleted { was_there: true }
    );
    assert_eq!(read(&client, &a).await, None);
    written(&client, &a, Expected::Any, "again").await;
    assert_eq!(write(&client, &a, &deletion(Expected::Any)).await, CellWritten::Deleted { was_there: true });
    assert_eq!(keys(&server, "latchwork/").await, [""; 0]);
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_version_never_comes_again_after_a_deletion_or_the_same_value() {
    let server = server().await;
    let client = client(&server, "").await;
    let a = cell("a");
    let mut versions: Vec<Version> = Vec::new();
    for _ in 0..3 {
        versions.push(written(&client, &a, Expected::Absent, "same").await);
        versions.push(written(&client, &a, Expected::Any, "same").await);
        for old in &versions[..versions.len() - 1] {
            let late = put(Expected::Version(*old), "late");
            assert!(matches!(write(&client, &a, &late).await, CellWritten::Refused(Some(_))));
        }
        write(&client, &a, &deletion(Expected::Any)).await;
    }
    assert!(versions.is_sorted_by(|one, next| one.number() < next.number()), "{versions:?}");
    client.close().await.unwrap();
}

#[tokio::test]
async fn of_racing_writers_each_success_counts_once() {
    const EACH: u64 = 20;
    let server = server().await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(client(&server, "").await);
    }
    let a = cell("a");
    let counts = clients.iter().map(|client| async {
        let mut made = 0;
        let mut known = read(client, &a).await;
        while made < EACH {
            let count = known
                .as_ref()
                .map_or(0, |cell| std::str::from_utf8(&cell.value).unwrap().parse::<u64>().unwrap());
            let expected = known.as_ref().map_or(Expected::Absent, |cell| Expected::Version(cell.version));
            let value = (count + 1).to_string();
            match write(client, &a, &put(expected, &value)).await {
                CellWritten::Written(version) => {
                    made += 1;
                    known = Some(Cell { version, value: value.as_bytes().into() });
                }
                CellWritten::Refused(now) => known = now,
                other => panic!("{other:?}"),
            }
        }
        made
    });
    let made: u64 = join_all(counts).await.into_iter().sum();
    assert_eq!(text(&clients[0], &a).await, Some(made.to_string()));
    assert_eq!(field(&server, "latchwork/value/a", "Version").await, Some(made), "writes of the key");
}

#[tokio::test]
async fn a_hold_writes_while_its_node_stands_and_not_once_it_is_gone() {
    let server = server().await;
    let client = client(&server, "").await;
    let a = cell("a");
    let node = hold(&client).await;
    let held = async |write| soon(node.write_cell(&a, &write)).await;
    let answer = held(put(Expected::Absent, "one")).await.unwrap();
    let CellWritten::Written(version) = answer else { panic!("{answer:?}") };
    let now = Cell { version, value: b"one"[..].into() };
    let refused = held(put(Expected::Absent, "no")).await.unwrap();
    assert_eq!(refused, CellWritten::Refused(Some(now)), "the node stands");
    let node_key = keys(&server, "latchwork/mutex/a/").await.remove(0);
    etcdctl(&server, &["del", &node_key]).await;
    for lost in [put(Expected::Any, "no"), put(Expected::Absent, "no"), deletion(Expected::Version(version))]
    {
        let error = held(lost).await.unwrap_err();
        assert_eq!(error.lost_reason(), Some(LostReason::Revoked), "{error}");
    }
    assert_eq!(node.state().lost(), Some(LostReason::Revoked), "its holder hears of it");
    // Another node of that very name.
    etcdctl(&server, &["put", &node_key, "by hand"]).await;
    assert!(held(put(Expected::Any, "no")).await.is_err());
    assert_eq!(text(&client, &a).await.as_deref(), Some("one"));
    client.close().await.unwrap();
    let error = node.write_cell(&a, &put(Expected::Any, "no")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
}

/// The condition is decided on the server: the client knew nothing of the end when it asked.
#[tokio::test]
async fn a_write_of_a_hold_that_lands_after_its_end_is_not_made() {
    let server = server().await;
    let other = client(&server, "").await;
    for end in ["removed", "lease", "another of its name"] {
        let (proxy, client) = proxied(&server, "").await;
        let a = cell("a");
        let node = hold(&client).await;
        let version = written(&other, &a, Expected::Any, "before").await;
        let asked = put(Expected::Version(version), "late");
        let mut late = proxy.park_request(names("latchwork/value/a"));
        let (answer, caught) = tokio::join!(soon(node.write_cell(&a, &asked)), soon(late.caught()));
        caught.unwrap();
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
        let lease = lease_of(&server, "a").await;
        let node_key = keys(&server, "latchwork/mutex/a/").await.remove(0);
        if end == "lease" {
            etcdctl(&server, &["lease", "revoke", &lease]).await;
        } else {
            etcdctl(&server, &["del", &node_key]).await;
        }
        if end == "another of its name" {
            etcdctl(&server, &["put", &node_key, "by hand"]).await;
        }
        soon(late.deliver()).await.unwrap();
        assert_eq!(text(&other, &a).await.as_deref(), Some("before"), "{end}");
        etcdctl(&server, &["del", &node_key]).await;
        client.close().await.unwrap();
        until_keys(&server, "latchwork/mutex/", 0).await;
    }
    other.close().await.unwrap();
}

#[tokio::test]
async fn a_write_without_an_answer_is_unknown_and_was_made_once() {
    let server = server().await;
    let other = client(&server, "").await;
    let (proxy, client) = proxied(&server, "").await;
    let node = hold(&client).await;
    let a = cell("a");
    for is_held in [false, true] {
        let before = written(&other, &a, Expected::Any, "before").await;
        let mut lost = proxy.drop_reply_to(names("latchwork/value/a"));
        let write = put(Expected::Version(before), "made");
        let answer = match is_held {
            true => soon(node.write_cell(&a, &write)).await,
            false => ask_for(&client, &a, &write).await,
        };
        soon(lost.fired()).await.unwrap();
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::OutcomeUnknown, "held: {is_held}");
        // What was lost may have been no reply: the server is about to make it then.
        let made = soon(async {
            loop {
                let found = read(&other, &a).await.unwrap();
                if found.version != before {
                    return found;
                }
            }
        })
        .await;
        assert_eq!(&*made.value, b"made");
        // Once: nothing has written it since.
        let after = written(&other, &a, Expected::Version(made.version), "after").await;
        assert_eq!(read(&client, &a).await.map(|cell| cell.version), Some(after));
    }
    node.leave().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_late_write_with_an_old_version_does_nothing() {
    let server = server().await;
    let other = client(&server, "").await;
    let (proxy, client) = proxied(&server, "").await;
    let a = cell("a");
    for is_deletion in [false, true] {
        let before = Expected::Version(written(&other, &a, Expected::Any, "before").await);
        let asked = if is_deletion { deletion(before) } else { put(before, "late") };
        let mut late = proxy.park_request(names("latchwork/value/a"));
        let (answer, caught) = tokio::join!(ask_for(&client, &a, &asked), soon(late.caught()));
        caught.unwrap();
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
        // The same value again is another version.
        write(&other, &a, &deletion(before)).await;
        written(&other, &a, Expected::Absent, "before").await;
        soon(late.deliver()).await.unwrap();
        assert_eq!(text(&other, &a).await.as_deref(), Some("before"), "deletion: {is_deletion}");
    }
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_silent_server_costs_one_request_timeout_and_a_refused_connection_makes_nothing() {
    let server = server().await;
    let (proxy, client) = proxied(&server, "request_timeout=3s&ttl=60s").await;
    let a = cell("a");
    proxy.hold(Direction::ToClient);
    let begun = std::time::Instant::now();
    assert_eq!(client.backend().read_cell(&a).await.unwrap_err().kind(), ErrorKind::Unavailable);
    let unknown = ask_for(&client, &a, &put(Expected::Absent, "silent")).await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::OutcomeUnknown, "{unknown}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    drop(proxy);
    // The first request after the end may find the broken connection.
    assert_eq!(client.backend().read_cell(&a).await.unwrap_err().kind(), ErrorKind::Unavailable);
    let refused = ask_for(&client, &a, &put(Expected::Any, "refused")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    let stored = etcdctl(&server, &["get", "--print-value-only", "latchwork/value/a"]).await;
    assert_eq!(stored.trim(), "silent");
}

#[tokio::test]
async fn odd_keys_and_kinds_stay_apart_and_exact_names_are_shared_by_namespaces() {
    let server = server().await;
    let (one, two) = (client(&server, "").await, client(&server, "namespace=b").await);
    let long = "x".repeat(255);
    let odd = ["a", "a/b", "a/", "/", "{a}", "\0", "ä☃", "%2F", "..", &long];
    let mut cells: Vec<_> = odd.iter().map(|name| cell(*name)).collect();
    cells.extend(
        [Kind::Counter, Kind::Ids, Kind::Latch].map(|kind| Address::new("latchwork", kind, "a").unwrap()),
    );
    cells.push(Address::new("b", Kind::Value, "a").unwrap());
    cells.extend(["a", "/jobs/x", "latchwork/value/a"].map(|name| cell(Address::exact(name))));
    cells.push(Address::new("", Kind::Counter, Address::exact("/jobs/x")).unwrap());
    for (number, cell) in cells.iter().enumerate() {
        written(&one, cell, Expected::Absent, &number.to_string()).await;
    }
    for (number, cell) in cells.iter().enumerate() {
        assert_eq!(text(&two, cell).await, Some(number.to_string()), "{cell:?}");
    }
    let shared = Address::new("b", Kind::Value, Address::exact("/jobs/x")).unwrap();
    assert_eq!(text(&two, &shared).await, text(&one, &cell(Address::exact("/jobs/x"))).await);
    for cell in &cells {
        assert_eq!(
            write(&one, cell, &deletion(Expected::Any)).await,
            CellWritten::Deleted { was_there: true }
        );
    }
    assert_eq!(keys(&server, "").await, [""; 0], "nothing else");
}

#[tokio::test]
async fn a_cell_is_in_no_queue_and_no_queue_is_in_its_way() {
    let server = server().await;
    let (one, two) = (client(&server, "").await, client(&server, "namespace=b").await);
    let of_two = Address::new("b", Kind::Value, "a").unwrap();
    written(&two, &of_two, Expected::Absent, "kept").await;
    // Its prefix has the cells of the other namespace.
    let mutex = one.mutex(Address::exact("b/value")).unwrap();
    let held = soon(mutex.try_acquire()).await.unwrap().expect("it is free");
    assert_eq!(mutex.queue().first(9).await.unwrap().len(), 1);
    assert_eq!(text(&two, &of_two).await.as_deref(), Some("kept"));
    held.release().await.unwrap();
    let refused = two.mutex(Address::exact("b/value")).unwrap_err();
    assert_eq!(refused.argument(), Some("key"), "{refused}");
    one.close().await.unwrap();
    two.close().await.unwrap();
}

#[tokio::test]
async fn a_key_with_a_long_value_is_a_conflict_and_a_short_one_is_a_cell() {
    let server = server().await;
    let client = client(&server, "").await;
    let (a, key) = (cell("a"), "latchwork/value/a");
    let is_conflict = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert!(error.to_string().contains(key), "{error}");
    };
    etcdctl(&server, &["put", key, &"x".repeat(4097)]).await;
    is_conflict(client.backend().read_cell(&a).await.unwrap_err());
    is_conflict(ask_for(&client, &a, &put(Expected::Absent, "no")).await.unwrap_err());
    assert_eq!(write(&client, &a, &deletion(Expected::Any)).await, CellWritten::Deleted { was_there: true });
    etcdctl(&server, &["put", key, "by hand"]).await;
    let by_hand = read(&client, &a).await.unwrap();
    assert_eq!(&*by_hand.value, b"by hand");
    written(&client, &a, Expected::Version(by_hand.version), "by a client").await;
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_cell_outlives_its_client_and_a_closed_client_does_nothing() {
    let server = server().await;
    let (one, two) = (client(&server, "").await, client(&server, "").await);
    let a = cell("a");
    let node = hold(&one).await;
    soon(node.write_cell(&a, &put(Expected::Absent, "stays"))).await.unwrap();
    assert_eq!(field(&server, "latchwork/value/a", "Lease").await, Some(0));
    one.close().await.unwrap();
    until_keys(&server, "latchwork/mutex/", 0).await;
    assert_eq!(text(&two, &a).await.as_deref(), Some("stays"));
    for error in [
        one.backend().read_cell(&a).await.map(drop).unwrap_err(),
        ask_for(&one, &a, &put(Expected::Any, "no")).await.map(drop).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    }
}

#[tokio::test]
async fn a_user_without_permission_is_told_so() {
    let server: Server = server().await;
    require_log_in(&server).await;
    let config = login_config(&server, "app:hunter2", "");
    let client = connect(&[latchwork_etcd::connector()], &config).await.unwrap();
    // The role has the namespace and nothing else.
    let (ours, exact) = (cell("a"), cell(Address::exact("a")));
    written(&client, &ours, Expected::Absent, "may").await;
    let mut watch = client.backend().watch_cell(&ours);
    soon(watch.changed()).await.unwrap();
    let mut forbidden = client.backend().watch_cell(&exact);
    for error in [
        client.backend().read_cell(&exact).await.map(drop).unwrap_err(),
        ask_for(&client, &exact, &put(Expected::Any, "no")).await.map(drop).unwrap_err(),
        soon(forbidden.changed()).await.unwrap_err(),
    ] {
        assert!(error.kind() == ErrorKind::Forbidden, "{error}");
    }
    // The refusal costs the other watch its stream, and no news.
    written(&client, &ours, Expected::Any, "again").await;
    soon(watch.changed()).await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn the_last_write_decides_on_whose_lease_a_cell_is() {
    let server = server().await;
    let (one, two) = (client(&server, "").await, client(&server, "").await);
    let a = cell("a");
    let node = hold(&one).await;
    let of_one = u64::from_str_radix(&lease_of(&server, "a").await, 16).unwrap();
    let lease = async || field(&server, "latchwork/value/a", "Lease").await;
    write(&one, &a, &ephemeral(Expected::Absent, "one")).await;
    assert_eq!(lease().await, Some(of_one), "all of a client is on one lease");
    let answer = write(&two, &a, &ephemeral(Expected::Any, "two")).await;
    let CellWritten::Written(version) = answer else { panic!("{answer:?}") };
    let of_two = lease().await;
    assert!(of_two != Some(of_one) && of_two != Some(0), "{of_two:?}");
    // A refused write changes nothing.
    assert!(matches!(write(&one, &a, &put(Expected::Absent, "no")).await, CellWritten::Refused(Some(_))));
    assert_eq!(lease().await, of_two);
    written(&one, &a, Expected::Version(version), "stays").await;
    assert_eq!(lease().await, Some(0));
    let held = soon(node.write_cell(&a, &ephemeral(Expected::Any, "held"))).await.unwrap();
    assert!(matches!(held, CellWritten::Written(_)), "{held:?}");
    assert_eq!(lease().await, Some(of_one));
    node.leave().await.unwrap();
    assert_eq!(text(&two, &a).await.as_deref(), Some("held"), "it is on the client's lease");
    assert_eq!(write(&two, &a, &deletion(Expected::Any)).await, CellWritten::Deleted { was_there: true });
    for (writer, value) in [(&one, "one"), (&two, "two"), (&one, "one again")] {
        write(writer, &a, &ephemeral(Expected::Any, value)).await;
    }
    two.close().await.unwrap();
    assert_eq!(text(&one, &a).await.as_deref(), Some("one again"), "it was taken over");
    one.close().await.unwrap();
    assert_eq!(keys(&server, "").await, [""; 0]);
}

/// On the backend alone: a client that has entered is told of the end by its place among the clients
/// too, and writes nothing until it has another.
#[tokio::test]
async fn a_write_on_a_lease_that_was_revoked_is_not_made_and_the_next_one_opens_another() {
    let server = server().await;
    let other = client(&server, "").await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    // Its renewal is no help within this test.
    let mut config = config(&server, "ttl=60s");
    config.hosts = vec![proxy.addr().to_string()];
    let backend = latchwork_etcd::connector().connect(&config).await.unwrap();
    let a = cell("a");
    let mut before = None;
    for is_held in [false, true] {
        let asked = ask(Kind::Mutex, Claim::Exclusive, None, Patience::Wait);
        let Joined::Admitted(node) = soon(backend.join(&asked)).await.unwrap() else { panic!("it is free") };
        let lease = lease_of(&server, "a").await;
        assert_ne!(before.replace(lease.clone()), Some(lease.clone()));
        let made = soon(backend.write_cell(&a, &ephemeral(Expected::Absent, "before"))).await.unwrap();
        assert!(matches!(made, CellWritten::Written(_)), "{made:?}");
        // The client hears of the end by the answer to its write: the notice of its node's end waits
        // in the proxy until the server has that write.
        proxy.hold(Direction::ToClient);
        etcdctl(&server, &["lease", "revoke", &lease]).await;
        assert_eq!(text(&other, &a).await, None, "it went with its lease");
        let asked = ephemeral(Expected::Absent, "after");
        let mut sent = proxy.request(names("latchwork/value/a"));
        let writing = async {
            match is_held {
                true => node.write_cell(&a, &asked).await,
                false => backend.write_cell(&a, &asked).await,
            }
        };
        let until_sent = async {
            soon(sent.fired()).await.unwrap();
            assert_eq!(node.state().lost(), None, "the client knows of no end yet");
            proxy.resume();
        };
        let (answer, ()) = tokio::join!(soon(writing), until_sent);
        let mut error = answer.unwrap_err();
        if is_held {
            // The server compares before it puts anything on the lease, so this tells of the node alone.
            assert_eq!(error.lost_reason(), Some(LostReason::Revoked), "{error}");
            error = soon(backend.write_cell(&a, &asked)).await.unwrap_err();
        }
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(text(&other, &a).await, None, "it was not made");
        let next = soon(backend.write_cell(&a, &asked)).await.unwrap();
        assert!(matches!(next, CellWritten::Written(_)), "{next:?}");
        assert_eq!(text(&other, &a).await.as_deref(), Some("after"));
        assert_ne!(field(&server, "latchwork/value/a", "Lease").await, Some(0));
        assert_eq!(
            write(&other, &a, &deletion(Expected::Any)).await,
            CellWritten::Deleted { was_there: true }
        );
    }
    backend.close(Close::Orderly).await.unwrap();
}

#[tokio::test]
async fn a_late_write_on_a_lease_that_is_over_makes_nothing() {
    let server = server().await;
    let other = client(&server, "").await;
    let (proxy, client) = proxied(&server, "").await;
    let a = cell("a");
    let asked = ephemeral(Expected::Absent, "late");
    let node = hold(&client).await;
    let lease = lease_of(&server, "a").await;
    let mut late = proxy.park_request(names("latchwork/value/a"));
    let (answer, caught) = tokio::join!(ask_for(&client, &a, &asked), soon(late.caught()));
    caught.unwrap();
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    etcdctl(&server, &["lease", "revoke", &lease]).await;
    soon(late.deliver()).await.unwrap();
    assert_eq!(text(&other, &a).await, None);
    drop(node);
}
