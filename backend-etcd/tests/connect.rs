//! Connecting: what a client finds at an address, and how long that takes.

use std::time::{Duration, Instant};

use crate::common::{
    acquiring, config, etcdctl, login_config, patient, renewed, require_log_in, server, soon,
};
use futures_util::future::join_all;
use latchwork_conformance::mistakes::{Mistakes, namespaces_are_named};
use latchwork_conformance::proxy::Proxy;
use latchwork_conformance::servers::{Certificates, ClosedPort, Kind, Options, Server};
use latchwork_core::{Config, Coordinator, Ended, Error, ErrorKind, LostReason, connect};
use tokio::net::TcpListener;

pub(crate) async fn refused(url: &str) -> Error {
    let config = Config::from_url(url).unwrap();
    connect(&[latchwork_etcd::connector()], &config).await.expect_err("connected")
}

#[tokio::test]
async fn another_server_is_reported_by_name() {
    for (kind, name) in [(Kind::Redis, "Redis"), (Kind::Zookeeper, "ZooKeeper")] {
        let other = Server::start(kind, Options::new()).await.unwrap_or_else(|error| panic!("{error}"));
        let error = refused(&format!("etcd://{}?connect_timeout=20s", other.addr())).await;
        assert_eq!(error.kind(), ErrorKind::WrongServer, "{error}");
        assert!(error.to_string().contains(&format!("expected etcd, saw {name}")), "{error}");
    }
}

#[tokio::test]
async fn a_closed_port_and_a_silent_one_are_unavailable_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    // Silent: the kernel accepts the connection, and nobody answers.
    let started = Instant::now();
    let error = refused(&format!("etcd://{addr}?connect_timeout=500ms")).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(started.elapsed() >= Duration::from_millis(500));
    let closed = ClosedPort::take().unwrap();
    let error = refused(&format!("etcd://{}", closed.addr())).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(&closed.addr().to_string()), "{error}");
}

/// As a proxy or a balancer does whose server is down: an etcd may be behind it.
#[tokio::test]
async fn a_server_that_hangs_up_is_unavailable() {
    let server = Server::start(Kind::Etcd, Options::new().own()).await.unwrap();
    let proxy = Proxy::start(server.addr()).await.unwrap();
    server.kill().await.unwrap();
    let error = refused(&format!("etcd://{}", proxy.addr())).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let text = error.to_string();
    assert!(text.contains(&proxy.addr().to_string()) && text.contains("hangs up"), "{text}");
}

async fn server_with_users() -> Server {
    let server = server().await;
    require_log_in(&server).await;
    server
}

async fn app(server: &Server) -> Coordinator {
    connect(&[latchwork_etcd::connector()], &login_config(server, "app:hunter2", "")).await.unwrap()
}

