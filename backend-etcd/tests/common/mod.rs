mod companion;
mod etcdctl;
pub(crate) mod losing;

use std::sync::Arc;
use std::time::Duration;

use latchwork_conformance::actions::{entered, join_of};
use latchwork_conformance::proxy::Proxy;
use latchwork_conformance::servers::{self, Kind, Options, Server};
use latchwork_core::backend::{CellWrite, CellWritten, Join, Joined, Node, Patience};
use latchwork_core::recipes::{Mutex, MutexGuard};
use latchwork_core::{Address, Claim, Config, Coordinator, Key, Kind as Lock, Lease, Limit, Result, connect};
use tempfile::NamedTempFile;
use tokio::task::JoinHandle;

pub(crate) use latchwork_conformance::patience::{soon, until};

pub(crate) use companion::Companion;
pub(crate) use etcdctl::{
    Running, as_root, command, etcdctl, field, keys, lease_of, require_log_in, revision, until_keys, value,
};

/// The server checks passwords one after another, so each check must be fast.
pub(crate) const QUICK_LOG_INS: &str = "--bcrypt-cost=4";

pub(crate) async fn server() -> Server {
    started(Options::new()).await
}

pub(crate) async fn started(options: Options) -> Server {
    let options = options.own().args([QUICK_LOG_INS]);
    Server::start(Kind::Etcd, options).await.unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) async fn server_with_users(options: Options) -> Server {
    let server = started(options).await;
    require_log_in(&server).await;
    server
}

pub(crate) async fn served(options: &str) -> (Server, Coordinator) {
    let server = server().await;
    let client = client(&server, options).await;
    (server, client)
}

/// For signed tokens with this lifetime. The file contains the key.
pub(crate) fn signed_tokens(lasts: &str) -> (NamedTempFile, [String; 2]) {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(&file, b"only for this test").unwrap();
    let token = format!("jwt,sign-method=HS256,ttl={lasts},priv-key={}", file.path().display());
    (file, ["--auth-token".to_owned(), token])
}

/// Unless `options` say otherwise, requests outlast a pause of the server, for example for a busy disk.
pub(crate) fn config(server: &Server, options: &str) -> Config {
    patient(&format!("{}?{options}", server.url()))
}

pub(crate) fn login_config(server: &Server, login: &str, options: &str) -> Config {
    patient(&format!("etcd://{login}@{}?{options}", server.addr()))
}

pub(crate) fn patient(url: &str) -> Config {
    let mut config = Config::from_url(url).unwrap();
    // No pause of the machine ends such a lease.
    if !url.contains("ttl=") {
        config.ttl = Duration::from_secs(40);
    }
    if !url.contains("request_timeout") {
        config.request_timeout = Duration::from_secs(10);
    }
    if !url.contains("connect_timeout") {
        config.connect_timeout = Duration::from_secs(15);
    }
    config
}

pub(crate) async fn at(config: &Config) -> Result<Coordinator> {
    soon(connect(&[latchwork_etcd::connector()], config)).await
}

pub(crate) async fn client(server: &Server, options: &str) -> Coordinator {
    at(&config(server, options)).await.unwrap()
}

pub(crate) async fn proxied(server: &Server, options: &str) -> (Proxy, Coordinator) {
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let mut config = config(server, options);
    config.hosts = vec![proxy.addr().to_string()];
    (proxy, at(&config).await.unwrap())
}

/// Waits for the answer to a renewal that is sent after this call.
pub(crate) async fn renewed(lease: &Lease) {
    let proven = lease.clock().now() + (lease.ttl() - lease.margin());
    until(async || {
        assert_eq!(lease.lost(), None);
        lease.deadline() >= proven
    })
    .await;
}

pub(crate) fn contains(chunk: &[u8], part: impl AsRef<[u8]>) -> bool {
    chunk.windows(part.as_ref().len()).any(|window| window == part.as_ref())
}

pub(crate) fn cell(name: impl Into<Key>) -> Address {
    Address::new("latchwork", Lock::Value, name).unwrap()
}

pub(crate) async fn write_cell(
    client: &Coordinator,
    cell: &Address,
    write: &CellWrite,
) -> Result<CellWritten> {
    soon(client.backend().write_cell(cell, write)).await
}

pub(crate) fn queue(kind: Lock) -> Address {
    Address::new("latchwork", kind, "a").unwrap()
}

pub(crate) fn ask(kind: Lock, claim: Claim, limit: Option<u32>, patience: Patience) -> Join {
    let limit = limit.map_or(Limit::Stored, Limit::Exactly);
    Join { limit, patience, ..join_of(&queue(kind), claim) }
}

pub(crate) async fn join(
    client: &Coordinator,
    kind: Lock,
    claim: Claim,
    limit: Option<u32>,
) -> (bool, Arc<dyn Node>) {
    entered(client.backend().join(&ask(kind, claim, limit, Patience::Wait)).await)
}

pub(crate) async fn attempt(
    client: &Coordinator,
    kind: Lock,
    claim: Claim,
    limit: Option<u32>,
) -> Option<Arc<dyn Node>> {
    match client.backend().join(&ask(kind, claim, limit, Patience::Try)).await.unwrap() {
        Joined::Admitted(node) => Some(node),
        Joined::Refused => None,
        Joined::Waiting(_) => panic!("a try waits"),
    }
}

pub(crate) fn wait(node: &Arc<dyn Node>) -> JoinHandle<Result<()>> {
    let node = Arc::clone(node);
    tokio::spawn(async move { node.admitted().await })
}

pub(crate) async fn still_waits(wait: &mut JoinHandle<Result<()>>) {
    let ended = tokio::time::timeout(Duration::from_millis(300), wait).await;
    assert!(ended.is_err(), "admitted out of turn: {ended:?}");
}

pub(crate) fn acquiring(mutex: &Mutex) -> JoinHandle<Result<MutexGuard>> {
    let mutex = mutex.clone();
    tokio::spawn(async move { mutex.acquire().await })
}

/// The sum of the metrics whose lines begin with this text.
pub(crate) async fn metric(server: &Server, line: &str) -> u64 {
    // With HTTP/1.1 the page would come in chunks, with lengths in between.
    let page = servers::ask(server.addr(), "GET /metrics HTTP/1.0\r\n\r\n").await.unwrap();
    let lines = page.lines().filter(|found| found.starts_with(line));
    lines.map(|found| found.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64).sum()
}
