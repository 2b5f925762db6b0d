use std::sync::Arc;
use std::time::Duration;

use crate::common::{
    ask, at, config, contains, etcdctl, lease_of, proxied, renewed, served, server, soon, until_keys,
};
use futures_util::FutureExt;
use futures_util::future::{join_all, select_all};
use latchwork_conformance::actions::in_turn;
use latchwork_conformance::proxy::{Direction, Proxy};
use latchwork_conformance::servers::Server;
use latchwork_core::backend::{Joined, Patience};
use latchwork_core::recipes::MutexGuard;
use latchwork_core::{Claim, Coordinator, Ended, Kind, LostReason};
use tokio::runtime::Builder;

async fn revoke(server: &Server, client: &Coordinator) -> MutexGuard {
    let (hold, lease) = (client.mutex("a").unwrap().acquire().await.unwrap(), client.lease());
    etcdctl(server, &["lease", "revoke", &lease_of(server, "a").await]).await;
    assert_eq!(soon(hold.lost()).await, Ended::Lost(LostReason::Revoked));
    assert_eq!(soon(lease.until_lost()).await, LostReason::Revoked);
    hold
}

/// A renewal has the lease as a varint.
fn on_the_wire(lease: &str) -> Vec<u8> {
    let mut rest = u64::from_str_radix(lease, 16).unwrap();
    let mut bytes = Vec::new();
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

/// The client crate selects a stream's member at random, so possibly the silent member again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_falls_silent_costs_no_lease_while_others_answer() {
    let server = Arc::new(server().await);
    let each = (0..8).map(|number| {
        let server = Arc::clone(&server);
        async move {
            let proxies = in_turn((0..3).map(async |_| Proxy::start(server.addr()).await.unwrap())).await;
            let mut config = config(&server, "ttl=10s");
            config.hosts = proxies.iter().map(|proxy| proxy.addr().to_string()).collect();
            let client = at(&config).await.unwrap();
            let key = number.to_string();
            let hold = client.mutex(key.as_str()).unwrap().acquire().await.unwrap();
            let id = on_the_wire(&lease_of(&server, &key).await);
            let renewals = proxies.iter().map(|proxy| {
                let id = id.clone();
                let mut renewal = proxy.request(move |chunk| contains(chunk, &id));
                async move { renewal.fired().await }.boxed()
            });
            let (renewal, silent, _) = soon(select_all(renewals)).await;
            renewal.unwrap();
            proxies[silent].hold(Direction::ToServer);
            proxies[silent].hold(Direction::ToClient);
            let lease = client.lease();
            // The margin ends any earlier proof before this.
            lease.clock().sleep_until(lease.clock().now() + lease.ttl()).await;
            hold.check().is_ok()
        }
    });
    assert_eq!(join_all(each).await, [true; 8], "the clients that still hold");
}

#[tokio::test]
async fn an_acquire_that_is_polled_no_more_keeps_no_other_from_the_next_lease() {
    let server = server().await;
    let (proxy, client) = proxied(&server, "ttl=10s&request_timeout=3s").await;
    drop(revoke(&server, &client).await);
    proxy.hold(Direction::ToServer);
    let (first, second) = (client.mutex("b").unwrap(), client.mutex("c").unwrap());
    let mut unpolled = Box::pin(first.acquire());
    assert!((&mut unpolled).now_or_never().is_none(), "the acquire asks for a lease");
    proxy.resume();
    soon(second.acquire()).await.unwrap().release().await.unwrap();
    soon(unpolled).await.unwrap().release().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn acquires_that_end_too_soon_get_on_with_the_next_lease() {
    let server = server().await;
    let (proxy, client) = proxied(&server, "ttl=10s").await;
    let lease = client.lease();
    let lost = revoke(&server, &client).await;
    proxy.delay(Direction::ToServer, Duration::from_millis(300));
    let mutex = client.mutex("b").unwrap();
    let opened = async {
        while client.lease().same_as(&lease) {
            mutex.acquire().within(Duration::from_millis(100)).await.map(drop).unwrap_err();
        }
    };
    soon(opened).await;
    proxy.resume();
    let next = soon(mutex.acquire()).await.unwrap();
    assert!(next.token() > lost.token());
    next.release().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn new_lease_outlives_the_runtime_that_asked_for_it() {
    let (server, client) = served("ttl=6s").await;
    drop(revoke(&server, &client).await);
    let mutex = client.mutex("a").unwrap();
    let asked = move || Builder::new_current_thread().enable_all().build().unwrap().block_on(mutex.acquire());
    let hold = soon(tokio::task::spawn_blocking(asked)).await.unwrap().unwrap();
    renewed(&client.lease()).await;
    hold.check().expect("the lease is renewed");
    hold.release().await.unwrap();
}

#[tokio::test]
async fn dropped_backend_gives_up_its_permits() {
    let server = server().await;
    let backend = latchwork_etcd::connector().connect(&config(&server, "ttl=2s")).await.unwrap();
    let asked = ask(Kind::Semaphore, Claim::Permits(1), Some(1), Patience::Wait);
    let Ok(Joined::Admitted(node)) = backend.join(&asked).await else { panic!("the lock is free") };
    drop((node, backend));
    until_keys(&server, "latchwork/semaphore/", 0).await;
}
