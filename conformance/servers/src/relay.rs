//! A relay between clients and a server. The test serves its connections.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A relay. It ends when it is dropped; its connections end with either side.
#[derive(Debug)]
pub struct Relay {
    addr: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Relay {
    /// Serves each connection of a client, with a second connection to `upstream`.
    ///
    /// # Errors
    /// The listener's.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn start<F>(
        upstream: &str,
        serve: impl Fn(TcpStream, TcpStream) -> F + Send + 'static,
    ) -> io::Result<Self>
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let upstream = upstream.to_owned();
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&upstream).await else { continue };
                tokio::spawn(serve(client, server));
            }
        });
        Ok(Self { addr, accepting })
    }

    /// The address at which it listens.
    pub fn addr(&self) -> String {
        self.addr.to_string()
    }
}
