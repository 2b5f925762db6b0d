use std::time::{Duration, Instant};

use crate::common::{
    Companion, acquiring, as_root, at, config, etcdctl, login_config, patient, renewed, served, server,
    server_with_users, soon, started,
};
use futures_util::future::join_all;
use latchwork_conformance::mistakes::{Mistakes, namespaces_are_named, says};
use latchwork_conformance::proxy::Proxy;
use latchwork_conformance::servers::{Certificates, ClosedPort, Kind, Options, Server};
use latchwork_core::{Config, Coordinator, Ended, Error, ErrorKind, LostReason};
use tokio::net::TcpListener;

pub(crate) async fn refused(url: &str) -> Error {
    let error = at(&Config::from_url(url).unwrap()).await.expect_err("connected");
    says(&error, &[]);
    error
}

#[tokio::test]
async fn a_silent_port_is_unavailable_at_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    // The kernel accepts the connection, and no process answers.
    let started = Instant::now();
    let error = refused(&format!("etcd://{addr}?connect_timeout=500ms")).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(started.elapsed() >= Duration::from_millis(500));
}

/// As a proxy whose server, perhaps an etcd, is down.
#[tokio::test]
async fn a_server_that_hangs_up_is_unavailable() {
    let server = server().await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    server.kill().await.unwrap();
    let error = refused(&format!("etcd://{}", proxy.addr())).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let text = error.to_string();
    assert!(text.contains(&proxy.addr().to_string()) && text.contains("closes the connection"), "{text}");
}

async fn app(server: &Server) -> Coordinator {
    at(&login_config(server, "app:hunter2", "")).await.unwrap()
}

