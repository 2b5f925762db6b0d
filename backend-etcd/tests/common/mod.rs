//! Set-ups of the tests: a server of their own, clients, joins below the recipes, and etcdctl.

pub(crate) mod losing;

use std::ffi::OsStr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use latchwork_conformance::proxy::Proxy;
use latchwork_conformance::servers::{self, Kind, Options, Server};
use latchwork_core::backend::{Join, Joined, Node, NodeId, Patience};
use latchwork_core::recipes::{Mutex, MutexGuard};
use latchwork_core::{Address, Claim, Config, Coordinator, Kind as Lock, Lease, Limit, Result, connect};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

/// The bound of every wait. Only a wait that never ends reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The server compares one password after the other, so it is to spend little on each.
pub(crate) const QUICK_LOG_INS: &str = "--bcrypt-cost=4";

pub(crate) async fn server() -> Server {
    let options = Options::new().own().args([QUICK_LOG_INS]);
    Server::start(Kind::Etcd, options).await.unwrap_or_else(|error| panic!("{error}"))
}

/// The configuration of a client. Unless `options` say otherwise, its requests wait for a server
/// that stands still for a while, as one with a busy disk does.
pub(crate) fn config(server: &Server, options: &str) -> Config {
    patient(&format!("{}?{options}", server.url()))
}

/// As [`config`], for a login: `user:password`.
pub(crate) fn login_config(server: &Server, login: &str, options: &str) -> Config {
    patient(&format!("etcd://{login}@{}?{options}", server.addr()))
}

