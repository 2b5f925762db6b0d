use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(feature = "tls")]
use tokio_util::either::Either;

/// A connection that [`Transport::secure`](super::Transport::secure) returned.
#[derive(Debug)]
pub struct Stream(StreamKind);

#[cfg(feature = "tls")]
type StreamKind = Either<TcpStream, Box<super::tls::TlsStream>>;
#[cfg(not(feature = "tls"))]
type StreamKind = TcpStream;

impl Stream {
    pub(super) fn plain(stream: TcpStream) -> Self {
        #[cfg(feature = "tls")]
        let stream = Either::Left(stream);
        Self(stream)
    }

    #[cfg(feature = "tls")]
    pub(super) fn tls(stream: super::tls::TlsStream) -> Self {
        Self(Either::Right(Box::new(stream)))
    }

    fn pinned(self: Pin<&mut Self>) -> Pin<&mut StreamKind> {
        Pin::new(&mut self.get_mut().0)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.pinned().poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.pinned().poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pinned().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pinned().poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.pinned().poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }
}
