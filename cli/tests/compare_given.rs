//! Each given server is measured, and no key remains on it.

use crate::common::{keys, program, ran};
use latchwork_servers::{Certificates, Kind, Options, Server, Validity};
use serde_json::Value;

pub(crate) async fn compared(url: &str) -> Value {
    let only = "--only=alone,link,wire,crash";
    let arguments = ["compare", url, "--yes", "--quick", "--rounds=1", only, "--json"];
    let (code, out, said) = ran(program("", arguments)).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("the namespace latchwork-compare-") && said.contains("is deleted"), "{said}");
    serde_json::from_str(&out).expect("JSON")
}

fn figure(json: &Value, id: &str) -> Option<f64> {
    let figure = json["figures"].as_array()?.iter().find(|figure| figure["id"] == id)?;
    figure["values"].as_object()?.values().next()?["spread"]["median"].as_f64()
}

/// The proxy passes TLS through.
fn is_measured_with_a_link(json: &Value) {
    assert!(figure(json, "alone.p50") > Some(0.0) && figure(json, "crash.ttl") > Some(0.0), "{json:#}");
    assert!(figure(json, "link.10") >= Some(10_000.0), "{json:#}");
    assert!(figure(json, "bytes.all") > Some(100.0) && figure(json, "wakes") >= Some(1.0), "{json:#}");
    assert!(json["coordinators"][0]["version"].as_str().is_some_and(|version| version.contains('.')));
}

/// The proxy cannot be in the way of announced addresses.
pub(crate) fn is_measured_without_a_link(json: &Value) {
    assert!(figure(json, "alone.p50") > Some(0.0) && figure(json, "crash.ttl") > Some(0.0), "{json:#}");
    let left_out = json["coordinators"][0]["left_out"].as_array().expect("a list");
    for what in ["a link of 10 ms", "bytes and wake-ups"] {
        let why = left_out.iter().find(|left| left["what"] == what).map(|left| left["why"].to_string());
        assert!(why.is_some_and(|why| why.contains("without the proxy")), "{what} in {left_out:?}");
    }
}

async fn secured(kind: Kind) -> (Server, Certificates, String) {
    // Not the address of the proxy.
    let certificates = Certificates::of(&["localhost"], Validity::Now).expect("certificates");
    let server = Server::start(kind, Options::new().tls(certificates.server(true))).await.expect("a server");
    let (addr, options) = (server.tls_addr().expect("it speaks TLS"), certificates.mutual());
    let addr = addr.replace("127.0.0.1", "localhost");
    let tls = if kind == Kind::Redis { "rediss".to_owned() } else { format!("{kind}+tls") };
    let url = format!("{tls}://{addr}?{options}&connect_timeout=30s&request_timeout=10s");
    (server, certificates, url)
}

#[tokio::test]
async fn a_redis_over_tls() {
    let (server, _certificates, url) = secured(Kind::Redis).await;
    is_measured_with_a_link(&compared(&url).await);
    assert!(keys(server.addr()).await.starts_with("*0"), "{}", keys(server.addr()).await);
}

#[cfg(feature = "zookeeper")]
#[tokio::test]
async fn a_zookeeper_over_tls() {
    let (server, _certificates, url) = secured(Kind::Zookeeper).await;
    is_measured_with_a_link(&compared(&url).await);
    let operator = zookeeper_client::Client::connect(server.addr()).await.expect("a session");
    let left = operator.list_children("/").await.expect("a list");
    assert!(left.iter().all(|name| !name.starts_with("latchwork")), "{left:?}");
}

#[cfg(feature = "etcd")]
#[tokio::test]
async fn an_etcd_over_tls() {
    let (server, _certificates, url) = secured(Kind::Etcd).await;
    is_measured_with_a_link(&compared(&url).await);
    let all = r#"{"key":"AA==","range_end":"AA==","count_only":true}"#;
    let length = all.len();
    let request = format!("POST /v3/kv/range HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{all}");
    let answer = latchwork_servers::ask(server.addr(), &request).await.expect("an answer");
    assert!(answer.contains("200 OK") && !answer.contains("count"), "{answer}");
}
