use std::sync::Arc;

use crate::common::{ask, etcdctl, field, keys, metric, queue, served, soon, value};
use etcd_client::{Client, TxnOp};
use latchwork_conformance::actions::entered;
use latchwork_conformance::errors::{fails, is_lost, refuses};
use latchwork_conformance::servers::Server;
use latchwork_core::backend::{EntryPage, Join, Joined, KeysWith, Leave, Node, Patience, QueueEntry};
use latchwork_core::{Claim, Coordinator, ErrorKind, Kind, LostReason, QueuePrefix};

async fn with_data(client: &Coordinator, kind: Kind, claim: Claim, data: &str) -> Arc<dyn Node> {
    let limit = matches!(claim, Claim::Permits(_)).then_some(2);
    let join = Join { data: data.as_bytes().into(), ..ask(kind, claim, limit, Patience::Wait) };
    entered(soon(client.backend().join(&join)).await).1
}

async fn write(node: &Arc<dyn Node>, data: &str) {
    soon(node.write_data(&data.as_bytes().into())).await.unwrap();
}

async fn list(client: &Coordinator, kind: Kind) -> Vec<QueueEntry> {
    soon(client.backend().list(&queue(kind), EntryPage::new(0, 100))).await.unwrap()
}

async fn data(client: &Coordinator, kind: Kind) -> Vec<(String, bool)> {
    let listed = list(client, kind).await;
    let text = |entry: &QueueEntry| String::from_utf8(entry.data.to_vec()).unwrap();
    listed.iter().map(|entry| (text(entry), entry.admitted)).collect()
}

fn shown(data: &str, admitted: bool) -> (String, bool) {
    (data.to_owned(), admitted)
}

async fn key_of(server: &Server, kind: Kind, node: &Arc<dyn Node>) -> String {
    let prefix = format!("latchwork/{}/a/", kind.as_str());
    for key in keys(server, &prefix).await {
        if field(server, &key, "CreateRevision").await == Some(node.state().sequence()) {
            return key;
        }
    }
    panic!("no key has the create revision of the node");
}

async fn leave(node: &Arc<dyn Node>) {
    assert_eq!(soon(node.leave()).await.unwrap(), Leave::Removed);
}

