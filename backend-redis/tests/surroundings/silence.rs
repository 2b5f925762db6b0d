use std::time::{Duration, Instant};

use futures_util::future::join_all;
use latchwork_conformance::errors::fails;
use latchwork_conformance::proxy::{Direction, Proxy};
use latchwork_conformance::servers::Server;
use latchwork_core::{Coordinator, ErrorKind};

use crate::common::coordinators::user;
use crate::common::{PATIENCE, SHORT, is_script, outlive, own, says, soon};

async fn proxied(options: &str) -> (Server, Proxy, Coordinator) {
    let server = own(&[]).await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let client = user(&format!("redis://{}?{options}", proxy.addr())).await;
    (server, proxy, client)
}

#[tokio::test]
async fn silent_connection_is_replaced_before_the_hold_is_lost() {
    // The silent renewal takes 2 s. Of the rest, 3 s are not needed.
    let (_server, proxy, client) = proxied("ttl=9s").await;
    let hold = client.mutex("a").unwrap().acquire().await.unwrap();
    let mut silent = proxy.hold_next_reply();
    soon(silent.fired()).await.unwrap();
    outlive(&client.lease(), 2.0 / 3.0).await;
    hold.check().expect("another connection had time to renew the node");
    hold.release().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn hanging_redial_is_abandoned_before_the_hold_is_lost() {
    // A third of the TTL until the renewal, a third for it, and a sixth for the hanging connect.
    let (_server, proxy, client) = proxied("ttl=30s&connect_timeout=10m&request_timeout=10m").await;
    let hold = client.mutex("a").unwrap().acquire().await.unwrap();
    let hung = proxy.hold_reply_to(says("HELLO"));
    let mut silent = proxy.hold_reply_to(is_script);
    soon(silent.fired()).await.unwrap();
    outlive(&client.lease(), 2.0 / 3.0).await;
    assert!(hung.has_fired());
    hold.check().expect("dialled once more in time");
    hold.release().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_request_on_a_connection_that_fell_silent_is_repeated_on_the_next() {
    let (_server, proxy, client) = proxied(&format!("ttl={SHORT}&request_timeout=10m")).await;
    let mutex = client.mutex("a").unwrap();
    let hold = mutex.acquire().await.unwrap();
    let (ttl, mut left) = (client.lease().ttl(), proxy.hold_reply_to(is_script));
    let asked = Instant::now();
    drop(hold);
    soon(left.fired()).await.unwrap();
    let hold = soon(mutex.acquire()).await.unwrap();
    assert!(asked.elapsed() < 2 * ttl, "the leave was stuck for {:?}", asked.elapsed());
    hold.release().await.unwrap();
    let joined = proxy.hold_reply_to(is_script);
    let asked = Instant::now();
    let hold = soon(mutex.acquire()).await.unwrap();
    assert!(joined.has_fired() && asked.elapsed() < 2 * ttl, "the join was stuck for {:?}", asked.elapsed());
    hold.release().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_join_after_a_loss_is_answered_in_time_however_much_was_lost() {
    const TTL: Duration = Duration::from_secs(3);
    const REQUEST: Duration = Duration::from_millis(1500);
    let (_server, proxy, client) = proxied("ttl=3s&request_timeout=1500ms").await;
    let held = (0..400).map(|number| {
        let mutex = client.mutex(format!("held-{number}")).unwrap();
        async move { mutex.acquire().within(PATIENCE).await.unwrap() }
    });
    let held = soon(join_all(held)).await;
    proxy.cut();
    soon(join_all(held.iter().map(|hold| hold.lost()))).await;
    let asked = Instant::now();
    fails(soon(client.mutex("a").unwrap().acquire()).await, ErrorKind::Unavailable, "the link is cut");
    // After a TTL, it ends with the attempt, which removes the lost nodes and joins.
    let bound = TTL + REQUEST * 2 + Duration::from_secs(4);
    assert!(asked.elapsed() < bound, "after {:?}", asked.elapsed());
    proxy.resume();
    let mutex = client.mutex("a").unwrap();
    soon(mutex.acquire().within(PATIENCE)).await.unwrap().release().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_hold_after_a_loss_is_renewed_while_lost_nodes_are_removed() {
    let (_server, proxy, client) = proxied("ttl=6s&request_timeout=15s").await;
    let mut lost = Vec::new();
    for part in 0..20 {
        let held = (0..150).map(|number| {
            let mutex = client.mutex(format!("held-{part}-{number}")).unwrap();
            async move { mutex.acquire().await.unwrap() }
        });
        lost.extend(soon(join_all(held)).await);
    }
    client.lease().clock().jump(client.lease().ttl());
    // Eight removals at a time would take seven seconds.
    proxy.delay(Direction::ToClient, Duration::from_millis(20));
    let hold = soon(client.mutex("a").unwrap().acquire()).await.unwrap();
    outlive(&client.lease(), 1.5).await;
    hold.check().expect("renewed meanwhile");
    assert!(lost.iter().all(|hold| !hold.is_held()));
    client.close().await.unwrap();
}
