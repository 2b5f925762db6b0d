//! TLS ends before a fault proxy and starts again after it, because the proxy reads the requests.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::Certificates;
use crate::accepting::{Accepting, connected, relay};

/// One of the two ends. A drop closes all connections.
#[derive(Debug)]
pub struct Terminator {
    addr: SocketAddr,
    _accepting: Accepting,
}

impl Terminator {
    /// Speaks TLS with clients, demands their certificates, and connects to `next` in plain text.
    ///
    /// # Errors
    /// An error of the port or of the certificates.
    pub async fn before(next: SocketAddr, certificates: &Certificates) -> io::Result<Self> {
        let acceptor = TlsAcceptor::from(Arc::new(server(certificates).map_err(io::Error::other)?));
        Self::start(move |client| {
            let acceptor = acceptor.clone();
            async move {
                let client = acceptor.accept(client).await?;
                relay(client, connected(next).await?).await
            }
        })
        .await
    }

    /// Accepts plain text, and speaks TLS with the server at `next`.
    ///
    /// # Errors
    /// As for [`before`](Self::before).
    pub async fn behind(next: String, certificates: &Certificates) -> io::Result<Self> {
        let connector = TlsConnector::from(Arc::new(client(certificates).map_err(io::Error::other)?));
        let name = ServerName::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
        Self::start(move |client| {
            let (connector, name, next) = (connector.clone(), name.clone(), next.clone());
            async move {
                let server = connector.connect(name, connected(next).await?).await?;
                relay(client, server).await
            }
        })
        .await
    }

    /// Returns the address for clients.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    async fn start<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> io::Result<Self>
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        Ok(Self { addr, _accepting: Accepting::start(listener, move |client, _| serve(client)) })
    }
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

fn server(certificates: &Certificates) -> Result<ServerConfig, Failed> {
    let provider = Arc::new(ring::default_provider());
    let roots = Arc::new(roots(certificates)?);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider)).build()?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain(certificates, "server.pem")?, key(certificates, "server.key")?)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

fn client(certificates: &Certificates) -> Result<ClientConfig, Failed> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots(certificates)?)
        .with_client_auth_cert(chain(certificates, "client.pem")?, key(certificates, "client.key")?)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

fn roots(certificates: &Certificates) -> Result<RootCertStore, Failed> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(chain(certificates, "ca.pem")?);
    Ok(roots)
}

fn chain(certificates: &Certificates, name: &str) -> Result<Vec<CertificateDer<'static>>, Failed> {
    Ok(CertificateDer::pem_file_iter(certificates.path(name))?.collect::<Result<_, _>>()?)
}

fn key(certificates: &Certificates, name: &str) -> Result<PrivateKeyDer<'static>, Failed> {
    Ok(PrivateKeyDer::from_pem_file(certificates.path(name))?)
}
