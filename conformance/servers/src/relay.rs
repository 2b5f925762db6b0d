//! A relay between clients and a server.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};

use crate::accepting::Accepting;

/// A relay whose connections the test serves. They end with either side, or with the drop.
#[derive(Debug)]
pub struct Relay {
    addr: SocketAddr,
    _accepting: Accepting,
}

impl Relay {
    /// Serves each connection of a client, with a second connection to `upstream`. Cancel safe.
    ///
    /// # Errors
    /// The error of the listener.
    pub async fn start<F>(
        upstream: &str,
        serve: impl Fn(TcpStream, TcpStream) -> F + Send + Sync + 'static,
    ) -> io::Result<Self>
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let (upstream, serve) = (upstream.to_owned(), Arc::new(serve));
        let accepting = Accepting::start(listener, move |client, _| {
            let (upstream, serve) = (upstream.clone(), Arc::clone(&serve));
            async move { serve(client, TcpStream::connect(upstream).await?).await }
        });
        Ok(Self { addr, _accepting: accepting })
    }

    /// Returns the address at which it listens.
    pub fn addr(&self) -> String {
        self.addr.to_string()
    }
}
