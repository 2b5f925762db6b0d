pub(crate) mod acls;
pub(crate) mod rewriter;
mod servers;

use std::sync::Arc;
use std::time::Duration;

use latchwork_conformance::actions::join_of;
use latchwork_conformance::proxy::{Direction, Proxy};
use latchwork_core::backend::{Backend, EntryPage, Join, NodeId};
use latchwork_core::recipes::{Mutex, MutexGuard};
use latchwork_core::{
    Address, Claim, Config, Coordinator, Key, Kind, Lease, LeaseState, Result, Secret, connect,
};
use latchwork_zookeeper::connector;
use tokio::task::JoinHandle;
use zookeeper_client::{Acls, Client, Connector, CreateMode};

pub(crate) use latchwork_conformance::actions::{admitted_node as admitted, waiting_node as waiting};
pub(crate) use latchwork_conformance::patience::{PATIENCE, soon, until};
pub(crate) use servers::{
    alone, beside_none, beside_others, count, own_server, server, sessions, settled_watches, started,
    try_count, watches,
};

pub(crate) mod request {
    pub(crate) const DELETE: i32 = 2;
    pub(crate) const EXISTS: i32 = 3;
    pub(crate) const READ: i32 = 4;
    /// In these tests, a proof of contact.
    pub(crate) const SET_DATA: i32 = 5;
    pub(crate) const LIST: i32 = 8;
    pub(crate) const MULTI: i32 = 14;
    pub(crate) const CREATE2: i32 = 15;
}

pub(crate) const ALL: EntryPage = EntryPage::new(0, 1000);

/// With a new namespace. No pause of the machine ends its session or a request.
pub(crate) fn config(addr: &str) -> Config {
    let namespace = format!("t{}", &NodeId::random().to_string()[..12]);
    let url = format!(
        "zookeeper://{addr}?namespace={namespace}&ttl=40s&tick=100ms&request_timeout=15s&connect_timeout=30s"
    );
    url.parse().unwrap()
}

pub(crate) async fn place() -> (Config, Arc<dyn Backend>, Client) {
    let addr = server().await.addr();
    let config = config(addr);
    let backend = backend(&config).await;
    (config, backend, stranger(addr).await)
}

pub(crate) async fn proxied() -> (Config, Proxy, [Arc<dyn Backend>; 2]) {
    proxied_with(|_| ()).await
}

pub(crate) async fn proxied_with(change: impl FnOnce(&mut Config)) -> (Config, Proxy, [Arc<dyn Backend>; 2]) {
    let config = config(server().await.addr());
    let (proxy, clients) = one_proxied_with(&config, change).await;
    (config, proxy, clients)
}

pub(crate) async fn one_proxied(config: &Config) -> (Proxy, [Arc<dyn Backend>; 2]) {
    one_proxied_with(config, |_| ()).await
}

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

pub(crate) fn with_login(config: &Config) -> Config {
    let mut config = config.clone();
    (config.user, config.password) = (Some("app".to_owned()), Some(Secret::new("secret")));
    config
}

pub(crate) async fn owner(addr: &str) -> Client {
    foreign().with_auth("digest", b"app:secret").connect(addr).await.unwrap()
}

pub(crate) async fn at(config: &Config) -> Result<Coordinator> {
    soon(connect(&[connector()], config)).await
}

pub(crate) fn foreign() -> Connector {
    Client::connector()
        .with_session_timeout(Duration::from_secs(60))
        .with_connection_timeout(Duration::from_secs(30))
}

pub(crate) async fn stranger(addr: &str) -> Client {
    foreign().connect(addr).await.unwrap()
}

pub(crate) async fn plant(stranger: &Client, path: &str, mode: CreateMode) -> String {
    let (_, counter) = stranger.create(path, b"stranger", &mode.with_acls(Acls::anyone_all())).await.unwrap();
    if counter.into_i64() < 0 { path.to_owned() } else { format!("{path}{counter}") }
}

/// Sorted by number.
pub(crate) async fn stored(stranger: &Client, directory: &str) -> Vec<Vec<u8>> {
    let mut names = stranger.list_children(directory).await.unwrap();
    names.sort_by_key(|name| name.rsplit('-').next().map(str::to_owned));
    let mut stored = Vec::new();
    for name in names {
        stored.push(stranger.get_data(&format!("{directory}/{name}")).await.unwrap().0);
    }
    stored
}

pub(crate) fn is_marked(data: &[u8]) -> bool {
    data.ends_with(b"\0admitted")
}

pub(crate) fn address(config: &Config, kind: Kind, name: impl Into<Key>) -> Address {
    Address::new(&config.namespace, kind, name).unwrap()
}

pub(crate) fn long_key(number: usize) -> String {
    format!("{number:0>3}{}", "/".repeat(252))
}

pub(crate) fn join(queue: &Address, claim: Claim) -> Join {
    Join { label: "tester".into(), ..join_of(queue, claim) }
}

pub(crate) async fn acquiring_behind(mutex: &Mutex) -> JoinHandle<Result<MutexGuard>> {
    let waiter = mutex.clone();
    let waits = tokio::spawn(async move { waiter.acquire().await });
    soon(async { while mutex.queue().first(10).await.unwrap().len() < 2 {} }).await;
    assert!(!waits.is_finished());
    waits
}

pub(crate) async fn suspended(lease: &Lease) {
    soon(async { while lease.changed(LeaseState::Live).await != LeaseState::Suspended {} }).await;
}

pub(crate) async fn loses_its_session(client: &Coordinator, proxy: &Proxy) {
    let hold = soon(client.mutex("a").unwrap().acquire()).await.unwrap();
    proxy.hold(Direction::ToServer);
    proxy.hold(Direction::ToClient);
    let lease = client.lease();
    lease.clock().jump(lease.ttl());
    soon(hold.lost()).await;
    proxy.resume();
}

/// No check of speed: a re-check after 30 s would hide a lost event.
pub(crate) async fn promptly<T>(work: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(Duration::from_secs(20), work).await;
    ended.expect("no event within 20 s; after 30 s a re-check would hide that")
}

/// Round trips of another request: then the wait was polled after all events so far.
pub(crate) async fn still_waits(
    backend: &Arc<dyn Backend>,
    queue: &Address,
    admission: impl Future<Output = Result<()>>,
) -> bool {
    tokio::select! {
        biased;
        _ = admission => false,
        () = async {
            for _ in 0..5 {
                backend.list(queue, EntryPage::new(0, 1)).await.unwrap();
            }
        } => true,
    }
}

/// All events of earlier changes arrive before the answer.
pub(crate) async fn hear(backend: &Arc<dyn Backend>, config: &Config) {
    let nothing = address(config, Kind::Value, "nothing");
    assert_eq!(soon(backend.read_cell(&nothing)).await.unwrap(), None);
}

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
