use std::sync::Arc;

use crate::common::{
    ask, at, cell, client, config, contains, etcdctl, field, join, keys, lease_of, login_config, proxied,
    served, server, server_with_users, soon, write_cell,
};
use latchwork_conformance::cell_actions::{deletion, lasting, put, written};
use latchwork_conformance::errors::{fails, refuses};
use latchwork_conformance::proxy::{Direction, Proxy};
use latchwork_conformance::servers::Options;
use latchwork_core::backend::{CellWrite, CellWritten, Close, Joined, Node, Patience, VersionedValue};
use latchwork_core::{
    Address, CellLife, Claim, Coordinator, Error, ErrorKind, Expected, Key, Kind, LostReason, Version,
};

fn ephemeral(expected: Expected, value: &str) -> CellWrite {
    lasting(expected, value, CellLife::Lease)
}

async fn write(client: &Coordinator, cell: &Address, write: &CellWrite) -> CellWritten {
    write_cell(client, cell, write).await.unwrap()
}

async fn set(client: &Coordinator, cell: &Address, expected: Expected, value: &str) -> Version {
    written(write_cell(client, cell, &put(expected, value)).await)
}

async fn read(client: &Coordinator, cell: &Address) -> Option<VersionedValue> {
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

fn names_a(chunk: &[u8]) -> bool {
    contains(chunk, "latchwork/value/a")
}

/// The client did not know about the end when it sent the write.
#[tokio::test]
async fn a_write_of_a_hold_that_lands_after_another_node_took_its_name_is_not_made() {
    let (server, other) = served("").await;
    let (proxy, client) = proxied(&server, "").await;
    let a = cell("a");
    let node = hold(&client).await;
    let version = set(&other, &a, Expected::Any, "before").await;
    let asked = put(Expected::Version(version), "late");
    let mut late = proxy.park_request(names_a);
    let (answer, caught) = tokio::join!(soon(node.write_cell(&a, &asked)), soon(late.caught()));
    caught.unwrap();
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    let node_key = keys(&server, "latchwork/mutex/a/").await.remove(0);
    etcdctl(&server, &["del", &node_key]).await;
    etcdctl(&server, &["put", &node_key, "by hand"]).await;
    soon(late.deliver()).await.unwrap();
    assert_eq!(text(&other, &a).await.as_deref(), Some("before"));
}

#[tokio::test]
async fn a_write_to_a_closed_port_is_surely_not_made() {
    let server = server().await;
    let (proxy, client) = proxied(&server, "request_timeout=3s&ttl=60s").await;
    let a = cell("a");
    drop(proxy);
    assert_eq!(client.backend().read_cell(&a).await.unwrap_err().kind(), ErrorKind::Unavailable);
    let answer = write_cell(&client, &a, &put(Expected::Any, "refused")).await;
    fails(answer, ErrorKind::Unavailable, "nobody listens");
}

#[tokio::test]
async fn a_cell_at_an_exact_name_differs_from_a_namespace_cell_of_that_key() {
    let (server, client) = served("").await;
    let mut cells = vec![cell("a"), Address::new("b", Kind::Value, "a").unwrap()];
    cells.extend(["a", "/jobs/x", "latchwork/value/a"].map(|name| cell(Key::exact(name))));
    cells.push(Address::new("", Kind::Counter, Key::exact("/jobs/x")).unwrap());
    for (number, cell) in cells.iter().enumerate() {
        set(&client, cell, Expected::Absent, &number.to_string()).await;
    }
    for (number, cell) in cells.iter().enumerate() {
        assert_eq!(text(&client, cell).await, Some(number.to_string()), "{cell:?}");
        write(&client, cell, &deletion(Expected::Any)).await;
    }
    assert_eq!(keys(&server, "").await, [""; 0], "nothing else");
}

#[tokio::test]
async fn a_cell_is_in_no_queue_and_no_queue_is_in_its_way() {
    let server = server().await;
    let (one, two) = (client(&server, "").await, client(&server, "namespace=b").await);
    let of_two = Address::new("b", Kind::Value, "a").unwrap();
    set(&two, &of_two, Expected::Absent, "kept").await;
    // Its prefix contains the cells of the other namespace.
    let mutex = one.mutex(Key::exact("b/value")).unwrap();
    let held = soon(mutex.try_acquire()).await.unwrap().expect("the lock is free");
    assert_eq!(mutex.queue().first(9).await.unwrap().len(), 1);
    assert_eq!(text(&two, &of_two).await.as_deref(), Some("kept"));
    held.release().await.unwrap();
    refuses(two.mutex(Key::exact("b/value")), "key");
    one.close().await.unwrap();
    two.close().await.unwrap();
}

#[tokio::test]
async fn a_key_with_a_long_value_is_a_conflict_and_a_short_one_is_a_cell() {
    let (server, client) = served("").await;
    let (a, key) = (cell("a"), "latchwork/value/a");
    let is_conflict = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert!(error.to_string().contains(key), "{error}");
    };
    etcdctl(&server, &["put", key, &"x".repeat(4097)]).await;
    is_conflict(client.backend().read_cell(&a).await.unwrap_err());
    is_conflict(write_cell(&client, &a, &put(Expected::Absent, "no")).await.unwrap_err());
    assert_eq!(write(&client, &a, &deletion(Expected::Any)).await, CellWritten::Deleted { was_there: true });
    etcdctl(&server, &["put", key, "by hand"]).await;
    let by_hand = read(&client, &a).await.unwrap();
    assert_eq!(&*by_hand.value, b"by hand");
    set(&client, &a, Expected::Version(by_hand.version), "by a client").await;
    client.close().await.unwrap();
}

