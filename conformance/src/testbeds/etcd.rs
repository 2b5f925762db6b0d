//! etcd.

use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{Client, GetOptions};
use latchwork_core::{Address, Capabilities, Error, ErrorKind, Eviction, Kind, Result, encode};

use super::proxied::{Admin, ServerTestbed};
use crate::testbed::{of_a_case, stamps};
use latchwork_servers::{Server, ask};

/// The testbed of an etcd server.
///
/// # Errors
/// `InvalidArgument` when the server's URL is none of ours.
pub fn etcd_testbed(server: Server) -> Result<ServerTestbed> {
    let capabilities = Capabilities {
        lease_per_node: false,
        clean_try: true,
        prompt_revocation: true,
        minimum_outlives_close: false,
        survives_failover: true,
        confirms_on_replicas: false,
        idle_cells: true,
        exact_addresses: true,
        held_writes: true,
        lease_left: true,
        eviction: Eviction::Never,
    };
    // Leases are scanned every half second; a second for the revocation to be applied.
    let expiry_bound = Duration::from_millis(1500);
    let hosts = vec![server.addr().to_owned()];
    let testbed = ServerTestbed::new(
        server.url(),
        hosts,
        latchwork_etcd::connector(),
        capabilities,
        expiry_bound,
        "exact-",
        |addr| {
            Box::pin(async move {
                let client = Client::connect([format!("http://{addr}")], None).await.map_err(unavailable)?;
                Ok(Box::new(EtcdAdmin { client, addr }) as Box<dyn Admin>)
            })
        },
    )?;
    Ok(testbed.keeping(server))
}

struct EtcdAdmin {
    client: Client,
    addr: String,
}

impl std::fmt::Debug for EtcdAdmin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdAdmin").field("addr", &self.addr).finish_non_exhaustive()
    }
}

/// Below it lies what has an exact name, and no layout of another program's.
const EXACT: &str = "latchwork:exact/";

fn prefix(queue: &Address) -> String {
    match queue.namespace() {
        Some(namespace) => format!("{namespace}/{}/{}/", queue.kind().as_str(), queue.coded()),
        None if matches!(queue.kind(), Kind::Mutex | Kind::Election) => format!("{}/", queue.coded()),
        // What no other program has a layout for.
        None => format!("{EXACT}{}/{}/", queue.kind().as_str(), encode(queue.coded())),
    }
}

impl EtcdAdmin {
    /// The keys under a prefix, with their create revisions.
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
        // A limit is what a documented call stores, and a namespace keeps its stamp; the foreign
        // entry is the suite's own.
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

    fn compacts(&self) -> bool {
        true
    }

    async fn compact(&self) -> Result<()> {
        let now = self.client.clone().get("now", None).await.map_err(unavailable)?;
        let revision = now.header().map_or(0, etcd_client::ResponseHeader::revision);
        match self.client.clone().compact(revision, None).await {
            // Another case has compacted since.
            Err(error) if error.to_string().contains("has been compacted") => Ok(()),
            answer => answer.map(drop).map_err(unavailable),
        }
    }

    async fn requests(&self) -> Result<u64> {
        let metrics = ask(&self.addr, "GET /metrics HTTP/1.0\r\n\r\n").await;
        let metrics =
            metrics.map_err(|error| Error::new(ErrorKind::Unavailable, "no metrics").because(error))?;
        let started = |line: &str| {
            let value = line.strip_prefix("grpc_server_started_total")?.rsplit(' ').next()?;
            value.trim().parse::<f64>().ok()
        };
        Ok(metrics.lines().filter_map(started).sum::<f64>() as u64)
    }
}

fn unavailable(error: etcd_client::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "the operator's connection").because(error)
}
