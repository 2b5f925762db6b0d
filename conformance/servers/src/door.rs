//! A place where others come in to a server: a socket of the file system, or a port.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use tokio::net::{TcpListener, UnixListener};

use crate::accepting::{Accepting, connected, relay};

/// A door that leads to a port. Dropping it closes it, and all that has come through it.
#[derive(Debug)]
pub(crate) struct Door {
    _accepting: Accepting,
}

impl Door {
    /// Opens a door at `path`, a file in a server's folder, which leads to this address.
    ///
    /// # Errors
    /// When there is such a file, or its path is too long for a socket.
    pub(crate) fn at_file(path: &Path, to: SocketAddr) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        let serve = move |stream, ()| async move { relay(stream, connected(to).await?).await };
        Ok(Self { _accepting: Accepting::start(listener, serve) })
    }

    /// Opens a door at a port, which leads to this address; those who come from one of these addresses it
    /// leads elsewhere.
    ///
    /// # Errors
    /// When the port cannot be bound.
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
