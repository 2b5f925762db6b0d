use crate::common::coordinators::{at, mistaken, refused, refused_as, said};
use crate::common::{Operator, RIGHTS, admitted, ask, connect, operated, own, queue, says, soon, until};
use latchwork_conformance::mistakes::{Mistakes, namespaces_are_named};
use latchwork_conformance::proxy::Proxy;
use latchwork_conformance::servers::{ClosedPort, Kind as ServerKind, Options, Server};
use latchwork_core::{Claim, Config, Error, ErrorKind, Eviction, Kind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A slow server is unavailable, at most twice.
async fn names_another_server(kind: ServerKind, name: &str) -> Error {
    let other = Server::start(kind, Options::new()).await.unwrap_or_else(|error| panic!("{error}"));
    let url = format!("redis://{}", other.addr());
    let mut error = refused(&url).await;
    for _ in 0..2 {
        if error.kind() == ErrorKind::Unavailable {
            error = refused(&url).await;
        }
    }
    assert_eq!(error.kind(), ErrorKind::WrongServer, "{error}");
    said(&error, &[&format!("expected redis, saw {name}")]);
    error
}

#[tokio::test]
async fn web_server_is_refused_as_the_wrong_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let web = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n").await.unwrap();
        }
    });
    refused_as(&format!("redis://{addr}"), ErrorKind::WrongServer, &[]).await;
    web.abort();
}

#[tokio::test]
async fn a_silent_port_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let url = format!("redis://{addr}?connect_timeout=500ms&request_timeout=1m");
    refused_as(&url, ErrorKind::Unavailable, &[]).await;
}

#[tokio::test]
async fn one_that_hangs_up_is_unavailable() {
    let server = own(&[]).await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    server.kill().await.unwrap();
    let addr = proxy.addr().to_string();
    refused_as(&format!("redis://{addr}"), ErrorKind::Unavailable, &[&addr, "closes the connection"]).await;
}

#[tokio::test]
async fn silence_after_the_login_is_reported_as_unavailable() {
    let server = own(&[]).await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let silent = proxy.hold_reply_to(says("PING"));
    let error = refused(&format!("redis://{}", proxy.addr())).await;
    assert!(silent.has_fired());
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    said(&error, &[&proxy.addr().to_string()]);
}

#[tokio::test]
async fn a_log_in_that_fails_and_one_without_permissions_are_forbidden() {
    let (server, mut operator) = operated().await;
    for (user, but) in
        [("app", ""), ("mute", "-publish"), ("textless", "-eval"), ("keeper", "-del"), ("blind", "-info")]
    {
        operator.allow(user, format!("{RIGHTS} {but}").trim_end()).await;
    }
    // The default of Redis 7.
    operator.allow("deaf", &format!("resetchannels {RIGHTS}")).await;
    operator.allow("elsewhere", &format!("resetkeys ~other:* {RIGHTS}")).await;
    operator.tell("ACL SETUSER default resetpass >secret").await;
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
    assert_eq!(operator.keys("*").await, [""; 0], "the refused clients left keys");
    let app = connect(&format!("redis://app:word@{}", server.addr())).await;
    assert_eq!(app.capabilities().eviction, Eviction::Never);
    let blind = connect(&format!("redis://blind:word@{}", server.addr())).await;
    assert_eq!(blind.capabilities().eviction, Eviction::Unknown);
    let strict = format!("redis://blind:word@{}?strict=true", server.addr());
    refused_as(&strict, ErrorKind::Misconfigured, &[]).await;
}

#[tokio::test]
async fn server_without_a_free_connection_is_named() {
    let server = own(&["--maxclients", "2"]).await;
    let _others = (Operator::of(&server).await, Operator::of(&server).await);
    let words = ["does not serve this client", "no free connection", "maxclients"];
    refused_as(&format!("{}?connect_timeout=3s", server.url()), ErrorKind::Unavailable, &words).await;
}

#[tokio::test]
async fn missing_command_of_the_scripts_is_named() {
    let server = own(&["--rename-command", "ZMSCORE", ""]).await;
    refused_as(server.url(), ErrorKind::Misconfigured, &["ZMSCORE", "rename-command"]).await;
}