#[tokio::test]
async fn server_mistakes_give_guide_errors_and_login_survives_restart() {
    let mut table = Mistakes::of(include_str!("../../src/guide/connect_errors.md"), "## When etcd is wrong");
    let closed = ClosedPort::take().unwrap();
    let error = refused(&format!("etcd://{}", closed.addr())).await;
    says(&error, &[&closed.addr().to_string()]);
    table.made("no server listens at the host", &error);
    for (kind, name) in [(Kind::Redis, "Redis"), (Kind::Zookeeper, "ZooKeeper")] {
        let other = Server::start(kind, Options::new()).await.unwrap_or_else(|error| panic!("{error}"));
        let error = refused(&format!("etcd://{}?connect_timeout=20s", other.addr())).await;
        assert_eq!(error.kind(), ErrorKind::WrongServer, "{error}");
        says(&error, &[&format!("expected etcd, saw {name}")]);
        if kind == Kind::Redis {
            table.made("another kind of server listens there", &error);
        }
    }
    let open = server().await;
    let error = refused(&format!("etcd://app:hunter2@{}?connect_timeout=20s", open.addr())).await;
    table.made("the URL has a login, and authentication is off on the server", &error);
    let learner = Companion::learner(&open).await;
    let error = refused(&format!("etcd://{}?connect_timeout=20s", learner.addr)).await;
    table.made("the URL names only learners", &error);
    let proxy = Companion::proxy(&open).await;
    let error = refused(&format!("etcd://{}?connect_timeout=20s", proxy.addr)).await;
    table.made("the host is a `grpc-proxy` of etcd", &error);
    let server = server_with_users(Options::new()).await;
    let refused_as = async |login: &str, namespace: &str| {
        let times = "connect_timeout=20s&request_timeout=10s";
        refused(&format!("etcd://{login}{}?{times}&namespace={namespace}", server.addr())).await
    };
    for (mistake, login) in [
        ("the user or the password is wrong", "app:hunter2x@"),
        ("the server demands a login, and the URL has none", ""),
        ("the user has no `readwrite` on the prefix of the namespace", "stranger:hunter2@"),
    ] {
        table.made(mistake, &refused_as(login, "latchwork").await);
    }
    table.all_made();
    // An unknown user, and a permission for another prefix.
    for (login, namespace, words) in [
        ("nobody:hunter2@", "latchwork", &["log in"][..]),
        ("app:hunter2@", "other", &["permission", "other/"]),
    ] {
        let error = refused_as(login, namespace).await;
        assert!(error.kind() == ErrorKind::Forbidden, "{error}");
        says(&error, words);
    }
    let client = app(&server).await;
    let mutex = client.mutex("a").unwrap();
    // The server forgets the token when it restarts, and a release must still succeed.
    let hold = mutex.acquire().await.unwrap();
    server.kill().await.unwrap();
    server.launch().await.unwrap();
    hold.release().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn namespace_mistakes_give_the_errors_in_the_guide() {
    let page = include_str!("../../src/guide/connect_errors.md");
    let table = Mistakes::of(page, "## When a namespace is in the way");
    let server = server().await;
    soon(namespaces_are_named(table, latchwork_etcd::connector(), &config(&server, ""))).await;
}

#[tokio::test]
async fn waiters_and_holders_outlive_the_log_in_of_their_streams() {
    let server = server_with_users(Options::new()).await;
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
    // The server forgets every login while the streams stay open, as after five minutes without use.
    as_root(&server, &["auth", "disable"]).await;
    etcdctl(&server, &["auth", "enable"]).await;
    turn(a.clone(), b.clone()).await;
    turn(b.clone(), a.clone()).await;
    let hold = a.mutex("b").unwrap().acquire().await.unwrap();
    as_root(&server, &["del", "--prefix", "latchwork/mutex/b/"]).await;
    assert_eq!(soon(hold.lost()).await, Ended::Lost(LostReason::Revoked));
}

#[tokio::test]
async fn the_granted_ttl_rules_and_may_be_more() {
    // Whole seconds, rounded up.
    let (_server, client) = served("ttl=1500ms").await;
    assert_eq!(client.lease().ttl(), Duration::from_secs(2));
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_dead_host_of_several_is_borne() {
    let server = server().await;
    let closed = ClosedPort::take().unwrap();
    let config = patient(&format!("etcd://{},{}?ttl=6s", closed.addr(), server.addr()));
    let client = at(&config).await.unwrap();
    let mutex = client.mutex("a").unwrap();
    for _ in 0..20 {
        soon(mutex.acquire()).await.unwrap().release().await.unwrap();
    }
    let hold = mutex.acquire().await.unwrap();
    renewed(&client.lease()).await;
    assert!(hold.is_held(), "renewal goes on");
    client.close().await.unwrap();
}

/// The learner refuses each request, which then goes to the voting member.
#[tokio::test]
async fn a_learner_among_the_hosts_is_borne() {
    let server = server().await;
    let learner = Companion::learner(&server).await;
    for hosts in [[&learner.addr, server.addr()], [server.addr(), &learner.addr]] {
        let client = at(&patient(&format!("etcd://{}?ttl=6s", hosts.join(",")))).await.unwrap();
        let (mutex, value) = (client.mutex("a").unwrap(), client.shared_value("a").unwrap());
        for _ in 0..20 {
            soon(mutex.try_acquire()).await.unwrap().expect("free").release().await.unwrap();
            value.write("a").await.unwrap();
        }
        renewed(&client.lease()).await;
        client.close().await.unwrap();
    }
}

/// The requests of a host that does not answer go to the other hosts, also requests that waited together.
#[tokio::test]
async fn a_silent_host_of_several_is_borne_over_tls() {
    let certificates = Certificates::new().unwrap();
    let server = started(Options::new().tls(certificates.server(true))).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (silent, good) = (silent.local_addr().unwrap(), server.tls_addr().unwrap());
    let options = format!("{}&ttl=30s&request_timeout=9s&connect_timeout=30s", certificates.mutual());
    let config = Config::from_url(&format!("etcd+tls://{silent},{good},{good}?{options}")).unwrap();
    let client = at(&config).await.unwrap();
    let lock_elsewhere = |key: usize| {
        let mutex = client.mutex(format!("a{key}")).unwrap();
        async move {
            let begun = Instant::now();
            mutex.acquire().await.unwrap().release().await.unwrap();
            begun.elapsed()
        }
    };
    let longest = join_all((0..100).map(lock_elsewhere)).await.into_iter().max().unwrap();
    // One connect, and less than a request's whole time.
    assert!(longest < Duration::from_secs(7), "{longest:?}");
    // By now the host is skipped. Otherwise some ten requests would wait for it.
    let all = Instant::now();
    for key in 0..20 {
        lock_elsewhere(key).await;
    }
    assert!(all.elapsed() < Duration::from_secs(12), "{:?}", all.elapsed());
    soon(client.close()).await.unwrap();
}
