//! Fixtures: servers, clients in a namespace of their own, and a foreign client.

pub(crate) mod acls;
pub(crate) mod rewriter;
mod servers;

use std::sync::Arc;
use std::time::Duration;

use latchwork_conformance::proxy::Proxy;
use latchwork_core::backend::{Backend, Join, Joined, Node, NodeId, Patience};
use latchwork_core::{Address, Claim, Config, Coordinator, Key, Limit, Result};
use latchwork_zookeeper::connector;
use zookeeper_client::{Acls, Client, Connector, CreateMode};

pub(crate) use servers::{
    alone, beside_none, beside_others, count, own_server, server, sessions, settled_watches, started, watches,
};

/// The bound of every wait. Only a wait that hangs reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The configuration of a client in a namespace that no other test has. No pause of the machine ends its session, and
/// no request of it takes longer than it may.
pub(crate) fn config(addr: &str) -> Config {
    let namespace = format!("t{}", &NodeId::random().to_string()[..12]);
    let url = format!(
        "zookeeper://{addr}?namespace={namespace}&ttl=40s&tick=100ms&request_timeout=15s&connect_timeout=30s"
    );
    url.parse().unwrap()
}

/// Two clients, the first of them behind a proxy.
pub(crate) async fn one_proxied(config: &Config) -> (Proxy, [Arc<dyn Backend>; 2]) {
    one_proxied_with(config, |_| ()).await
}

/// As [`one_proxied`], with a change in the configuration of the first.
pub(crate) async fn one_proxied_with(
    config: &Config,
    change: impl FnOnce(&mut Config),
) -> (Proxy, [Arc<dyn Backend>; 2]) {
    let proxy = Proxy::start(config.hosts[0].as_str()).await.unwrap();
    let mut through = config.clone();
    through.hosts = vec![proxy.addr().to_string()];
    change(&mut through);
    (proxy, [backend(&through).await, backend(config).await])
}

pub(crate) async fn backend(config: &Config) -> Arc<dyn Backend> {
    try_backend(config).await.unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) async fn try_backend(config: &Config) -> Result<Arc<dyn Backend>> {
    connector().connect(config).await
}

pub(crate) async fn coordinator(config: &Config) -> Coordinator {
    Coordinator::new(backend(config).await, config)
}

/// A client of another program, before it connects.
pub(crate) fn foreign() -> Connector {
    Client::connector()
        .with_session_timeout(Duration::from_secs(60))
        .with_connection_timeout(Duration::from_secs(30))
}

/// A client of another program.
pub(crate) async fn stranger(addr: &str) -> Client {
    foreign().connect(addr).await.unwrap()
}

/// Makes a node as another program would, and answers its path.
pub(crate) async fn put(stranger: &Client, path: &str, mode: CreateMode) -> String {
    let (_, counter) = stranger.create(path, b"stranger", &mode.with_acls(Acls::anyone_all())).await.unwrap();
    if counter.into_i64() < 0 { path.to_owned() } else { format!("{path}{counter}") }
}

pub(crate) fn address(config: &Config, kind: latchwork_core::Kind, name: impl Into<Key>) -> Address {
    Address::new(&config.namespace, kind, name).unwrap()
}

pub(crate) fn join(queue: &Address, claim: Claim) -> Join {
    Join {
        queue: queue.clone(),
        id: NodeId::random(),
        claim,
        limit: match claim {
            Claim::Permits(_) => Limit::Exactly(2),
            _ => Limit::Stored,
        },
        label: "tester".into(),
        data: Default::default(),
        patience: Patience::Wait,
        repeated: false,
    }
}

/// The node of a join that must be admitted at once.
pub(crate) fn admitted(joined: Result<Joined>) -> Arc<dyn Node> {
    match joined {
        Ok(Joined::Admitted(node)) => node,
        other => panic!("not admitted: {other:?}"),
    }
}

/// The node of a join that must wait.
pub(crate) fn waiting(joined: Result<Joined>) -> Arc<dyn Node> {
    match joined {
        Ok(Joined::Waiting(node)) => node,
        other => panic!("not waiting: {other:?}"),
    }
}

/// Awaits what must come.
pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work)
        .await
        .unwrap_or_else(|_| panic!("it hangs: no end within {PATIENCE:?}"))
}

/// Awaits the effect of an event. The bound asserts no speed: after 30 s, three quarters of the TTL, a re-check would
/// have the same effect and hide a lost event.
pub(crate) async fn promptly<T>(work: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(Duration::from_secs(20), work).await;
    ended.expect("no event within 20 s; after 30 s a re-check would hide that")
}

/// Whether the node's wait goes on. Round trips of another request on its client prove that it was
/// polled through everything that has happened.
pub(crate) async fn still_waits(
    backend: &Arc<dyn Backend>,
    queue: &Address,
    admission: impl Future<Output = Result<()>>,
) -> bool {
    let page = latchwork_core::backend::EntryPage::new(0, 1);
    tokio::select! {
        biased;
        _ = admission => false,
        () = async {
            for _ in 0..5 {
                backend.list(queue, page).await.unwrap();
            }
        } => true,
    }
}

/// A round trip of a client, which lists nothing. The events of what the server has done before come
/// before its answer, so those of one transaction are there together.
pub(crate) async fn hear(backend: &Arc<dyn Backend>, config: &Config) {
    let nothing = address(config, latchwork_core::Kind::Value, "nothing");
    assert_eq!(soon(backend.read_cell(&nothing)).await.unwrap(), None);
}

/// Whether a chunk from the client holds a request of this kind: length, xid, then its number.
pub(crate) fn holds(chunk: &[u8], wanted: i32) -> bool {
    let mut rest = chunk;
    while let Some((length, tail)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if tail.get(4..8) == Some(&wanted.to_be_bytes()) {
            return true;
        }
        rest = tail.get(length..).unwrap_or_default();
    }
    false
}