#[tokio::test]
async fn what_is_wrong_with_the_server_is_named_and_a_user_that_may_serves_on() {
    let mut table = Mistakes::of(include_str!("../../src/guide/connecting.md"), "## When etcd is wrong");
    let closed = ClosedPort::take().unwrap();
    table.made("nobody listens at the host", &refused(&format!("etcd://{}", closed.addr())).await);
    let other = Server::start(Kind::Redis, Options::new()).await.unwrap();
    let error = refused(&format!("etcd://{}?connect_timeout=20s", other.addr())).await;
    table.made("another server listens there", &error);
    let open = server().await;
    let error = refused(&format!("etcd://app:hunter2@{}?connect_timeout=20s", open.addr())).await;
    table.made("the URL has a login, and authentication is off on the server", &error);
    let server = server_with_users().await;
    for (mistake, login) in [
        ("the user or the password", "app:wrong@"),
        ("the server demands a login, and the URL has none", ""),
        ("the user has no `readwrite` on the prefix of the namespace", "stranger:hunter2@"),
    ] {
        let error =
            refused(&format!("etcd://{login}{}?connect_timeout=20s&request_timeout=10s", server.addr()))
                .await;
        table.made(mistake, &error);
    }
    table.all_made();
    let client = app(&server).await;
    let mutex = client.mutex("a").unwrap();
    // The server forgets the token when it restarts, and a release must succeed all the same.
    let hold = mutex.acquire().await.unwrap();
    server.kill().await.unwrap();
    server.launch().await.unwrap();
    hold.release().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn what_is_wrong_with_the_namespace_is_named() {
    let page = include_str!("../../src/guide/connecting.md");
    let table = Mistakes::of(page, "## When a namespace is in the way");
    let server = server().await;
    soon(namespaces_are_named(table, latchwork_etcd::connector(), &config(&server, ""))).await;
}

#[tokio::test]
async fn waiters_and_holders_outlive_the_log_in_of_their_streams() {
    let server = server_with_users().await;
    let (a, b) = (app(&server).await, app(&server).await);
    let turn = |first: Coordinator, second: Coordinator| async move {
        let (mutex, other) = (first.mutex("a").unwrap(), second.mutex("a").unwrap());
        let hold = mutex.acquire().await.unwrap();
        let waiting = acquiring(&other);
        while mutex.queue().first(9).await.unwrap().len() < 2 {}
        hold.release().await.unwrap();
        soon(waiting).await.unwrap().unwrap().release().await.unwrap();
    };
    turn(a.clone(), b.clone()).await;
    turn(b.clone(), a.clone()).await;
    // The server forgets every log-in while the streams stay open, as it does after five minutes
    // without use.
    etcdctl(&server, &["--user", "root:secret", "auth", "disable"]).await;
    etcdctl(&server, &["auth", "enable"]).await;
    turn(a.clone(), b.clone()).await;
    turn(b.clone(), a.clone()).await;
    let hold = a.mutex("b").unwrap().acquire().await.unwrap();
    let key = "latchwork/mutex/b/";
    etcdctl(&server, &["--user", "root:secret", "del", "--prefix", key]).await;
    assert_eq!(soon(hold.lost()).await, Ended::Lost(LostReason::Revoked));
}

#[tokio::test]
async fn the_granted_ttl_rules_and_may_be_more() {
    let server = server().await;
    // Whole seconds, rounded up.
    let coordinator = connect(&[latchwork_etcd::connector()], &config(&server, "ttl=1500ms")).await.unwrap();
    assert_eq!(coordinator.lease().ttl(), Duration::from_secs(2));
    coordinator.close().await.unwrap();
    let (error, answer) =
        (coordinator.mutex("a").unwrap().acquire().await.unwrap_err(), coordinator.close().await);
    assert_eq!(error.kind(), ErrorKind::Closed);
    answer.unwrap();
}

#[tokio::test]
async fn a_dead_host_of_several_is_borne() {
    let server = server().await;
    let closed = ClosedPort::take().unwrap();
    let config = patient(&format!("etcd://{},{}?ttl=6s", closed.addr(), server.addr()));
    let client = connect(&[latchwork_etcd::connector()], &config).await.unwrap();
    let mutex = client.mutex("a").unwrap();
    for _ in 0..20 {
        soon(mutex.acquire()).await.unwrap().release().await.unwrap();
    }
    let hold = mutex.acquire().await.unwrap();
    renewed(&client.lease()).await;
    assert!(hold.is_held(), "renewal goes on");
    client.close().await.unwrap();
}

/// One that takes connections, and does not answer: its requests go to the others, also those that
/// have waited for it together.
#[tokio::test]
async fn a_silent_host_of_several_is_borne_over_tls() {
    let certificates = Certificates::new().unwrap();
    let options = Options::new().own().tls(certificates.server(true));
    let server = Server::start(Kind::Etcd, options).await.unwrap_or_else(|error| panic!("{error}"));
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (silent, good) = (silent.local_addr().unwrap(), server.tls_addr().unwrap());
    // A dial is given up after a third of a request's time, since there are three hosts.
    let options = format!("{}&ttl=30s&request_timeout=9s&connect_timeout=30s", certificates.mutual());
    let config = Config::from_url(&format!("etcd+tls://{silent},{good},{good}?{options}")).unwrap();
    let client = soon(connect(&[latchwork_etcd::connector()], &config)).await.unwrap();
    let lock_elsewhere = |key: usize| {
        let mutex = client.mutex(format!("a{key}")).unwrap();
        async move {
            let begun = Instant::now();
            mutex.acquire().await.unwrap().release().await.unwrap();
            begun.elapsed()
        }
    };
    let longest = join_all((0..100).map(lock_elsewhere)).await.into_iter().max().unwrap();
    // One dial, and less than a request's whole time.
    assert!(longest < Duration::from_secs(7), "{longest:?}");
    // By now it is passed over, but for a request that tries it now and then. Else some ten wait for it.
    let all = Instant::now();
    for key in 0..20 {
        lock_elsewhere(key).await;
    }
    assert!(all.elapsed() < Duration::from_secs(12), "{:?}", all.elapsed());
    soon(client.close()).await.unwrap();
}
