use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use tokio::net::{TcpListener, UnixListener};

use crate::accepting::{Accepting, connected, relay};

#[derive(Debug)]
pub(crate) struct Door {
    _accepting: Accepting,
}

impl Door {
    /// Fails if the file exists, or its path is too long for a socket.
    pub(crate) fn at_file(path: &Path, to: SocketAddr) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        let serve = move |stream, ()| async move { relay(stream, connected(to).await?).await };
        Ok(Self { _accepting: Accepting::start(listener, serve) })
    }

    /// `others` redirects connections from these addresses.
    pub(crate) async fn at_port(
        port: u16,
        to: SocketAddr,
        others: HashMap<IpAddr, SocketAddr>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let serve = move |stream, from: SocketAddr| {
            let to = others.get(&from.ip()).copied().unwrap_or(to);
            async move { relay(stream, connected(to).await?).await }
        };
        Ok(Self { _accepting: Accepting::start(listener, serve) })
    }
}
