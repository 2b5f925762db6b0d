//! The backends of this build. A further one is one line in [`connectors`] and one in
//! [`testbed_on`].

use std::sync::Arc;

use latchwork_conformance::testbed::Testbed;
use latchwork_conformance::testbeds;
use latchwork_core::{Config, Connector, memory};
use latchwork_servers::{Clocks, Kind, Options, Server};
use tokio::runtime::Runtime;

use super::Outcome;

/// The connectors of this build.
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

/// An error for a backend that is not in this build, or that nobody knows.
pub(crate) fn check_compiled(backend: &str) -> Outcome<()> {
    if connectors().iter().any(|connector| connector.name() == backend) {
        return Ok(());
    }
    match backend.parse::<Kind>() {
        Ok(kind) => Err(not_compiled(kind)),
        Err(_) => Err(format!("no backend {backend:?}: expected memory, redis, zookeeper or etcd").into()),
    }
}

/// The testbed of a backend, by its name or a server's URL. The server lives on `runtime`.
pub(crate) fn open(runtime: &Runtime, backend: &str, fast_clocks: bool) -> Outcome<Box<dyn Testbed>> {
    let url = backend.contains("://").then(|| Config::from_url(backend)).transpose()?;
    let name = url.as_ref().map_or(backend, |config| &config.backend);
    check_compiled(name)?;
    if name == "memory" {
        return Ok(Box::new(testbeds::MemoryTestbed::new()));
    }
    let kind: Kind = name.parse()?;
    let server = match url {
        Some(_) => {
            let clocks = if fast_clocks { Clocks::Fast } else { Clocks::Default };
            Server::at(kind, backend, clocks)
        }
        None => {
            let server = runtime.block_on(Server::start(kind, Options::new()))?;
            eprintln!("{kind}: {} (from the {})", server.url(), server.origin());
            server
        }
    };
    testbed_on(server)
}

fn testbed_on(server: Server) -> Outcome<Box<dyn Testbed>> {
    match server.kind() {
        #[cfg(feature = "redis")]
        Kind::Redis => Ok(Box::new(testbeds::redis_testbed(server)?)),
        #[cfg(feature = "zookeeper")]
        Kind::Zookeeper => Ok(Box::new(testbeds::zookeeper_testbed(server)?)),
        #[cfg(feature = "etcd")]
        Kind::Etcd => Ok(Box::new(testbeds::etcd_testbed(server)?)),
        #[allow(unreachable_patterns)]
        kind => Err(not_compiled(kind)),
    }
}

fn not_compiled(kind: Kind) -> Box<dyn std::error::Error> {
    format!("this build has no {kind}: build it with `--features {kind}`").into()
}
