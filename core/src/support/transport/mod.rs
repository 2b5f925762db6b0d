//! TCP, or TLS with the same certificates and errors for all backends. Each client has its own configuration
//! with an explicit provider (`ring`). The process-wide default of rustls is neither read nor set.

#[cfg(feature = "tls")]
mod files;
#[cfg(feature = "tls")]
mod refusal;
mod stream;
#[cfg(feature = "tls")]
mod tls;

use std::fmt;
use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;

pub use self::stream::Stream;
use crate::config::{Config, Hosts, Scheme};
use crate::error::{Error, Result};

/// Secures the connections of one client. Clones share their state.
#[derive(Clone, Default)]
pub struct Transport {
    #[cfg(feature = "tls")]
    tls: Option<Arc<tls::Tls>>,
    #[cfg(not(feature = "tls"))]
    tls: Option<Arc<std::convert::Infallible>>,
}

impl Transport {
    /// Creates the transport of a configuration. `protocol` is the protocol inside of TLS (ALPN), if the
    /// server needs one.
    ///
    /// # Errors
    /// `InvalidArgument` naming `tls` if the build has no TLS, or `server_name` if it is not a host name or
    /// address.
    pub fn of(config: &Config, protocol: Option<&'static [u8]>) -> Result<Self> {
        if !config.tls {
            return Ok(Self::default());
        }
        Self::secured(config, protocol)
    }

    #[cfg(feature = "tls")]
    fn secured(config: &Config, protocol: Option<&'static [u8]>) -> Result<Self> {
        Ok(Self { tls: Some(Arc::new(tls::Tls::of(config, protocol)?)) })
    }

    #[cfg(not(feature = "tls"))]
    fn secured(config: &Config, _: Option<&'static [u8]>) -> Result<Self> {
        Err(no_tls(&config.backend))
    }

    /// Returns a transport for another server of this client, with its own [failures](Self::failure).
    #[must_use]
    pub fn apart(&self) -> Self {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return Self { tls: Some(Arc::new(tls.apart())) };
        }
        self.clone()
    }

    /// Returns whether the transport uses TLS.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Reads the certificate files, so that a mistake in them is an error of the connect.
    ///
    /// # Errors
    /// * `InvalidArgument` naming `ca`, `cert` or `key` if a file cannot be used.
    /// * `Misconfigured` if the system has no trusted authorities.
    pub async fn prepare(&self) -> Result<()> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls.prepare().await;
        }
        Ok(())
    }

    /// Starts TLS, if it is used, on a connection to `host` (a name or an address, without a port).
    ///
    /// It reads changed files again. If they do not match (a new certificate whose key is not written yet),
    /// it uses the last files that matched.
    ///
    /// # Errors
    /// The errors of the connection and the handshake, which [`failure`](Self::failure) explains.
    ///
    /// # Cancel safety
    /// The connection is closed.
    pub async fn secure(&self, stream: TcpStream, host: &str) -> io::Result<Stream> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls.secure(stream, host).await;
        }
        let _ = host;
        Ok(Stream::plain(stream))
    }

    /// Resolves `host:port`, connects to it, and [secures](Self::secure) the connection.
    ///
    /// # Errors
    /// The errors of the name resolution, the connection and the handshake.
    ///
    /// # Cancel safety
    /// The connection is closed.
    pub async fn dial(&self, address: &str) -> io::Result<Stream> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        self.secure(stream, host.trim_start_matches('[').trim_end_matches(']')).await
    }

    /// Returns why TLS has failed since the last connection that worked, which the error of the client crate
    /// does not contain. Servers that are dialled at the same time need [separate](Self::apart) transports.
    ///
    /// A server that demands a client certificate reports this after its part of the handshake, perhaps only
    /// by a missing first answer.
    pub fn failure(&self) -> Option<Error> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls.failure();
        }
        None
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_tls() { "TLS" } else { "plain" })
    }
}

pub(crate) fn no_tls(backend: &str) -> Error {
    let why = match backend {
        "memory" => "memory:// has no connection to protect: remove `tls`".to_owned(),
        _ => format!(
            "{}:// needs the feature `tls` of the crate latchwork, or of this backend's own crate",
            Scheme { backend, hosts: Hosts::Servers, tls: true }
        ),
    };
    Error::invalid("tls", why)
}
