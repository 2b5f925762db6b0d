//! Connecting: how servers are told apart, and how long it takes.

use std::time::Duration;

use crate::common::coordinators::at;
use crate::common::{Operator, connect, own, refused, says, soon};
use latchwork_conformance::mistakes::{Mistakes, namespaces_are_named};
use latchwork_conformance::proxy::Proxy;
use latchwork_conformance::servers::{ClosedPort, Kind, Options, Server};
use latchwork_core::{Config, Error, ErrorKind, Eviction};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

/// What it says where the server there answers in time: one that is slow is unavailable, at most twice.
async fn refused_by_its_answer(url: &str) -> Error {
    for _ in 0..2 {
        let error = refused(url).await;
        if error.kind() != ErrorKind::Unavailable {
            return error;
        }
    }
    refused(url).await
}

#[tokio::test]
async fn another_server_is_named() {
    for (kind, name) in [(Kind::Etcd, "etcd"), (Kind::Zookeeper, "ZooKeeper")] {
        let other = Server::start(kind, Options::new()).await.unwrap_or_else(|error| panic!("{error}"));
        let error = refused_by_its_answer(&format!("redis://{}", other.addr())).await;
        assert_eq!(error.kind(), ErrorKind::WrongServer, "{error}");
        assert!(error.to_string().contains(&format!("expected redis, saw {name}")), "{error}");
    }
}

#[tokio::test]
async fn a_web_server_is_no_redis() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let web = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n").await.unwrap();
        }
    });
    let error = refused(&format!("redis://{addr}")).await;
    assert_eq!(error.kind(), ErrorKind::WrongServer, "{error}");
    web.abort();
}

#[tokio::test]
async fn a_closed_port_and_a_silent_one_are_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    // Silent: the system accepts into the backlog, and nothing answers. The driver's tests check the bound.
    let error = refused(&format!("redis://{addr}?connect_timeout=500ms&request_timeout=1m")).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let closed = ClosedPort::take().unwrap();
    let error = refused(&format!("redis://{}", closed.addr())).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(&closed.addr().to_string()), "{error}");
}

/// As a proxy or a balancer does whose server is down, which may be a Redis.
#[tokio::test]
async fn one_that_hangs_up_is_unavailable() {
    let server = own(&[]).await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    server.kill().await.unwrap();
    let error = refused(&format!("redis://{}", proxy.addr())).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let text = error.to_string();
    assert!(text.contains(&proxy.addr().to_string()) && text.contains("hangs up"), "{text}");
}

#[tokio::test]
async fn a_server_that_falls_silent_behind_the_log_in_is_unavailable() {
    let server = own(&[]).await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let silent = proxy.hold_reply_to(says("PING"));
    let error = refused(&format!("redis://{}", proxy.addr())).await;
    assert!(silent.has_fired());
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(&proxy.addr().to_string()), "{error}");
}

#[tokio::test]
async fn a_log_in_that_fails_and_one_without_permissions_are_forbidden() {
    let server = own(&[]).await;
    let mut operator = Operator::of(&server).await;
    let enough = "+@read +@write +@pubsub +@scripting +@connection -@dangerous +time +info";
    for (user, rules) in [
        ("app", format!("~latchwork:* &latchwork:* {enough}")),
        // The default of Redis 7: no channel at all.
        ("deaf", format!("~latchwork:* resetchannels {enough}")),
        ("mute", format!("~latchwork:* &latchwork:* {enough} -publish")),
        ("elsewhere", format!("~other:* &latchwork:* {enough}")),
        ("textless", format!("~latchwork:* &latchwork:* {enough} -eval")),
        ("keeper", format!("~latchwork:* &latchwork:* {enough} -del")),
        ("blind", format!("~latchwork:* &latchwork:* {enough} -info")),
    ] {
        operator.say::<()>(&format!("ACL SETUSER {user} on >word {rules}")).await;
    }
    operator.say::<()>("ACL SETUSER default resetpass >secret").await;
    for (login, words) in [
        ("app:wrongword@", "log in"),
        ("", "log in"),
        ("deaf:word@", "SUBSCRIBE"),
        ("mute:word@", "PUBLISH"),
        ("elsewhere:word@", "EVALSHA"),
        ("textless:word@", "EVAL "),
        ("keeper:word@", "DEL"),
    ] {
        let error = refused(&format!("redis://{login}{}", server.addr())).await;
        assert_eq!(error.kind(), ErrorKind::Forbidden, "{login}: {error}");
        assert!(error.to_string().contains(words), "{login}: {error}");
        assert!(!error.to_string().contains("wrongword"), "{error}");
    }
    let keys: Vec<String> = operator.say("KEYS *").await;
    assert_eq!(keys, [""; 0], "the refused clients leave nothing");
    let app = connect(&format!("redis://app:word@{}", server.addr())).await.unwrap();
    assert_eq!(app.capabilities().eviction, Eviction::Never);
    // Without INFO, eviction is unknown, and `strict` refuses that.
    let blind = connect(&format!("redis://blind:word@{}", server.addr())).await.unwrap();
    assert_eq!(blind.capabilities().eviction, Eviction::Unknown);
    let error = refused(&format!("redis://blind:word@{}?strict=true", server.addr())).await;
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
}

