//! What a client's connections run over: TCP in the clear, or TLS.
//!
//! All backends take it from here, so that TLS means one thing: which certificates are trusted, when
//! files are read, what a refusal is called. Each client has a configuration of its own with a
//! provider that is named (`ring`): the process-wide default of rustls is neither read nor set, so a
//! program may have any other one, or none.

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

/// How one client secures its connections. Cheap to clone: clones are one.
#[derive(Clone, Default)]
pub struct Transport {
    #[cfg(feature = "tls")]
    tls: Option<Arc<tls::Tls>>,
    #[cfg(not(feature = "tls"))]
    tls: Option<Arc<std::convert::Infallible>>,
}

impl Transport {
    /// What a configuration asks for. `protocol` is what TLS is to agree on for the bytes within
    /// (ALPN), where the server wants to hear that.
    ///
    /// # Errors
    /// `InvalidArgument` naming `tls` when the build has none, or `server_name`.
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

    /// The same for another server of this client, whose [failures](Self::failure) are told apart.
    #[must_use]
    pub fn apart(&self) -> Self {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return Self { tls: Some(Arc::new(tls.apart())) };
        }
        self.clone()
    }

    /// Whether it is TLS.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Reads the files, for the first time: a mistake in them is the caller's, and no outage.
    ///
    /// # Errors
    /// `InvalidArgument` naming `ca`, `cert` or `key`; `Misconfigured` where the system trusts nobody.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn prepare(&self) -> Result<()> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls.prepare().await;
        }
        Ok(())
    }

    /// Secures a connection that was made to `host` (a name or an address, without a port). Without
    /// TLS this is the connection itself.
    ///
    /// Files that have changed on disk are read anew. While they do not fit together (a certificate
    /// that was written before its key), the last ones that did are used.
    ///
    /// # Errors
    /// Those of the connection, and of the handshake: [`failure`](Self::failure) says what they mean.
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

    /// Connects to `host:port`, whose name is resolved now, and secures that.
    ///
    /// # Errors
    /// As [`secure`](Self::secure), and those of the name and the connection.
    ///
    /// # Cancel safety
    /// The connection is closed.
    pub async fn dial(&self, address: &str) -> io::Result<Stream> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        self.secure(stream, host.trim_start_matches('[').trim_end_matches(']')).await
    }

    /// Why TLS itself failed, since the last connection that worked: for the error of a dial, whose
    /// own cause has lost it between the client crate's layers. Of several servers that are dialled
    /// at one time, each has a transport [apart](Self::apart).
    ///
    /// A server that demands a client certificate says so only after its side of the handshake, so
    /// that this may be known only when the first answer is missing.
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

/// The refusal of TLS by a build that has none.
pub(crate) fn no_tls(backend: &str) -> Error {
    let why = match backend {
        "memory" => "memory:// has no connection that TLS could protect".to_owned(),
        _ => format!(
            "{}:// needs the feature `tls` of the crate latchwork, or of this backend's own crate",
            Scheme { backend, hosts: Hosts::Servers, tls: true }
        ),
    };
    Error::invalid("tls", why)
}