#[tokio::test]
async fn system_keepalive_checks_a_silent_connection() {
    let mut guide = Mistakes::of(include_str!("../../src/guide/connect_errors.md"), "## When Redis is wrong");
    let master = own(&[]).await;
    let port = master.addr().rsplit_once(':').unwrap().1.to_owned();
    let replica = own(&["--replicaof", "127.0.0.1", &port]).await;
    mistaken(&mut guide, "the server is a replica", replica.url(), &[]).await;

    let closed = ClosedPort::take().unwrap();
    let url = format!("redis://{}", closed.addr());
    mistaken(&mut guide, "no server listens at the host", &url, &[&closed.addr().to_string()]).await;
    names_another_server(ServerKind::Etcd, "etcd").await;
    let error = names_another_server(ServerKind::Zookeeper, "ZooKeeper").await;
    guide.made("another kind of server listens there", &error);

    let mut operator = Operator::of(&master).await;
    operator.allow("deaf", &format!("resetchannels {RIGHTS}")).await;
    operator.allow("blind", &format!("{RIGHTS} -info")).await;
    operator.allow("mute", &format!("{RIGHTS} -wait")).await;
    for (mistake, login, options) in [
        ("the user or the password is wrong", "deaf:guessed", ""),
        ("the user lacks a command, key or channel that locks need", "deaf:word", ""),
        ("the user may not call `INFO`, and the URL has `strict=true`", "blind:word", "?strict=true"),
        ("the URL has `min_replicas`, and the user may not call `WAIT`", "mute:word", "?min_replicas=1"),
    ] {
        mistaken(&mut guide, mistake, &format!("redis://{login}@{}{options}", master.addr()), &[]).await;
    }
    let url = format!("{}/99", master.url());
    mistaken(&mut guide, "the server has no such database (`/99`)", &url, &[]).await;
    let client = at(&format!("{}?min_replicas=2&request_timeout=3s", master.url())).await.unwrap();
    let error = soon(client.mutex("a").unwrap().acquire()).await.unwrap_err();
    guide.made(
        "the URL has `min_replicas`, and the server has fewer replicas: each acquisition fails",
        &error,
    );
    client.close().await.unwrap();
    operator.tell("CONFIG SET maxmemory 64mb").await;
    operator.tell("CONFIG SET maxmemory-policy allkeys-lru").await;
    let mistake = "the server evicts keys when its memory is full, and the URL has `strict=true`";
    mistaken(&mut guide, mistake, &format!("{}?strict=true", master.url()), &[]).await;
    guide.all_made();
}

#[tokio::test]
async fn namespace_mistakes_give_the_errors_in_the_guide() {
    let page = include_str!("../../src/guide/connect_errors.md");
    let table = Mistakes::of(page, "## When a namespace is in the way");
    let server = own(&[]).await;
    let config = Config::from_url(server.url()).unwrap();
    soon(namespaces_are_named(table, latchwork_redis::connector(), &config)).await;
}

#[tokio::test]
async fn the_database_of_the_url_is_used_and_the_client_has_a_name() {
    let (server, mut operator) = operated().await;
    let client = connect(&format!("{}/3", server.url())).await;
    let node = admitted(&client, &ask(&queue(Kind::Mutex, "a"), Claim::Exclusive)).await;
    let keyspace: String = operator.say("INFO keyspace").await;
    assert!(keyspace.contains("db3:") && !keyspace.contains("db0:"), "{keyspace}");
    let clients: String = operator.say("CLIENT LIST").await;
    assert!(clients.contains("name=latchwork:"), "{clients}");
    node.leave().await.unwrap();
}

/// With a TTL of an hour the client sends nothing for twenty minutes.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn server_mistakes_give_the_errors_in_the_guide() {
    let server = own(&[]).await;
    let _client = connect(&format!("{}?ttl=1h", server.url())).await;
    let port: u16 = server.addr().rsplit_once(':').unwrap().1.parse().unwrap();
    let remote = format!(":{port:04X}");
    // Number, own address, peer, state, queues, and the running timer; 02 is keepalive.
    let is_watched = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        words.get(2).is_some_and(|address| address.ends_with(&remote)) && words[5].starts_with("02:")
    };
    until(async || std::fs::read_to_string("/proc/net/tcp").unwrap().lines().any(is_watched)).await;
}

/// The client crate alone would collect it: 2.1 GB in this process.
#[tokio::test]
async fn a_reply_that_is_announced_as_a_gigabyte_is_not_collected() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}?connect_timeout=1m&request_timeout=1m", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = [0; 64];
        let _ = stream.read(&mut asked).await.unwrap();
        stream.write_all(b"$1073741824\r\n").await.unwrap();
        let (part, mut sent) = (vec![b'x'; 1 << 16], 0_u64);
        while sent < 1 << 30 && stream.write_all(&part).await.is_ok() {
            sent += part.len() as u64;
        }
        drop(listener);
        sent
    });
    refused_as(&url, ErrorKind::Unavailable, &[]).await;
    let sent = soon(server).await.unwrap();
    assert!(sent < 1 << 26, "{sent} bytes were taken");
}
