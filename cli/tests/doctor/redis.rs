use latchwork_servers::{Server, ask};

use super::{examined, names, redis};
use crate::common::{Fixture, program, ran};

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

async fn limited(without: &str) -> (Server, String) {
    let server = redis(&[]).await;
    let request = format!("ACL SETUSER limited on >pw ~latchwork:* &latchwork:* +@all {without}\r\nQUIT\r\n");
    let answer = ask(server.addr(), &request).await.expect("an answer");
    assert!(answer.starts_with("+OK"), "{answer}");
    let url = server.url_at(format!("limited:pw@{}", server.addr()));
    (server, url)
}

#[tokio::test]
async fn a_login_for_no_scripts_or_for_other_keys_or_for_no_channels() {
    for (without, words) in
        [("-eval -evalsha", "forbidden"), ("resetkeys ~other:*", "forbidden"), ("resetchannels", "SUBSCRIBE")]
    {
        let (_server, url) = limited(without).await;
        names(&url, words).await;
    }
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
async fn paused_server_is_reported_as_unavailable() {
    let fixture = Fixture::new().await;
    fixture.server.pause().await.expect("paused");
    names(&format!("{}?connect_timeout=1s", fixture.server.url()), "unavailable").await;
    fixture.server.resume().await.expect("resumed");
}

async fn says(url: &str, level: &str, about: &str, words: &str) {
    let (code, findings) = examined(url).await;
    let begins = format!("{about:?}");
    let said = findings.iter().find(|(_, said)| said.starts_with(&begins));
    let (found, said) = said.unwrap_or_else(|| panic!("{code:?}, nothing about {about}: {findings:#?}"));
    assert!(found == level && said.contains(words), "{found} {said}, not {level} {words:?}");
}

#[tokio::test]
async fn version_topology_and_role_are_facts() {
    let primary = redis(&[]).await;
    says(primary.url(), "good", "server", "Redis ").await;
    says(primary.url(), "good", "role", "primary").await;
    says(primary.url(), "note", "topology", "a single server").await;
    let (host, port) = primary.addr().rsplit_once(':').expect("a port");
    let replica = redis(&["--replicaof", &format!("{host} {port}")]).await;
    let follows = async {
        while !ask(replica.addr(), "INFO replication\r\nQUIT\r\n")
            .await
            .expect("an answer")
            .contains("link_status:up")
        {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::common::SOON, follows).await.expect("the replica follows in time");
    says(primary.url(), "note", "topology", "redis-sentinel://").await;
    says(primary.url(), "note", "topology", "a primary with 1 replica").await;
}

#[tokio::test]
async fn login_without_info_reports_the_missing_right() {
    let (_server, url) = limited("-info").await;
    says(&url, "note", "server", "allow INFO").await;
    says(&url, "good", "clock", "this machine's clock").await;
}

#[tokio::test]
async fn doctor_reports_whether_data_is_on_disk() {
    let log = redis(&["--appendonly", "yes", "--appendfsync", "always"]).await;
    says(log.url(), "good", "restart", "on disk before it is confirmed").await;
    let memory = redis(&[]).await;
    says(memory.url(), "note", "restart", "nothing on disk").await;
}

#[tokio::test]
async fn server_that_refuses_writes_is_examined_and_the_cause_is_named() {
    let server = redis(&["--min-replicas-to-write", "1"]).await;
    let url = format!("{}?connect_timeout=3s", server.url());
    names(&url, "too few replicas").await;
    let (_, findings) = examined(&url).await;
    let advised = |said: &str| said.contains("too few replicas") && said.contains("the server runs");
    assert!(findings.iter().any(|(_, said)| advised(said)), "{findings:#?}");
    says(&url, "good", "server", "Redis ").await;
    let (code, out, err) = ran(program(&url, ["inspect"])).await;
    assert_eq!(code, Some(0), "{out}{err}");
}

#[tokio::test]
async fn retired_namespace_of_a_server_that_refuses_writes_has_both_faults() {
    let fixture = Fixture::new().await;
    let operator = fixture.operator().await;
    operator.retire("redis://the-new-one").await.expect("no client is connected");
    operator.coordinator().close().await.expect("a close");
    let refuses = "CONFIG SET min-replicas-to-write 1\r\nQUIT\r\n";
    ask(fixture.server.addr(), refuses).await.expect("an answer");
    let url = format!("{}?connect_timeout=3s", fixture.server.url());
    names(&url, "it is retired").await;
    names(&url, "too few replicas").await;
}
