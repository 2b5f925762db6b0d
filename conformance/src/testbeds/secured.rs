use std::sync::Arc;

use latchwork_core::backend::Transport;
use latchwork_core::{Error, ErrorKind, Result};
#[cfg(feature = "zookeeper")]
use latchwork_servers::Ensemble;
use latchwork_servers::{Certificates, Kind, Options, Server};

use super::ServerTestbed;

const HANDSHAKES: usize = 50;

/// Creates the testbed of a server with clients' certificates. The operator uses plain text.
///
/// # Errors
/// If no server starts.
pub async fn tls_testbed(
    kind: Kind,
    name: &'static str,
    testbed_on: fn(Server) -> Result<ServerTestbed>,
) -> Result<ServerTestbed> {
    let certificates = Certificates::new().map_err(failed)?;
    let options = Options::new().tls(certificates.server(true));
    let server = Server::start(kind, options).await.map_err(failed)?;
    let address =
        server.tls_addr().ok_or_else(|| Error::invalid("kind", "this server does not speak TLS"))?;
    secured(testbed_on(server)?.at(vec![address]).called(name), certificates).await
}

/// Creates the testbed of three ZooKeeper servers with clients' certificates.
///
/// # Errors
/// If no servers start.
#[cfg(feature = "zookeeper")]
pub async fn zookeeper_tls_ensemble_testbed() -> Result<ServerTestbed> {
    let certificates = Certificates::new().map_err(failed)?;
    let ensemble = Ensemble::zookeeper_with_tls(3, &certificates.server(true)).await.map_err(failed)?;
    let hosts: Vec<_> = (0..ensemble.size()).filter_map(|server| ensemble.tls_addr(server)).collect();
    let testbed = super::zookeeper_ensemble_testbed(Arc::new(ensemble))?;
    secured(testbed.at(hosts).called("zookeeper-3-tls"), certificates).await
}

async fn secured(mut testbed: ServerTestbed, certificates: Certificates) -> Result<ServerTestbed> {
    let path = |name: &str| Some(certificates.path(name));
    testbed.config.tls = true;
    (testbed.config.ca, testbed.config.cert, testbed.config.key) =
        (path("ca.pem"), path("client.pem"), path("client.key"));
    warm_up(&testbed).await.map_err(failed)?;
    testbed.certificates = Some(Arc::new(certificates));
    Ok(testbed)
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Unavailable, "no server with TLS starts").because(error)
}

/// The first handshakes of a JVM take a hundred times as long, and a run starts with dozens.
async fn warm_up(testbed: &ServerTestbed) -> std::io::Result<()> {
    let transport = Transport::of(&testbed.config, Some(b"h2")).map_err(std::io::Error::other)?;
    for _ in 0..HANDSHAKES {
        for host in &testbed.hosts {
            transport.dial(host).await?;
        }
    }
    Ok(())
}