/// The configuration of a URL, patient as [`config`] unless the URL says otherwise.
pub(crate) fn patient(url: &str) -> Config {
    let mut config = Config::from_url(url).unwrap();
    // No stall of the machine ends such a lease.
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

pub(crate) async fn client(server: &Server, options: &str) -> Coordinator {
    connect(&[latchwork_etcd::connector()], &config(server, options)).await.unwrap()
}

/// A client, and a proxy between it and the server.
pub(crate) async fn proxied(server: &Server, options: &str) -> (Proxy, Coordinator) {
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let mut config = config(server, options);
    config.hosts = vec![proxy.addr().to_string()];
    (proxy, connect(&[latchwork_etcd::connector()], &config).await.unwrap())
}

/// Waits for the answer to a renewal that is sent after this call. No event reports one, so it polls the client.
pub(crate) async fn renewed(lease: &Lease) {
    let proven = lease.clock().now() + (lease.ttl() - lease.margin());
    soon(async {
        while lease.deadline() < proven {
            assert_eq!(lease.lost(), None);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

pub(crate) async fn soon<F: Future>(what: F) -> F::Output {
    tokio::time::timeout(PATIENCE, what).await.expect("no end in sight")
}

/// A join of the queue `a` of a kind.
pub(crate) fn ask(kind: Lock, claim: Claim, limit: Option<u32>, patience: Patience) -> Join {
    Join {
        queue: Address::new("latchwork", kind, "a").unwrap(),
        id: NodeId::random(),
        claim,
        limit: limit.map_or(Limit::Stored, Limit::Exactly),
        label: Arc::from("claims"),
        data: Default::default(),
        patience,
        repeated: false,
    }
}

/// Joins: whether the node is admitted, and the node.
pub(crate) async fn join(
    client: &Coordinator,
    kind: Lock,
    claim: Claim,
    limit: Option<u32>,
) -> (bool, Arc<dyn Node>) {
    match client.backend().join(&ask(kind, claim, limit, Patience::Wait)).await.unwrap() {
        Joined::Admitted(node) => (true, node),
        Joined::Waiting(node) => (false, node),
        Joined::Refused => panic!("only a try is refused"),
    }
}

/// Tries: the node, if it is admitted.
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

/// Starts the wait of a node.
pub(crate) fn wait(node: &Arc<dyn Node>) -> JoinHandle<Result<()>> {
    let node = Arc::clone(node);
    tokio::spawn(async move { node.admitted().await })
}

/// Asserts that the wait goes on, for longer than any event of the server takes.
pub(crate) async fn still_waits(wait: &mut JoinHandle<Result<()>>) {
    let ended = tokio::time::timeout(Duration::from_millis(300), wait).await;
    assert!(ended.is_err(), "admitted out of turn: {ended:?}");
}

/// Starts an acquire that waits.
pub(crate) fn acquiring(mutex: &Mutex) -> JoinHandle<Result<MutexGuard>> {
    let mutex = mutex.clone();
    tokio::spawn(async move { mutex.acquire().await })
}

/// The lease, in hex, of the only node of a mutex.
pub(crate) async fn lease_of(server: &Server, key: &str) -> String {
    let node = until_keys(server, &format!("latchwork/mutex/{key}/"), 1).await.remove(0);
    node.rsplit('/').next().unwrap().split('-').next().unwrap().to_owned()
}

/// Makes a server ask for a log-in: `root:secret` may do everything, `app:hunter2` may use the
/// namespace, and `stranger:hunter2` may log in.
pub(crate) async fn require_log_in(server: &Server) {
    for arguments in [
        &["user", "add", "root:secret"][..],
        &["user", "add", "app:hunter2"],
        &["user", "add", "stranger:hunter2"],
        &["role", "add", "locks"],
        &["role", "grant-permission", "locks", "--prefix=true", "readwrite", "latchwork/"],
        &["user", "grant-role", "app", "locks"],
        &["user", "grant-role", "root", "root"],
        &["auth", "enable"],
    ] {
        etcdctl(server, arguments).await;
    }
}

/// An etcdctl, not started.
pub(crate) fn command<A: AsRef<OsStr>>(server: &Server, arguments: &[A]) -> Command {
    let mut command = Command::new("etcdctl");
    // The default timeouts are short.
    let patient = ["--dial-timeout=60s", "--command-timeout=60s", "--endpoints", server.addr()];
    command.env("ETCDCTL_API", "3").args(patient).args(arguments).kill_on_drop(true);
    command
}

/// Runs etcdctl, and answers its output.
pub(crate) async fn etcdctl<A: AsRef<OsStr>>(server: &Server, arguments: &[A]) -> String {
    let output = soon(command(server, arguments).output()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Starts an etcdctl that runs until it is dropped.
pub(crate) fn etcdctl_running(server: &Server, arguments: &[&str]) -> Child {
    command(server, arguments).stdout(Stdio::piped()).spawn().unwrap()
}

/// All keys with a prefix, but for those of the connected clients and of the layout.
pub(crate) async fn keys(server: &Server, prefix: &str) -> Vec<String> {
    let listed = etcdctl(server, &["get", "--prefix", "--keys-only", prefix]).await;
    let of_clients = |line: &str| line.contains("/clients/all/") || line.ends_with("/layout/stamp");
    listed.lines().filter(|line| !line.is_empty() && !of_clients(line)).map(str::to_owned).collect()
}

/// Waits until so many keys have the prefix. No client reports that, so it polls the server.
pub(crate) async fn until_keys(server: &Server, prefix: &str, count: usize) -> Vec<String> {
    soon(async {
        loop {
            let keys = keys(server, prefix).await;
            if keys.len() == count {
                return keys;
            }
        }
    })
    .await
}

/// The value of a key.
pub(crate) async fn value(server: &Server, key: &str) -> String {
    etcdctl(server, &["get", "--print-value-only", key]).await.trim_end_matches('\n').to_owned()
}

/// A number in etcdctl's answer about a key.
pub(crate) async fn field(server: &Server, key: &str, name: &str) -> Option<u64> {
    let fields = etcdctl(server, &["get", "-w", "fields", key]).await;
    let value = fields.lines().find_map(|line| line.strip_prefix(&format!("\"{name}\" : ")));
    value.map(|value| value.parse().unwrap())
}

/// The server's revision, which rises with every write.
pub(crate) async fn revision(server: &Server) -> u64 {
    field(server, "nothing", "Revision").await.expect("a revision")
}

/// The sum of the server's metrics whose lines begin so.
pub(crate) async fn metric(server: &Server, line: &str) -> u64 {
    // By HTTP/1.1 it would come in chunks, whose lengths stand between lines or within one.
    let page = servers::ask(server.addr(), "GET /metrics HTTP/1.0\r\n\r\n").await.unwrap();
    let lines = page.lines().filter(|found| found.starts_with(line));
    lines.map(|found| found.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64).sum()
}
