//! A new backend needs a line in [`connectors`] and [`testbed_on`]; a topology one in [`topology`] and `selection::TOPOLOGIES`.

use std::path::Path;
use std::sync::Arc;

use latchwork_conformance::testbed::Testbed;
use latchwork_conformance::testbeds::{self, ServerTestbed};
use latchwork_conformance::{selection, servers};
use latchwork_core::{Config, Connector, memory};
use servers::{Clocks, Kind, Options, Server, ServerError};
use tokio::runtime::Runtime;

use super::Outcome;

pub(crate) fn connectors() -> Vec<Arc<dyn Connector>> {
    vec![
        memory::connector(),
        #[cfg(feature = "redis")]
        latchwork_redis::connector(),
        #[cfg(feature = "zookeeper")]
        latchwork_zookeeper::connector(),
        #[cfg(feature = "etcd")]
        latchwork_etcd::connector(),
    ]
}

pub(crate) fn check_compiled(backend: &str) -> Outcome<()> {
    if connectors().iter().any(|connector| connector.name() == backend) {
        return Ok(());
    }
    match backend.parse::<Kind>() {
        Ok(kind) => Err(not_compiled(kind)),
        Err(_) => Err(format!(
            "no backend {backend:?}: expected memory, redis, zookeeper, etcd, or a topology ({})",
            selection::TOPOLOGIES.join(", ")
        )
        .into()),
    }
}

pub(crate) fn server(backend: &str) -> Outcome<Option<(Kind, Option<&str>)>> {
    let url = backend.contains("://").then(|| Config::from_url(backend)).transpose()?;
    let name = url.as_ref().map_or(backend, |config| &config.backend);
    check_compiled(name)?;
    Ok(if name == "memory" { None } else { Some((name.parse()?, url.is_some().then_some(backend))) })
}

pub(crate) fn open(
    runtime: &Runtime,
    backend: &str,
    fast_clocks: bool,
    rights: Option<&Path>,
) -> Outcome<Box<dyn Testbed>> {
    if selection::is_topology(backend) {
        return Ok(Box::new(runtime.block_on(topology(backend, rights))?));
    }
    let Some((kind, url)) = server(backend)? else {
        return Ok(Box::new(testbeds::MemoryTestbed::new()));
    };
    let server = match url {
        Some(url) => Server::at(kind, url, if fast_clocks { Clocks::Fast } else { Clocks::Default }),
        None => {
            let server = runtime.block_on(Server::start(kind, Options::new()))?;
            eprintln!("{kind}: {} (from the {})", server.url(), server.origin());
            server
        }
    };
    Ok(Box::new(testbed_on(server)?))
}

/// `None`: this machine has no program of the server.
pub(crate) fn open_alone(runtime: &Runtime, backend: &str) -> Outcome<Option<Box<dyn Testbed>>> {
    let Ok(kind) = backend.parse::<Kind>() else { return Ok(None) };
    match runtime.block_on(Server::start(kind, Options::new().own())) {
        Ok(server) => Ok(Some(Box::new(testbed_on(server)?))),
        Err(ServerError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn testbed_on(server: Server) -> Outcome<ServerTestbed> {
    match server.kind() {
        #[cfg(feature = "redis")]
        Kind::Redis => Ok(testbeds::redis_testbed(server)?),
        #[cfg(feature = "zookeeper")]
        Kind::Zookeeper => Ok(testbeds::zookeeper_testbed(server)?),
        #[cfg(feature = "etcd")]
        Kind::Etcd => Ok(testbeds::etcd_testbed(server)?),
        #[allow(unreachable_patterns)]
        kind => Err(not_compiled(kind)),
    }
}

/// A busy machine may delay a server: no replica may take over during the suite.
#[cfg(feature = "redis")]
const NODE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// `rights`: the guide's page with the commands that create a user with the least rights.
async fn topology(name: &str, rights: Option<&Path>) -> Outcome<ServerTestbed> {
    #[cfg(any(feature = "redis", feature = "etcd"))]
    let page = || -> Outcome<String> {
        let page = rights.ok_or("--rights is missing: name the page with the commands that create the user (the guide's trust.md)")?;
        std::fs::read_to_string(page).map_err(|error| format!("--rights {}: {error}", page.display()).into())
    };
    #[cfg(not(any(feature = "redis", feature = "etcd")))]
    let _ = rights;
    match name {
        #[cfg(feature = "zookeeper")]
        "zookeeper-3" => {
            Ok(testbeds::zookeeper_ensemble_testbed(servers::Ensemble::zookeeper(3).await?.into())?)
        }
        #[cfg(feature = "etcd")]
        "etcd-3" => Ok(testbeds::etcd_cluster_testbed(servers::Ensemble::etcd(3).await?.into())?),
        #[cfg(feature = "redis")]
        "redis-sentinel" => {
            Ok(testbeds::watched_redis_testbed(servers::WatchedRedis::start().await?.into())?)
        }
        #[cfg(feature = "redis")]
        "redis-cluster" => {
            let cluster = servers::ClusteredRedis::start(NODE_TIMEOUT).await?;
            Ok(testbeds::clustered_redis_testbed(cluster.into())?)
        }
        #[cfg(all(feature = "tls", feature = "redis"))]
        "redis-tls" => Ok(testbeds::tls_testbed(Kind::Redis, "redis-tls", testbeds::redis_testbed).await?),
        #[cfg(all(feature = "tls", feature = "zookeeper"))]
        "zookeeper-tls" => {
            Ok(testbeds::tls_testbed(Kind::Zookeeper, "zookeeper-tls", testbeds::zookeeper_testbed).await?)
        }
        #[cfg(all(feature = "tls", feature = "etcd"))]
        "etcd-tls" => Ok(testbeds::tls_testbed(Kind::Etcd, "etcd-tls", testbeds::etcd_testbed).await?),
        #[cfg(all(feature = "tls", feature = "zookeeper"))]
        "zookeeper-3-tls" => Ok(testbeds::zookeeper_tls_ensemble_testbed().await?),
        #[cfg(feature = "redis")]
        "redis-acl" => {
            let page = page()?;
            let command = page.lines().find(|line| line.starts_with("ACL SETUSER "));
            let server = Server::start(Kind::Redis, Options::new().own()).await?;
            let command = command
                .ok_or("the page of --rights has no line `ACL SETUSER …`: name the guide's trust.md")?;
            Ok(testbeds::redis_acl_testbed(server, command).await?)
        }
        #[cfg(feature = "etcd")]
        "etcd-auth" => {
            let page = page()?;
            let commands = page.split_once("# etcd\n").and_then(|(_, section)| {
                section.split_once("```text\n")?.1.split_once("```").map(|(commands, _)| commands)
            });
            let commands = commands.ok_or(
                "the page of --rights has no section `# etcd` with commands: name the guide's trust.md",
            )?;
            // All clients log in, and the server compares passwords one by one.
            let server = Server::start(Kind::Etcd, Options::new().own().args(["--bcrypt-cost=4"])).await?;
            Ok(testbeds::etcd_auth_testbed(server, commands).await?)
        }
        _ => Err(format!(
            "this build has no {name}: build it with the feature of its backend and, for TLS, `tls`"
        )
        .into()),
    }
}

fn not_compiled(kind: Kind) -> Box<dyn std::error::Error> {
    format!("this build has no {kind}: build it with `--features {kind}`").into()
}
