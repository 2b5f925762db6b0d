use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{Client, ConnectOptions, GetOptions};
use futures_util::future::try_join_all;
use latchwork_core::backend::clients_address;
use latchwork_core::{Address, Capabilities, Error, ErrorKind, Kind, Result, encode};
use tokio::process::Command;

use super::memory;
use super::proxied::{Admin, NAMESPACES, OpenAdmin, ServerTestbed};
use crate::testbed::{of_a_case, stamps};
use latchwork_servers::{Ensemble, Server, ask};

const CAPABILITIES: Capabilities = Capabilities { survives_failover: true, ..memory::CAPABILITIES };

/// etcd scans leases each half second, and may need a second for a revocation.
const EXPIRY_BOUND: Duration = Duration::from_millis(1500);

const EXACT_NAMES: &str = "exact-";

/// The user and the password.
const OPERATOR: [&str; 2] = ["operator", "operator"];

/// Creates the testbed of a server.
///
/// # Errors
/// As [`ServerTestbed::new`].
pub fn etcd_testbed(server: Server) -> Result<ServerTestbed> {
    let hosts = vec![server.addr().to_owned()];
    Ok(over(server.url(), hosts, |addr| Box::pin(open_admin(addr, None)))?.keeping(server))
}

/// Creates the testbed of a cluster, which ends with it.
///
/// # Errors
/// As [`ServerTestbed::new`].
pub fn etcd_cluster_testbed(cluster: Arc<Ensemble>) -> Result<ServerTestbed> {
    let hosts = (0..cluster.size()).map(|server| cluster.addr(server)).collect();
    let testbed = over(&cluster.url(), hosts, |addr| Box::pin(open_admin(addr, None)))?;
    Ok(testbed.called("etcd-3").keeping(cluster))
}

/// Creates the testbed of a server with authentication. The guide's `commands` create the user, with the suite's prefixes.
///
/// # Errors
/// If the commands create no user or fail.
pub async fn etcd_auth_testbed(server: Server, commands: &str) -> Result<ServerTestbed> {
    let mut lines: Vec<_> =
        commands.lines().filter_map(|line| line.trim().strip_prefix("etcdctl ")).map(str::to_owned).collect();
    let login = lines.iter().filter_map(|line| line.strip_prefix("user add "));
    let login = login.filter(|login| !login.starts_with("root:")).find_map(|login| login.split_once(':'));
    let (user, password) = login.ok_or_else(|| Error::invalid("commands", "no command adds a user"))?;
    let (user, password) = (user.to_owned(), password.to_owned());
    let grant = lines.iter().position(|line| line.ends_with(" latchwork/"));
    let grant = grant.ok_or_else(|| Error::invalid("commands", "no command grants `latchwork/`"))?;
    let places = [NAMESPACES, EXACT_NAMES, EXACT];
    let grants = places.map(|place| lines[grant].replace(" latchwork/", &format!(" {place}")));
    lines.splice(grant..=grant, grants);
    let [operator, word] = OPERATOR;
    etcdctl(server.addr(), &format!("user add {operator}:{word}")).await?;
    etcdctl(server.addr(), &format!("user grant-role {operator} root")).await?;
    for line in &lines {
        etcdctl(server.addr(), line).await?;
    }
    let hosts = vec![server.addr().to_owned()];
    let testbed = over(server.url(), hosts, |addr| {
        let [operator, word] = OPERATOR;
        Box::pin(open_admin(addr, Some(ConnectOptions::new().with_user(operator, word))))
    })?;
    Ok(testbed.called("etcd-auth").logged_in(&user, &password).keeping(server))
}

async fn etcdctl(addr: &str, line: &str) -> Result<()> {
    let failed = || Error::new(ErrorKind::Unavailable, format!("etcdctl {line}"));
    let mut command = Command::new("etcdctl");
    command.env("ETCDCTL_API", "3").args(["--endpoints", addr]).args(line.split(' ')).kill_on_drop(true);
    let output = command.output().await.map_err(|error| failed().because(error))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            Err(failed().because(std::io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())))
        }
    }
}

fn over(url: &str, hosts: Vec<String>, admin: OpenAdmin) -> Result<ServerTestbed> {
    let connector = latchwork_etcd::connector();
    ServerTestbed::new(url, hosts, connector, CAPABILITIES, EXPIRY_BOUND, EXACT_NAMES, admin)
}

async fn open_admin(addr: String, options: Option<ConnectOptions>) -> Result<Box<dyn Admin>> {
    let hosts: Vec<_> = addr.split(',').map(|addr| format!("http://{addr}")).collect();
    let client = Client::connect(hosts, options).await.map_err(unavailable)?;
    Ok(Box::new(EtcdAdmin { client, addr }))
}

struct EtcdAdmin {
    client: Client,
    addr: String,
}

/// Other programs have no layout for these kinds.
const EXACT: &str = "latchwork:exact/";