#[tokio::test]
async fn late_data_write_does_not_reach_a_recreated_node() {
    let (server, client) = served("").await;
    for (kind, claim) in [(Kind::Group, Claim::Shared), (Kind::Semaphore, Claim::Permits(1))] {
        let node = with_data(&client, kind, claim, "first").await;
        let key = key_of(&server, kind, &node).await;
        let stored = value(&server, &key).await;
        assert_eq!(
            stored.contains(r#""data":"first""#),
            kind == Kind::Group,
            "an operator can read the data: {stored}"
        );
        etcdctl(&server, &["del", &key]).await;
        etcdctl(&server, &["put", &key, &stored]).await;
        is_lost(soon(node.write_data(&b"late"[..].into())).await, LostReason::Revoked);
        assert_eq!(node.state().lost(), Some(LostReason::Revoked), "the holder is notified");
        assert_eq!(value(&server, &key).await, stored, "the new node of the same name is unchanged");
        // Separate data of this name belongs to an earlier node.
        let kept = if kind == Kind::Group { "first" } else { "" };
        assert_eq!(data(&client, kind).await, [shown(kept, true)]);
        etcdctl(&server, &["del", &key]).await;
    }
    client.close().await.unwrap();
    assert_eq!(keys(&server, "latchwork/data/").await, [""; 0], "the data ends with the lease");
    let client = crate::common::client(&server, "").await;
    let node = with_data(&client, Kind::Group, Claim::Shared, "").await;
    let written = value(&server, &key_of(&server, Kind::Group, &node).await).await;
    assert!(!written.contains("data"), "a node without data has the layout of earlier versions");
}

/// The number of writes of a key says which nodes are admitted.
#[tokio::test]
async fn data_sets_no_mark_of_permits() {
    let (server, client) = served("").await;
    let permit = async |data: &str| with_data(&client, Kind::Semaphore, Claim::Permits(1), data).await;
    let (a, b, c, d) = (permit("a").await, permit("b").await, permit("c").await, permit("").await);
    write(&c, "c waits").await;
    write(&d, "d waits").await;
    let c_key = key_of(&server, Kind::Semaphore, &c).await;
    assert_eq!(field(&server, &c_key, "Version").await, Some(1));
    leave(&a).await;
    soon(c.admitted()).await.unwrap();
    soon(async { while field(&server, &c_key, "Version").await != Some(2) {} }).await;
    assert_eq!(data(&client, Kind::Semaphore).await[1], shown("c waits", true));
    for node in [b, c, d] {
        leave(&node).await;
    }
    assert_eq!(keys(&server, "latchwork/data/").await, [""; 0], "the data is deleted with its node");
}

#[tokio::test]
async fn data_key_goes_with_a_revoked_or_abandoned_node() {
    let (server, client) = served("").await;
    let backend = client.backend();
    let node = with_data(&client, Kind::Semaphore, Claim::Permits(2), "revoked").await;
    assert_eq!(keys(&server, "latchwork/data/semaphore/a/").await.len(), 1);
    assert!(soon(backend.revoke(&queue(Kind::Semaphore), node.state().sequence())).await.unwrap());
    assert_eq!(keys(&server, "latchwork/data/").await, [""; 0]);
    let data: Arc<[u8]> = b"abandoned"[..].into();
    let join = Join { data, ..ask(Kind::RwLock, Claim::Exclusive, None, Patience::Wait) };
    let Joined::Admitted(_node) = soon(backend.join(&join)).await.unwrap() else {
        panic!("the lock is free")
    };
    assert_eq!(keys(&server, "latchwork/data/rwlock/a/").await.len(), 1);
    soon(backend.abandon(&Join { repeated: true, ..join })).await.unwrap();
    assert_eq!(keys(&server, "latchwork/data/").await, [""; 0]);
    client.close().await.unwrap();
}

async fn plant(program: &mut Client, keys: impl IntoIterator<Item = String>) {
    let keys: Vec<_> = keys.into_iter().collect();
    for some in keys.chunks(100) {
        let puts: Vec<_> = some.iter().map(|key| TxnOp::put(key.clone(), "", None)).collect();
        program.txn(etcd_client::Txn::new().and_then(puts)).await.unwrap();
    }
}

fn nodes(queue: &str, count: usize) -> impl Iterator<Item = String> {
    (0..count).map(move |node| format!("latchwork/mutex/{queue}/{node:x}-{node:032x}"))
}

async fn all(server: &Server, client: &Coordinator, prefix: &str, most: usize) -> (Vec<String>, usize, u64) {
    const RANGES: &str = r#"grpc_server_started_total{grpc_method="Range","#;
    let of = QueuePrefix::new("latchwork", Kind::Mutex, prefix).unwrap();
    let before = metric(server, RANGES).await;
    let (mut found, mut pages, mut after) = (Vec::new(), 0, None);
    loop {
        let page =
            soon(client.backend().list_keys(KeysWith::Nodes, &of, after.as_deref(), most)).await.unwrap();
        assert!(page.items.len() <= most && (page.next.is_none() || !page.items.is_empty()), "{page:?}");
        found.extend(page.items.iter().map(|key| key.address.name().to_owned()));
        pages += 1;
        assert!(pages <= 100, "the pages do not end");
        match page.next {
            Some(next) => after = Some(next),
            None => return (found, pages, metric(server, RANGES).await - before),
        }
    }
}

#[tokio::test]
async fn listing_of_many_or_long_queues_takes_few_requests() {
    let (server, client) = served("").await;
    let mut program = Client::connect([server.addr()], None).await.unwrap();
    let names: Vec<_> = (0..1000).map(|number| format!("q{number:03}")).collect();
    for name in &names {
        plant(&mut program, nodes(name, 3)).await;
    }
    let (found, pages, requests) = all(&server, &client, "q", 100).await;
    assert_eq!((&found, pages), (&names, 10));
    println!("1,000 queues of 3 nodes in pages of 100 took {requests} requests");
    assert!(requests <= 30, "{requests}");
    let (found, pages, requests) = all(&server, &client, "q", 5000).await;
    assert_eq!((&found, pages), (&names, 1));
    println!("and in one page {requests}");
    assert!(requests <= 4, "{requests}");
    assert_eq!(all(&server, &client, "q99", 3).await.0, names[990..]);
    for long in ["long", "longer"] {
        plant(&mut program, nodes(long, 5000)).await;
    }
    let (found, _, requests) = all(&server, &client, "", 5000).await;
    assert_eq!((found.len(), &found[0], &found[1]), (1002, &"long".to_owned(), &"longer".to_owned()));
    assert!(requests <= 7, "{requests}");
    client.close().await.unwrap();
}

#[tokio::test]
async fn foreign_keys_list_no_queue_and_hide_no_queue() {
    let (server, client) = served("").await;
    let mut program = Client::connect([server.addr()], None).await.unwrap();
    let foreign = |queue: &'static str, count: usize| {
        (0..count).map(move |number| format!("latchwork/mutex/{queue}/!{number}"))
    };
    plant(&mut program, foreign("a", 3000).chain(nodes("a", 1))).await;
    plant(&mut program, foreign("b", 3000)).await;
    for odd in ["%2f", "b b", "%zz", "%", ""] {
        plant(&mut program, nodes(odd, 1)).await;
    }
    plant(&mut program, ["latchwork/mutex/c".to_owned(), "latchwork/mutex".to_owned()]).await;
    plant(&mut program, nodes("c-", 1).chain(nodes("c", 2)).chain(nodes("c.", 2)).chain(nodes("c0", 1)))
        .await;
    program.put([&b"latchwork/mutex/c\xff/"[..], b"x"].concat(), "", None).await.unwrap();
    for most in [1, 2, 1000] {
        let (found, ..) = all(&server, &client, "", most).await;
        assert_eq!(found, ["a", "c-", "c.", "c", "c0"], "{most}");
        assert_eq!(all(&server, &client, "c", most).await.0, ["c-", "c.", "c", "c0"]);
    }
    let of = QueuePrefix::new("latchwork", Kind::Mutex, "c").unwrap();
    for never in ["a", "c/", "%2f", ""] {
        refuses(soon(client.backend().list_keys(KeysWith::Nodes, &of, Some(never), 9)).await, "after");
    }
    client.close().await.unwrap();
    let answer = client.backend().list_keys(KeysWith::Nodes, &of, None, 9).await;
    fails(answer, ErrorKind::Closed, "the client is closed");
}
