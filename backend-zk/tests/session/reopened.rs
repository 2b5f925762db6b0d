use std::sync::Arc;
use std::time::Duration;

use super::{connects, end_session, opens_a_session, through};
use crate::common::request::CREATE2;
use crate::common::{
    ALL, address, admitted, alone, backend, config, coordinator, holds, join, one_proxied_with, server,
    sessions, soon, suspended, waiting,
};
use latchwork_conformance::errors::fails;
use latchwork_conformance::proxy::{Direction, Event, Proxy};
use latchwork_conformance::servers::Server;
use latchwork_core::Claim::Exclusive;
use latchwork_core::backend::{Backend, Close};
use latchwork_core::{Config, Ended, ErrorKind, Kind, LeaseState, LostReason};
use tokio::runtime::Builder;

/// For example a future in a `select!` that is not polled.
async fn a_session_ends_though_a_request_of_it_is_not_polled(end: impl AsyncFnOnce(&dyn Backend)) {
    alone(async |own| {
        let mut config = config(own.addr());
        // The server ends one session after its TTL. The other outlasts a pause of the machine.
        config.ttl = Duration::from_secs(12);
        let short = |client: &mut Config| client.request_timeout = Duration::from_secs(5);
        let (proxy, [client, other]) = one_proxied_with(&config, short).await;
        let queue = address(&config, Kind::Mutex, "a");
        admitted(client.join(&join(&queue, Exclusive)).await);
        let next = waiting(other.join(&join(&queue, Exclusive)).await);

        let mut answered = proxy.hold_reply_to(|chunk| holds(chunk, CREATE2));
        let elsewhere = join(&address(&config, Kind::Mutex, "b"), Exclusive);
        let mut request = client.join(&elsewhere);
        tokio::select! {
            biased;
            joined = &mut request => panic!("the proxy holds the answer back: {joined:?}"),
            fired = soon(answered.fired()) => fired.unwrap(),
        }
        proxy.resume();
        assert_eq!(sessions(own).await, 2);
        end(&*client).await;
        soon(next.admitted()).await.unwrap();
        soon(async { while sessions(own).await > 1 {} }).await;
        soon(request).await.unwrap_err();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_session_ends_on_the_server_though_a_request_of_it_is_not_polled() {
    a_session_ends_though_a_request_of_it_is_not_polled(async |client| {
        let lease = client.lease();
        lease.clock().jump(lease.ttl());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_session_ends_on_the_server_though_a_request_of_it_is_not_polled() {
    a_session_ends_though_a_request_of_it_is_not_polled(async |client| {
        fails(client.close(Close::Orderly).await, ErrorKind::Unavailable, "the close gets no answer");
    })
    .await;
}

async fn about_to_open(server: &Server) -> (Proxy, Event, Config, Arc<dyn Backend>) {
    let (proxy, mut config) = through(server.addr()).await;
    config.ttl = Duration::from_secs(60);
    let client = backend(&config).await;
    client.lease().clock().jump(config.ttl);
    let opened = proxy.hold_reply_to(opens_a_session);
    (proxy, opened, config, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_that_opens_a_session_and_is_not_polled_keeps_no_other_from_it() {
    let (proxy, mut opened, config, client) = about_to_open(server().await).await;
    let joins = ["a", "b"].map(|key| join(&address(&config, Kind::Mutex, key), Exclusive));
    let mut first = client.join(&joins[0]);
    tokio::select! {
        biased;
        joined = &mut first => panic!("joined without a session: {joined:?}"),
        fired = soon(opened.fired()) => fired.unwrap(),
    }
    proxy.resume();
    admitted(soon(client.join(&joins[1])).await);
    admitted(soon(first).await);
    client.close(Close::Orderly).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn session_being_opened_is_closed_when_its_client_ends() {
    alone(async |own| {
        for closed in [true, false] {
            let (proxy, mut opened, config, client) = about_to_open(own).await;
            let elsewhere = join(&address(&config, Kind::Mutex, "a"), Exclusive);
            let joining = tokio::spawn({
                let (client, elsewhere) = (Arc::clone(&client), elsewhere.clone());
                async move { client.join(&elsewhere).await }
            });
            soon(opened.fired()).await.unwrap();
            if closed {
                soon(client.close(Close::Orderly)).await.unwrap();
                fails(soon(joining).await.unwrap(), ErrorKind::Closed, "its client is closed");
                assert_eq!(client.join(&elsewhere).await.unwrap_err().kind(), ErrorKind::Closed);
            } else {
                joining.abort();
                assert!(soon(joining).await.unwrap_err().is_cancelled());
            }
            drop(client);
            proxy.resume();
            soon(async { while sessions(own).await > 0 {} }).await;
        }
    })
    .await;
}

/// The session exists, and the answer to the create of its first node is held back. A process may exit after
/// the close, and a request that has not reached the server is lost.
#[tokio::test(flavor = "multi_thread")]
async fn only_close_waits_until_the_opening_session_ends() {
    alone(async |own| {
        let (proxy, mut config) = through(own.addr()).await;
        config.ttl = Duration::from_secs(60);
        config.request_timeout = Duration::from_secs(20);
        config.connect_timeout = Duration::from_secs(30);
        let client = backend(&config).await;
        client.lease().clock().jump(config.ttl);
        let mut made = proxy.hold_reply_to(|chunk| holds(chunk, CREATE2));
        let queue = address(&config, Kind::Mutex, "a");
        let joining = tokio::spawn({
            let client = Arc::clone(&client);
            async move { client.join(&join(&queue, Exclusive)).await }
        });
        soon(made.fired()).await.unwrap();
        let closing = tokio::spawn(async move { client.close(Close::Orderly).await });
        let joined = tokio::time::timeout(config.request_timeout / 2, joining).await;
        fails(joined.expect("it waits for the answer").unwrap(), ErrorKind::Closed, "its client is closed");
        soon(async { while sessions(own).await > 0 {} }).await;
        assert!(!closing.is_finished(), "the server's answer is held back");
        proxy.resume();
        soon(closing).await.unwrap().unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_that_give_up_before_a_session_is_open_get_it_between_them() {
    alone(async |own| {
        let (proxy, config) = through(own.addr()).await;
        let client = backend(&config).await;
        let queue = address(&config, Kind::Mutex, "a");
        // With the directory, a join is one trip.
        admitted(client.join(&join(&queue, Exclusive)).await).leave().await.unwrap();
        let trip = Duration::from_millis(200);
        proxy.delay(Direction::ToServer, trip);
        let lease = client.lease();
        lease.clock().jump(lease.ttl());
        let joined = soon(async {
            loop {
                let request = join(&queue, Exclusive);
                // An opening takes four trips, and the end of the old session another.
                if let Ok(joined) = tokio::time::timeout(trip * 5 / 2, client.join(&request)).await {
                    break joined;
                }
            }
        });
        joined.await.unwrap();
        assert_eq!(sessions(own).await, 1, "no half-open session remains");
        client.close(Close::Orderly).await.unwrap();
    })
    .await;
}

/// That runtime may end soon after.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_session_does_not_end_with_the_runtime_that_asked_for_it() {
    let (_proxy, mut config) = through(server().await.addr()).await;
    config.ttl = Duration::from_secs(12);
    let client = coordinator(&config).await;
    let mutex = client.mutex("a").unwrap();
    let hold = soon(mutex.acquire()).await.unwrap();
    let lease = client.lease();
    lease.clock().jump(lease.ttl());
    soon(hold.lost()).await;
    let asked = move || Builder::new_current_thread().enable_all().build().unwrap().block_on(mutex.acquire());
    let hold = soon(tokio::task::spawn_blocking(asked)).await.unwrap().unwrap();
    let lease = client.lease();
    lease.clock().sleep_until(lease.clock().now() + lease.ttl() * 3 / 2).await;
    hold.check().expect("the session is served and proven");
    hold.release().await.unwrap();
    client.close().await.unwrap();
}

/// The client reaches no server when it loses its lease, so it cannot close its session.
#[tokio::test]
async fn nodes_of_a_session_that_was_lost_in_an_outage_are_gone_before_the_next_join() {
    let (proxy, mut config) = through(server().await.addr()).await;
    config.ttl = Duration::from_secs(60);
    let client = backend(&config).await;
    let queue = address(&config, Kind::Mutex, "a");
    admitted(client.join(&join(&queue, Exclusive)).await);
    let lease = client.lease();
    proxy.cut();
    suspended(&lease).await;
    lease.clock().jump(config.ttl);
    soon(lease.until_lost()).await;
    proxy.resume();
    let again = soon(async {
        loop {
            match client.join(&join(&queue, Exclusive)).await {
                Err(error) if error.may_pass() => {}
                joined => break joined,
            }
        }
    });
    admitted(again.await);
    assert_eq!(client.list(&queue, ALL).await.unwrap().len(), 1);
    client.close(Close::Orderly).await.unwrap();
}

/// Another client closes the session by its id, before the client's deadline.
#[tokio::test]
async fn a_session_that_was_ended_on_the_server_is_lost_at_once_and_the_next_join_has_a_new_one() {
    let addr = server().await.addr();
    let (proxy, config) = through(addr).await;
    let coordinator = coordinator(&config).await;
    let guard = soon(coordinator.mutex("a").unwrap().acquire()).await.unwrap();
    let lease = coordinator.lease();
    let (connects, _hear) = connects(&proxy);
    proxy.cut();
    suspended(&lease).await;
    proxy.resume();
    soon(async { while lease.changed(LeaseState::Suspended).await != LeaseState::Live {} }).await;
    let connect = connects.lock().unwrap().values().next().cloned().unwrap();

    // Otherwise the client would first continue its session.
    proxy.refuse();
    end_session(addr, &connect).await;
    proxy.resume();

    let ended = soon(guard.lost()).await;
    assert!(matches!(ended, Ended::Lost(LostReason::Expired | LostReason::Revoked)), "{ended}");
    soon(lease.until_lost()).await;
    assert!(lease.clock().now() < lease.deadline(), "the server ended the session, not the clock");
    let again = soon(coordinator.mutex("a").unwrap().acquire()).await.unwrap();
    assert!(again.token() > guard.token());
    again.release().await.unwrap();
    coordinator.close().await.unwrap();
}
