#[cfg(feature = "etcd")]
mod etcd;
mod namespace;
mod redis;
#[cfg(target_os = "linux")]
mod wrong_clock;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use latchwork_servers::{Kind, Options, Server, ask};
use serde_json::Value;

use crate::common::{Fixture, program, ran};

async fn examined(url: &str) -> (Option<i32>, Vec<(String, String)>) {
    let (code, out, err) = ran(program("", ["doctor", "--json", url])).await;
    let findings: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    let finding = |finding: &Value| {
        let level = finding["level"].as_str().expect("a level").to_owned();
        (level, format!("{}: {} do: {}", finding["about"], finding["what"], finding["next"]))
    };
    (code, findings.as_array().expect("findings").iter().map(finding).collect())
}

async fn finds(url: &str, words: &[&str]) -> Vec<(String, String)> {
    let (code, findings) = examined(url).await;
    assert_eq!(code, Some(0), "{findings:#?}");
    for words in words {
        assert!(findings.iter().any(|(_, said)| said.contains(words)), "{words}: {findings:#?}");
    }
    findings
}

async fn names(url: &str, words: &str) {
    let (code, findings) = examined(url).await;
    let faults: Vec<_> = findings.iter().filter(|(level, _)| level == "fault").collect();
    let named = faults.iter().any(|(_, said)| said.contains(words) && !said.ends_with("do: null"));
    assert!(code == Some(122) && named, "{code:?}, not {words:?}: {findings:#?}");
}

/// Every server grants this TTL, and a busy machine can keep it.
fn patient(server: &Server) -> String {
    format!("{}?ttl=30s&connect_timeout=20s", server.url())
}

async fn redis(arguments: &[&str]) -> Server {
    let options = Options::new().own().args(arguments.iter().copied());
    Server::start(Kind::Redis, options).await.expect("a Redis")
}

#[tokio::test]
async fn a_right_server_has_no_fault_and_nothing_is_left_there() {
    let fixture = Fixture::new().await;
    let findings = finds(&fixture.url, &[]).await;
    for about in [
        "connection",
        "server",
        "topology",
        "role",
        "clock",
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
        let about = format!("{about:?}");
        assert!(findings.iter().any(|(_, said)| said.starts_with(&about)), "{about}: {findings:#?}");
    }
    let keys = ask(fixture.server.addr(), "KEYS *latchwork-doctor*\r\nQUIT\r\n").await.expect("an answer");
    let left: Vec<_> = keys.lines().filter(|line| line.contains("doctor")).collect();
    let last_tokens_only = left.iter().all(|key| key.ends_with(":one") || key.ends_with(":last"));
    assert!(last_tokens_only, "{left:?}");
}

#[tokio::test]
async fn the_url_is_an_argument_or_the_option_of_all_subcommands() {
    let server = redis(&[]).await;
    let (code, out, err) = ran(program("", ["doctor", "--url", &patient(&server)])).await;
    assert!(code == Some(0) && out.contains(server.addr()), "{out}{err}");
    let (code, out, err) = ran(program("", ["doctor", server.url(), "--url", server.url()])).await;
    assert_eq!(code, Some(125), "{out}{err}");
}

#[tokio::test]
async fn people_are_shown_what_to_do() {
    let server = redis(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]).await;
    let (_, said, _) = ran(program("", ["doctor", server.url()])).await;
    for part in ["FAULT  eviction: ", "do: set maxmemory-policy noeviction"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains('\u{1b}'), "no colours without a terminal: {said}");
}