#[tokio::test]
async fn user_without_permission_for_a_cell_gets_forbidden() {
    let server = server_with_users(Options::new()).await;
    let client = at(&login_config(&server, "app:hunter2", "")).await.unwrap();
    let (ours, exact) = (cell("a"), cell(Key::exact("a")));
    set(&client, &ours, Expected::Absent, "may").await;
    let mut watch = client.backend().watch_cell(&ours);
    soon(watch.changed()).await.unwrap();
    let mut forbidden = client.backend().watch_cell(&exact);
    fails(client.backend().read_cell(&exact).await, ErrorKind::Forbidden, "another prefix");
    let written = write_cell(&client, &exact, &put(Expected::Any, "no")).await;
    fails(written, ErrorKind::Forbidden, "another prefix");
    fails(soon(forbidden.changed()).await, ErrorKind::Forbidden, "another prefix");
    set(&client, &ours, Expected::Any, "again").await;
    soon(watch.changed()).await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn the_nodes_and_the_ephemeral_cells_of_a_client_are_on_one_lease() {
    let (server, client) = served("").await;
    let a = cell("a");
    let node = hold(&client).await;
    let of_client = u64::from_str_radix(&lease_of(&server, "a").await, 16).unwrap();
    let lease = async || field(&server, "latchwork/value/a", "Lease").await;
    write(&client, &a, &ephemeral(Expected::Absent, "ephemeral")).await;
    assert_eq!(lease().await, Some(of_client));
    set(&client, &a, Expected::Any, "stays").await;
    assert_eq!(lease().await, Some(0));
    soon(node.write_cell(&a, &ephemeral(Expected::Any, "held"))).await.unwrap();
    assert_eq!(lease().await, Some(of_client));
    client.close().await.unwrap();
    assert_eq!(keys(&server, "").await, [""; 0]);
}

/// A registered client also learns of the end by its registration, and writes nothing until it is registered
/// again.
#[tokio::test]
async fn a_write_on_a_lease_that_was_revoked_is_not_made_and_the_next_one_opens_another() {
    let (server, other) = served("").await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let mut config = config(&server, "ttl=60s");
    config.hosts = vec![proxy.addr().to_string()];
    let backend = latchwork_etcd::connector().connect(&config).await.unwrap();
    let a = cell("a");
    let mut before = None;
    for is_held in [false, true] {
        let asked = ask(Kind::Mutex, Claim::Exclusive, None, Patience::Wait);
        let Joined::Admitted(node) = soon(backend.join(&asked)).await.unwrap() else {
            panic!("the lock is free")
        };
        let lease = lease_of(&server, "a").await;
        assert_ne!(before.replace(lease.clone()), Some(lease.clone()));
        written(soon(backend.write_cell(&a, &ephemeral(Expected::Absent, "before"))).await);
        // The answer to the write reports the end, while the proxy holds the event back.
        proxy.hold(Direction::ToClient);
        etcdctl(&server, &["lease", "revoke", &lease]).await;
        assert_eq!(text(&other, &a).await, None, "the cell ended with its lease");
        let asked = ephemeral(Expected::Absent, "after");
        let mut sent = proxy.request(names_a);
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
            // The server compares before it puts a key on the lease, so this answer is only about the node.
            assert_eq!(error.lost_reason(), Some(LostReason::Revoked), "{error}");
            error = soon(backend.write_cell(&a, &asked)).await.unwrap_err();
        }
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(text(&other, &a).await, None, "the cell was not written");
        written(soon(backend.write_cell(&a, &asked)).await);
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
    let (server, other) = served("").await;
    let (proxy, client) = proxied(&server, "").await;
    let a = cell("a");
    let asked = ephemeral(Expected::Absent, "late");
    let node = hold(&client).await;
    let lease = lease_of(&server, "a").await;
    let mut late = proxy.park_request(names_a);
    let (answer, caught) = tokio::join!(write_cell(&client, &a, &asked), soon(late.caught()));
    caught.unwrap();
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    etcdctl(&server, &["lease", "revoke", &lease]).await;
    soon(late.deliver()).await.unwrap();
    assert_eq!(text(&other, &a).await, None);
    drop(node);
}
