use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::request::{CREATE2, READ};
use crate::common::{
    config, coordinator, holds, owner, plant, promptly, server, soon, stranger, try_backend, until,
    with_login,
};
use latchwork_conformance::mistakes::{Mistakes, namespaces_are_named, says};
use latchwork_conformance::proxy::Proxy;
use latchwork_conformance::servers::{ClosedPort, Kind, Options, Server};
use latchwork_core::backend::Close;
use latchwork_core::{Config, Error, ErrorKind};
use tokio::net::TcpListener;
use zookeeper_client::{Acls, CreateMode};

const FAR_DEADLINE: Duration = Duration::from_secs(3600);

async fn refused(config: &Config) -> Error {
    match try_backend(config).await {
        Ok(backend) => panic!("the client connected: {backend:?}"),
        Err(error) => error,
    }
}

/// The server has less than a second to identify itself, and may need a second try.
async fn refused_by_another(kind: Kind, name: &str) -> Error {
    let server = Server::start(kind, Options::new()).await.unwrap_or_else(|error| panic!("{error}"));
    let expected = format!("wrong server: expected zookeeper, saw {name}:");
    let mut answers = Vec::new();
    while answers.len() < 3 {
        let mut config = config(server.addr());
        config.connect_timeout = FAR_DEADLINE;
        let error = soon(refused(&config)).await;
        if error.to_string().contains(&expected) {
            return error;
        }
        answers.push(error);
    }
    panic!("{answers:?} of {name}");
}

