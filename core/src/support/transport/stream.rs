//! A connection, in the clear or secured.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A connection that [`Transport::secure`](super::Transport::secure) gave.
#[derive(Debug)]
pub struct Stream(StreamKind);

#[derive(Debug)]
enum StreamKind {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<super::tls::TlsStream>),
}

impl Stream {
    pub(super) fn plain(stream: TcpStream) -> Self {
        Self(StreamKind::Plain(stream))
    }

    #[cfg(feature = "tls")]
    pub(super) fn tls(stream: super::tls::TlsStream) -> Self {
        Self(StreamKind::Tls(Box::new(stream)))
    }
}

macro_rules! pinned {
    ($self:expr, $stream:ident => $call:expr) => {
        match &mut $self.get_mut().0 {
            StreamKind::Plain(stream) => {
                let $stream = Pin::new(stream);
                $call
            }
            #[cfg(feature = "tls")]
            StreamKind::Tls(stream) => {
                let $stream = Pin::new(&mut **stream);
                $call
            }
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        pinned!(self, stream => stream.poll_read(context, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        pinned!(self, stream => stream.poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        pinned!(self, stream => stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        pinned!(self, stream => stream.poll_shutdown(context))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        pinned!(self, stream => stream.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.0 {
            StreamKind::Plain(stream) => stream.is_write_vectored(),
            #[cfg(feature = "tls")]
            StreamKind::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
