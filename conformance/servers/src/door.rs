//! A place where others come in to a server: a socket of the file system, or a port.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

/// A door that leads to a port. Dropping it closes it, and all that has come through it.
#[derive(Debug)]
pub(crate) struct Door(AbortHandle);

impl Door {
    /// Opens a door at `path`, a file in a server's folder, which leads to this address.
    ///
    /// # Errors
    /// When there is such a file, or its path is too long for a socket.
    pub(crate) fn at_file(path: &Path, to: SocketAddr) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        Ok(Self(tokio::spawn(serve(listener, move |()| to)).abort_handle()))
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
        let leads = move |from: IpAddr| others.get(&from).copied().unwrap_or(to);
        Ok(Self(tokio::spawn(serve(listener, leads)).abort_handle()))
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.0.abort();
    }
}

trait Listener {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// What is known of who comes.
    type From;

    fn next(&self) -> impl Future<Output = io::Result<(Self::Stream, Self::From)>> + Send;
}

impl Listener for UnixListener {
    type Stream = UnixStream;
    type From = ();

    async fn next(&self) -> io::Result<(UnixStream, ())> {
        self.accept().await.map(|(stream, _)| (stream, ()))
    }
}

impl Listener for TcpListener {
    type Stream = TcpStream;
    type From = IpAddr;

    async fn next(&self) -> io::Result<(TcpStream, IpAddr)> {
        let (stream, from) = self.accept().await?;
        stream.set_nodelay(true)?;
        Ok((stream, from.ip()))
    }
}

async fn serve<L: Listener>(listener: L, leads: impl Fn(L::From) -> SocketAddr) {
    // They end with this task.
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.next() => match accepted {
                Ok((stream, from)) => {
                    open.spawn(relay(stream, leads(from)));
                }
                // A connection that broke before it was accepted, or a shortage of files, which only
                // time can mend.
                Err(_) => sleep(Duration::from_millis(10)).await,
            },
            Some(_) = open.join_next() => {}
        }
    }
}

/// A connection that fails is closed, which is what both ends are to see.
async fn relay(mut stream: impl AsyncRead + AsyncWrite + Unpin, to: SocketAddr) -> io::Result<()> {
    let mut next = TcpStream::connect(to).await?;
    next.set_nodelay(true)?;
    copy_bidirectional(&mut stream, &mut next).await.map(drop)
}
