use std::time::{Duration, Instant};

use crate::common::{
    cell, client, contains, etcdctl, keys, proxied, served, server, soon, until_keys, write_cell,
};
use latchwork_conformance::cell_actions::{lasting, written};
use latchwork_conformance::errors::fails;
use latchwork_conformance::proxy::Direction;
use latchwork_conformance::servers::Server;
use latchwork_core::{CellLife, Coordinator, ErrorKind, Expected, TimeToIdle};

const KEY: &str = "latchwork/value/a";

fn idle(seconds: u64) -> CellLife {
    CellLife::Idle(TimeToIdle::new(Duration::from_secs(seconds)).unwrap())
}

async fn write(client: &Coordinator, life: CellLife) {
    written(write_cell(client, &cell("a"), &lasting(Expected::Any, "here", life)).await);
}

async fn is_there(client: &Coordinator) -> bool {
    soon(client.backend().read_cell(&cell("a"))).await.unwrap().is_some()
}

async fn leases(server: &Server) -> Vec<i64> {
    let listed = etcdctl(server, &["lease", "list"]).await;
    let mut leases: Vec<_> = listed.lines().filter_map(|line| i64::from_str_radix(line, 16).ok()).collect();
    leases.sort_unstable();
    leases
}

async fn beside(server: &Server, known: &[i64]) -> Vec<i64> {
    leases(server).await.into_iter().filter(|lease| !known.contains(lease)).collect()
}

async fn granted(server: &Server, lease: i64) -> String {
    etcdctl(server, &["lease", "timetolive", &format!("{lease:x}"), "--keys"]).await
}

#[tokio::test]
async fn all_clients_share_one_lease_for_each_time_which_no_close_ends() {
    let (server, one) = served("").await;
    let two = client(&server, "").await;
    let sessions = leases(&server).await;
    write(&one, idle(60)).await;
    let own = beside(&server, &sessions).await;
    let [lease] = own[..] else { panic!("one lease: {own:?}") };
    let shown = granted(&server, lease).await;
    assert!(shown.contains("TTL(75s)") && shown.contains(KEY), "{shown}");
    assert!(is_there(&two).await);
    write(&two, idle(60)).await;
    assert_eq!(beside(&server, &sessions).await, [lease], "a reader and another writer need no lease");
    write(&two, idle(120)).await;
    let both = beside(&server, &sessions).await;
    assert_eq!(both.len(), 2);
    let other = both.into_iter().find(|other| *other != lease).expect("another");
    assert!(granted(&server, other).await.contains(KEY) && !granted(&server, lease).await.contains(KEY));
    one.close().await.unwrap();
    two.close().await.unwrap();
    assert_eq!(keys(&server, KEY).await, [KEY]);
}

#[tokio::test]
async fn cell_write_after_a_lease_revocation_uses_another_lease() {
    let (server, client) = served("").await;
    let sessions = leases(&server).await;
    for life in [idle(60), CellLife::Stays, idle(60)] {
        write(&client, life).await;
        for lease in beside(&server, &sessions).await {
            etcdctl(&server, &["lease", "revoke", &format!("{lease:x}")]).await;
        }
        let there = life == CellLife::Stays;
        assert_eq!(is_there(&client).await, there, "{life:?}");
        until_keys(&server, KEY, usize::from(there)).await;
    }
    write(&client, idle(60)).await;
    assert!(is_there(&client).await);
    assert_eq!(beside(&server, &sessions).await.len(), 1);
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_write_of_several_requests_ends_in_one_request_timeout() {
    let server = server().await;
    let (proxy, client) = proxied(&server, "ttl=30s&request_timeout=6s").await;
    let sessions = leases(&server).await;
    let begun = Instant::now();
    proxy.hold(Direction::ToClient);
    let writing = tokio::spawn({
        let client = client.clone();
        async move { write_cell(&client, &cell("a"), &lasting(Expected::Any, "here", idle(60))).await }
    });
    soon(async { while beside(&server, &sessions).await.is_empty() {} }).await;
    tokio::time::sleep(Duration::from_secs(4).saturating_sub(begun.elapsed())).await;
    let written = proxy.hold_reply_to(|chunk| contains(chunk, KEY));
    proxy.resume();
    fails(soon(writing).await.unwrap(), ErrorKind::OutcomeUnknown, "the reply is late");
    // Separate timeouts of the requests would take 10 s.
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    assert!(written.has_fired());
    proxy.resume();
    assert!(is_there(&client).await);
    client.close().await.unwrap();
}
