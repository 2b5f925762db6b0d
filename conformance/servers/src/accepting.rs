use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs, UnixListener, UnixStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

#[derive(Debug)]
pub(crate) struct Accepting(AbortHandle);

impl Accepting {
    pub(crate) fn start<L: Listener, F>(
        listener: L,
        serve: impl Fn(L::Stream, L::From) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        Self(tokio::spawn(accept(listener, serve)).abort_handle())
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) trait Listener: Send + Sync + 'static {
    type Stream: Send + 'static;
    /// The address of the other end.
    type From: Send;

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
    type From = SocketAddr;

    async fn next(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, from) = self.accept().await?;
        stream.set_nodelay(true)?;
        Ok((stream, from))
    }
}

async fn accept<L: Listener, F>(listener: L, serve: impl Fn(L::Stream, L::From) -> F)
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.next() => match accepted {
                Ok((stream, from)) => {
                    open.spawn(serve(stream, from));
                }
                // The connection broke before the accept, or the process has too many open files.
                Err(_) => sleep(Duration::from_millis(10)).await,
            },
            Some(_) = open.join_next() => {}
        }
    }
}

pub(crate) async fn connected(to: impl ToSocketAddrs) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// If one connection fails, both ends see a close.
pub(crate) async fn relay(
    mut one: impl AsyncRead + AsyncWrite + Unpin,
    mut other: impl AsyncRead + AsyncWrite + Unpin,
) -> io::Result<()> {
    copy_bidirectional(&mut one, &mut other).await.map(drop)
}