#[tokio::test]
async fn a_silent_port_is_unavailable_at_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = config(&listener.local_addr().unwrap().to_string());
    config.connect_timeout = Duration::from_secs(1);
    assert_eq!(soon(refused(&config)).await.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_connect_whose_reply_is_lost_or_late_goes_on_with_another_session() {
    for chroot in [false, true] {
        for (wanted, is_lost) in [(READ, true), (CREATE2, true), (CREATE2, false)] {
            let proxy = Proxy::start(server().await.addr()).await.unwrap();
            let mut config = config(&proxy.addr().to_string());
            config.ttl = Duration::from_secs(4);
            // The opening of a session has 1.6 s, so a busy machine needs several tries.
            config.connect_timeout = Duration::from_secs(120);
            if chroot {
                config.path = format!("root-{}", config.namespace);
            }
            let wanted = move |chunk: &[u8]| holds(chunk, wanted);
            let mut fault = if is_lost { proxy.drop_reply_to(wanted) } else { proxy.hold_reply_to(wanted) };
            let backend = try_backend(&config).await.unwrap();
            soon(fault.fired()).await.unwrap();
            backend.close(Close::Orderly).await.unwrap();
            proxy.resume();
            soon(proxy.wait_for_connections(0)).await;
        }
    }
}

#[tokio::test]
async fn a_connect_whose_replies_are_all_lost_is_unavailable_at_the_deadline() {
    let proxy = Proxy::start(server().await.addr()).await.unwrap();
    let mut config = config(&proxy.addr().to_string());
    config.connect_timeout = Duration::from_secs(5);
    let lost = AtomicUsize::new(0);
    let losing = async {
        loop {
            proxy.drop_reply_to(|chunk| holds(chunk, CREATE2)).fired().await.unwrap();
            lost.fetch_add(1, Ordering::Relaxed);
        }
    };
    let started = Instant::now();
    let error = tokio::select! {
        () = losing => unreachable!("the loop does not end"),
        connected = soon(try_backend(&config)) => connected.expect_err("it connected"),
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(started.elapsed() >= config.connect_timeout, "{:?}: {error}", started.elapsed());
    assert!(lost.load(Ordering::Relaxed) >= 2, "only one session was tried");
}

#[tokio::test]
async fn a_missing_chroot_is_made_and_holds_all_of_it() {
    let addr = server().await.addr();
    let mut config = config(addr);
    config.path = format!("made/for/{}", config.namespace);
    let backend = try_backend(&config).await.unwrap();
    let stranger = stranger(addr).await;
    let inside = stranger.list_children(&format!("/{}/{}", config.path, config.namespace)).await.unwrap();
    assert!(inside.contains(&"mutex".to_owned()), "{inside:?}");
    assert!(stranger.check_stat(&format!("/{}", config.namespace)).await.unwrap().is_none());
    backend.close(Close::Orderly).await.unwrap();
}

#[tokio::test]
async fn system_keepalive_checks_a_silent_connection() {
    let mut table =
        Mistakes::of(include_str!("../../src/guide/connect_errors.md"), "## When ZooKeeper is wrong");
    let closed = ClosedPort::take().unwrap();
    let mut nowhere = config(&closed.addr().to_string());
    nowhere.connect_timeout = FAR_DEADLINE;
    table.made("no server listens at the host", &soon(refused(&nowhere)).await);
    table.made("another kind of server listens there", &refused_by_another(Kind::Redis, "Redis").await);
    refused_by_another(Kind::Etcd, "etcd").await;

    // The server's bound is 60 s.
    let server = server().await;
    let mut config = config(server.addr());
    let mut several = config.clone();
    several.hosts.push(closed.addr().to_string());
    table.made("the URL names several hosts, and one is a standalone server", &soon(refused(&several)).await);
    config.ttl = Duration::from_secs(120);
    let error = refused(&config).await;
    says(&error, &["60s", "120s", "TTL"]);
    table.made("the TTL is longer than the server's longest session", &error);
    config.ttl = Duration::from_secs(2);
    config.options.set("tick", "2s");
    table.made("the TTL is too short for the server's `tickTime`", &refused(&config).await);

    let mode = CreateMode::Persistent.with_acls(Acls::creator_all());
    let owned = format!("owned-{}", config.namespace);
    owner(server.addr()).await.create(&format!("/{owned}"), b"", &mode).await.unwrap();
    (config.ttl, config.path) = (Duration::from_secs(10), owned);
    table.made("only another login may use the chroot", &refused(&config).await);
    try_backend(&with_login(&config)).await.unwrap().close(Close::Orderly).await.unwrap();
    table.all_made();
}

#[tokio::test]
async fn namespace_mistakes_give_the_errors_in_the_guide() {
    let page = include_str!("../../src/guide/connect_errors.md");
    let table = Mistakes::of(page, "## When a namespace is in the way");
    let config = config(server().await.addr());
    soon(namespaces_are_named(table, latchwork_zookeeper::connector(), &config)).await;
}

/// An administrator created the namespace for an earlier version.
#[tokio::test]
async fn a_namespace_in_which_releases_may_not_be_announced_serves() {
    let addr = server().await.addr();
    let (config, stranger) = (config(addr), stranger(addr).await);
    let root = format!("/{}", config.namespace);
    let mode = CreateMode::Persistent.with_acls(Acls::anyone_all());
    stranger.create(&root, b"", &mode).await.unwrap();
    for name in ["mutex", "rwlock", "semaphore", "election", "limits", "client"] {
        stranger.create(&format!("{root}/{name}"), b"", &mode).await.unwrap();
    }
    stranger.set_acl(&root, Acls::anyone_read().as_ref(), None).await.unwrap();
    let coordinator = coordinator(&config).await;
    let mutex = coordinator.mutex("a").unwrap();
    let turn = || async { latchwork_core::Hold::release(&mutex.acquire().await.unwrap()).await.unwrap() };
    let _ = soon(async { tokio::join!(turn(), turn(), turn(), turn()) }).await;
    coordinator.close().await.unwrap();
    assert_eq!(stranger.list_children(&root).await.unwrap().len(), 6);
}

#[tokio::test]
async fn closing_takes_the_clients_node_with_it_and_a_crash_leaves_it() {
    let addr = server().await.addr();
    let (orderly, mut abrupt) = (config(addr), config(addr));
    abrupt.ttl = Duration::from_secs(10);
    let stranger = stranger(addr).await;
    let clients = |config: &Config| {
        let path = format!("/{}/client", config.namespace);
        let stranger = stranger.clone();
        async move { stranger.list_children(&path).await.unwrap().len() }
    };
    let (one, other) = (try_backend(&orderly).await.unwrap(), try_backend(&abrupt).await.unwrap());
    assert_eq!((clients(&orderly).await, clients(&abrupt).await), (1, 1));
    plant(&stranger, &format!("/{}/note", orderly.namespace), CreateMode::Persistent).await;

    one.close(Close::Orderly).await.unwrap();
    other.close(Close::Abrupt).await.unwrap();
    assert_eq!(clients(&orderly).await, 0);
    assert_eq!(clients(&abrupt).await, 1, "the server still has the client's node");
    // The session expires, a tick passes, and a busy machine needs more.
    until(async || clients(&abrupt).await == 0).await;
    one.close(Close::Orderly).await.unwrap();
}

#[tokio::test]
async fn dropped_coordinator_closes_at_once_despite_a_long_session() {
    let addr = server().await.addr();
    let (mut config, stranger) = (config(addr), stranger(addr).await);
    config.ttl = Duration::from_secs(60);
    let coordinator = coordinator(&config).await;
    let mutex = coordinator.mutex("a").unwrap();
    for _ in 0..3 {
        mutex.acquire().await.unwrap().release().await.unwrap();
    }
    drop((coordinator, mutex));
    let clients = format!("/{}/client", config.namespace);
    promptly(until(async || stranger.list_children(&clients).await.unwrap().is_empty())).await;
}