#[tokio::test]
async fn what_is_wrong_with_the_server_is_named() {
    let mut table = Mistakes::of(include_str!("../../src/guide/connecting.md"), "## When Redis is wrong");
    let master = own(&[]).await;
    let port = master.addr().rsplit_once(':').unwrap().1.to_owned();
    let replica = own(&["--replicaof", "127.0.0.1", &port]).await;
    table.made("the server is a replica", &refused(replica.url()).await);

    let closed = ClosedPort::take().unwrap();
    table.made("nobody listens at the host", &refused(&format!("redis://{}", closed.addr())).await);
    let other = Server::start(Kind::Zookeeper, Options::new()).await.unwrap();
    let error = refused_by_its_answer(&format!("redis://{}", other.addr())).await;
    table.made("another server listens there", &error);

    let mut operator = Operator::of(&master).await;
    let enough = "+@read +@write +@pubsub +@scripting +@connection -@dangerous +time";
    operator.say::<()>(&format!("ACL SETUSER deaf on >word ~latchwork:* resetchannels {enough} +info")).await;
    for (user, more) in [("blind", ""), ("mute", " +info -wait")] {
        let rules = format!("~latchwork:* &latchwork:* {enough}{more}");
        operator.say::<()>(&format!("ACL SETUSER {user} on >word {rules}")).await;
    }
    for (mistake, login, options) in [
        ("the user or the password", "deaf:guessed", ""),
        ("the user may not use a command, a key or a channel that is needed", "deaf:word", ""),
        (
            "the user may not ask whether it does (`INFO`), and the URL has `strict=true`",
            "blind:word",
            "?strict=true",
        ),
        ("the URL has `min_replicas`, and the user may not call `WAIT`", "mute:word", "?min_replicas=1"),
    ] {
        table.made(mistake, &refused(&format!("redis://{login}@{}{options}", master.addr())).await);
    }
    let error = refused(&format!("{}/99", master.url())).await;
    table.made("the server has no such database (`/99`)", &error);
    let client = at(&format!("{}?min_replicas=2&request_timeout=3s", master.url())).await.unwrap();
    let error = soon(client.mutex("a").unwrap().acquire()).await.unwrap_err();
    table.made("the URL has `min_replicas`, and fewer follow the server: each acquisition fails", &error);
    client.close().await.unwrap();
    operator.say::<()>("CONFIG SET maxmemory 64mb").await;
    operator.say::<()>("CONFIG SET maxmemory-policy allkeys-lru").await;
    let error = refused(&format!("{}?strict=true", master.url())).await;
    table.made("the server evicts keys when its memory is full, and the URL has `strict=true`", &error);
    table.all_made();
}

#[tokio::test]
async fn what_is_wrong_with_the_namespace_is_named() {
    let page = include_str!("../../src/guide/connecting.md");
    let table = Mistakes::of(page, "## When a namespace is in the way");
    let server = own(&[]).await;
    let config = Config::from_url(server.url()).unwrap();
    soon(namespaces_are_named(table, latchwork_redis::connector(), &config)).await;
}

#[tokio::test]
async fn the_database_of_the_url_is_used_and_the_client_has_a_name() {
    let server = own(&[]).await;
    let client = connect(&format!("{}/3", server.url())).await.unwrap();
    let join = crate::common::ask(
        &crate::common::queue(latchwork_core::Kind::Mutex, "a"),
        latchwork_core::Claim::Exclusive,
    );
    let node = crate::common::admitted(&client, &join).await;
    let mut operator = Operator::of(&server).await;
    let keyspace: String = operator.say("INFO keyspace").await;
    assert!(keyspace.contains("db3:") && !keyspace.contains("db0:"), "{keyspace}");
    let clients: String = operator.say("CLIENT LIST").await;
    assert!(clients.contains("name=latchwork:"), "{clients}");
    node.leave().await.unwrap();
}

/// With a TTL of an hour the client would send nothing for twenty minutes.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_system_asks_whether_a_silent_connection_still_stands() {
    let server = own(&[]).await;
    let _client = connect(&format!("{}?ttl=1h", server.url())).await.unwrap();
    let port: u16 = server.addr().rsplit_once(':').unwrap().1.parse().unwrap();
    let remote = format!(":{port:04X}");
    // Per line: number, own address, the peer's, state, queues, and the running timer; 02 is
    // keepalive.
    let is_watched = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        words.get(2).is_some_and(|address| address.ends_with(&remote)) && words[5].starts_with("02:")
    };
    let mut looks = tokio::time::interval(Duration::from_millis(10));
    crate::common::soon(async {
        while !std::fs::read_to_string("/proc/net/tcp").unwrap().lines().any(is_watched) {
            looks.tick().await;
        }
    })
    .await;
}

/// The client crate would collect all of it: 2.1 GB of this process for an announced 1 GB.
#[tokio::test]
async fn a_reply_that_is_announced_as_a_gigabyte_is_not_collected() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}?connect_timeout=1m&request_timeout=1m", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = [0; 64];
        let _ = stream.read(&mut asked).await.unwrap();
        stream.write_all(b"$1073741824\r\n").await.unwrap();
        let (part, mut sent) = (vec![b'x'; 1 << 16], 0_u64);
        // Until the client hangs up.
        while sent < 1 << 30 && stream.write_all(&part).await.is_ok() {
            sent += part.len() as u64;
        }
        // The probe gets no answer.
        drop(listener);
        sent
    });
    let error = refused(&url).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let sent = crate::common::soon(server).await.unwrap();
    // The buffers of the two sockets.
    assert!(sent < 1 << 26, "{sent} bytes were taken");
}
