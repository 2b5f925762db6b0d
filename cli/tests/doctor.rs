//! A right server has no fault, and each wrong one is named.

mod common;

use latchwork_servers::{Kind, Options, Server, ask};
use serde_json::Value;

use crate::common::{Fixture, program};

/// What the doctor says: the exit code, and each finding as its level and its words.
async fn examined(url: &str) -> (Option<i32>, Vec<(String, String)>) {
    let output = program("", ["doctor", "--json", url]).output().await.expect("it ran");
    let text = String::from_utf8_lossy(&output.stdout);
    let findings: Value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    let finding = |finding: &Value| {
        let level = finding["level"].as_str().expect("a level").to_owned();
        (level, format!("{}: {} do: {}", finding["about"], finding["what"], finding["next"]))
    };
    (output.status.code(), findings.as_array().expect("findings").iter().map(finding).collect())
}

/// The doctor finds this fault, and tells what to do.
async fn names(url: &str, words: &str) {
    let (code, findings) = examined(url).await;
    let faults: Vec<_> = findings.iter().filter(|(level, _)| level == "fault").collect();
    let named = faults.iter().any(|(_, said)| said.contains(words) && !said.ends_with("do: null"));
    assert!(code == Some(122) && named, "{code:?}, not {words:?}: {findings:#?}");
}

async fn redis(arguments: &[&str]) -> Server {
    let options = Options::new().own().args(arguments.iter().copied());
    Server::start(Kind::Redis, options).await.expect("a Redis")
}

#[tokio::test]
async fn a_right_server_has_no_fault_and_nothing_is_left_there() {
    let fixture = Fixture::crowded().await;
    let (code, findings) = examined(&fixture.url).await;
    assert_eq!(code, Some(0), "{findings:#?}");
    for about in [
        "connection",
        "lease",
        "TTL range",
        "eviction",
        "failover",
        "restart",
        "rights",
        "latency",
        "hand-off",
        "clients",
    ] {
        assert!(
            findings.iter().any(|(_, said)| said.starts_with(&format!("{about:?}"))),
            "{about}: {findings:#?}"
        );
    }
    let keys = ask(fixture.server.addr(), "KEYS *latchwork-doctor*\r\nQUIT\r\n").await.expect("an answer");
    let left: Vec<_> = keys.lines().filter(|line| line.contains("doctor")).collect();
    let last_tokens_only = left.iter().all(|key| key.ends_with(":one") || key.ends_with(":last"));
    assert!(last_tokens_only, "{left:?}");
}

#[tokio::test]
async fn people_are_shown_what_to_do() {
    let server = redis(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]).await;
    let output = program("", ["doctor", server.url()]).output().await.expect("it ran");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("FAULT  eviction: ") && said.contains("do: set maxmemory-policy noeviction"),
        "{said}"
    );
    assert!(!said.contains('\u{1b}'), "no colours where nobody sees them: {said}");
}

#[tokio::test]
async fn a_redis_that_evicts() {
    let server = redis(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]).await;
    names(server.url(), "evict").await;
    names(&format!("{}?strict=true", server.url()), "evict").await;
}

#[tokio::test]
async fn a_replica() {
    let master = redis(&[]).await;
    let (host, port) = master.addr().rsplit_once(':').expect("a port");
    let replica = redis(&["--replicaof", &format!("{host} {port}")]).await;
    names(replica.url(), "replica").await;
}

/// A login of everything but `without`.
async fn limited(without: &str) -> (Server, String) {
    let server = redis(&[]).await;
    let request = format!("ACL SETUSER limited on >pw ~latchwork:* &latchwork:* +@all {without}\r\nQUIT\r\n");
    let answer = ask(server.addr(), &request).await.expect("an answer");
    assert!(answer.starts_with("+OK"), "{answer}");
    let url = server.url_at(format!("limited:pw@{}", server.addr()));
    (server, url)
}

#[tokio::test]
async fn a_login_that_may_run_no_scripts() {
    let (_server, url) = limited("-eval -evalsha").await;
    names(&url, "forbidden").await;
}

#[tokio::test]
async fn a_login_for_other_keys() {
    let (_server, url) = limited("resetkeys ~other:*").await;
    names(&url, "forbidden").await;
}

#[tokio::test]
async fn a_login_with_a_wrong_password() {
    let (server, _) = limited("").await;
    names(&server.url_at(format!("limited:wrong@{}", server.addr())), "password").await;
}

#[tokio::test]
async fn no_server_at_all() {
    names("redis://localhost:1", "refused").await;
}

#[tokio::test]
async fn a_server_that_stands_still() {
    let fixture = Fixture::new().await;
    fixture.server.pause().await.expect("paused");
    names(&format!("{}?connect_timeout=1s", fixture.server.url()), "unavailable").await;
    fixture.server.resume().await.expect("resumed");
}

#[cfg(feature = "zookeeper")]
#[tokio::test]
async fn another_server_than_the_url_says() {
    let fixture = Fixture::new().await;
    names(&format!("zookeeper://{}?connect_timeout=3s", fixture.server.addr()), "wrong server").await;
}

#[cfg(feature = "zookeeper")]
#[tokio::test]
async fn a_zookeeper_that_grants_shorter_sessions() {
    let options = Options::new().own().clocks(latchwork_servers::Clocks::Default);
    let server = Server::start(Kind::Zookeeper, options).await.expect("a ZooKeeper");
    let (code, findings) = examined(&format!("{}?connect_timeout=20s", server.url())).await;
    assert_eq!(code, Some(0), "{findings:#?}");
    assert!(
        findings.iter().any(|(_, said)| said.contains("1h is refused") && said.contains("40s")),
        "{findings:#?}"
    );
    names(&format!("{}?ttl=10m&connect_timeout=20s", server.url()), "maxSessionTimeout").await;
}

#[cfg(feature = "etcd")]
#[tokio::test]
async fn an_etcd_without_a_quorum() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = || {
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port()
    };
    let (clients, peers, absent) = (port(), port(), port());
    let (clients, peers) = (format!("http://127.0.0.1:{clients}"), format!("http://127.0.0.1:{peers}"));
    let cluster = format!("one={peers},two=http://127.0.0.1:{absent}");
    let etcd = tokio::process::Command::new("etcd")
        .args([
            "--name",
            "one",
            "--data-dir",
            folder.path().to_str().expect("text"),
            "--initial-cluster",
            &cluster,
        ])
        .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
        .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("an etcd");
    names(&format!("{}?connect_timeout=3s", clients.replace("http", "etcd")), "unavailable").await;
    drop(etcd);
}