fn prefix(queue: &Address) -> String {
    match queue.namespace() {
        Some(namespace) => format!("{namespace}/{}/{}/", queue.kind().as_str(), queue.coded()),
        None if matches!(queue.kind(), Kind::Mutex | Kind::Election) => format!("{}/", queue.coded()),
        None => format!("{EXACT}{}/{}/", queue.kind().as_str(), encode(queue.coded())),
    }
}

impl EtcdAdmin {
    /// With create revisions.
    async fn keys(&self, prefix: String) -> Result<Vec<(String, i64)>> {
        let options = GetOptions::new().with_prefix().with_keys_only();
        let answer = self.client.clone().get(prefix, Some(options)).await.map_err(unavailable)?;
        let key = |kv: &etcd_client::KeyValue| {
            (String::from_utf8_lossy(kv.key()).into_owned(), kv.create_revision())
        };
        Ok(answer.kvs().iter().map(key).collect())
    }
}

#[async_trait]
impl Admin for EtcdAdmin {
    async fn contents(&self, namespace: &str, names: &[String]) -> Result<Vec<String>> {
        let mut contents = Vec::new();
        for namespace in of_a_case(namespace) {
            contents.extend(self.keys(format!("{namespace}/")).await?);
        }
        for name in names {
            contents.extend(self.keys(format!("{name}/")).await?);
            for kind in Kind::QUEUES {
                contents.extend(self.keys(format!("{EXACT}{}/{}/", kind.as_str(), encode(name))).await?);
            }
        }
        // Limits, stamps and the suite's foreign entry may stay.
        let stamps: Vec<_> = stamps(namespace)?.iter().map(prefix).collect();
        let is_stamp = |key: &str| stamps.iter().any(|stamp| stamp.trim_end_matches('/') == key);
        let stays = |key: &str| key.contains("/limit/") || key.ends_with("/foreign") || is_stamp(key);
        Ok(contents.into_iter().map(|(key, _)| key).filter(|key| !stays(key)).collect())
    }

    async fn remove(&self, queue: &Address, sequence: u64) -> Result<()> {
        let keys = self.keys(prefix(queue)).await?;
        let found = keys.into_iter().find(|(_, revision)| u64::try_from(*revision) == Ok(sequence));
        let (key, _) = found.ok_or_else(|| Error::invalid("sequence", "no such node"))?;
        self.client.clone().delete(key, None).await.map(drop).map_err(unavailable)
    }

    async fn plant(&self, queue: &Address) -> Result<()> {
        let key = format!("{}foreign", prefix(queue));
        self.client.clone().put(key, "what is this", None).await.map(drop).map_err(unavailable)
    }

    async fn end_lease(&self, namespace: &str, label: &str) -> Result<Vec<Duration>> {
        let named = format!("\"label\":{}", serde_json::to_string(label).unwrap_or_default());
        let (mut leases, mut left) = (BTreeSet::new(), Vec::new());
        for namespace in of_a_case(namespace) {
            let clients = prefix(&clients_address(&namespace)?);
            let options = GetOptions::new().with_prefix();
            let answer = self.client.clone().get(clients, Some(options)).await.map_err(unavailable)?;
            let its = answer.kvs().iter().filter(|kv| String::from_utf8_lossy(kv.value()).contains(&named));
            leases.extend(its.map(etcd_client::KeyValue::lease));
        }
        for lease in leases {
            let told = self.client.clone().lease_time_to_live(lease, None).await.map_err(unavailable)?;
            // Rounded down; -1 for an ended lease.
            left.push(Duration::from_secs(u64::try_from(told.ttl() + 1).unwrap_or(0)));
            self.client.clone().lease_revoke(lease).await.map_err(unavailable)?;
        }
        Ok(left)
    }

    fn compacts(&self) -> bool {
        true
    }

    async fn compact(&self) -> Result<()> {
        let now = self.client.clone().get("now", None).await.map_err(unavailable)?;
        let revision = now.header().map_or(0, etcd_client::ResponseHeader::revision);
        match self.client.clone().compact(revision, None).await {
            // Another case has compacted a later revision.
            Err(error) if error.to_string().contains("has been compacted") => Ok(()),
            answer => answer.map(drop).map_err(unavailable),
        }
    }

    async fn requests(&self) -> Result<u64> {
        let of_each = self.addr.split(',').map(requests_started);
        Ok(try_join_all(of_each).await?.into_iter().sum())
    }
}

async fn requests_started(addr: &str) -> Result<u64> {
    let metrics = ask(addr, "GET /metrics HTTP/1.0\r\n\r\n").await;
    let metrics = metrics.map_err(|error| Error::new(ErrorKind::Unavailable, "no metrics").because(error))?;
    let started = |line: &str| {
        let value = line.strip_prefix("grpc_server_started_total")?.rsplit(' ').next()?;
        value.trim().parse::<f64>().ok()
    };
    Ok(metrics.lines().filter_map(started).sum::<f64>() as u64)
}

fn unavailable(error: etcd_client::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "the operator's connection").because(error)
}
