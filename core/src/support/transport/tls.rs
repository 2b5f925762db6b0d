use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::Stream;
use super::files::{Contents, Loaded, Paths};
use super::refusal::Peer;
use crate::config::{Config, backend_name};
use crate::error::{Error, ErrorKind, Result};
use crate::seen;

pub(super) struct Tls {
    shared: Arc<TlsParts>,
    met: Arc<Mutex<Option<Error>>>,
}

struct TlsParts {
    expected: &'static str,
    paths: Paths,
    server_name: Option<ServerName<'static>>,
    protocol: Option<&'static [u8]>,
    // Kept while the files are the same, because it has sessions, which a server resumes in fewer steps.
    loaded: Mutex<Option<(Contents, Loaded)>>,
}

impl Tls {
    pub(super) fn of(config: &Config, protocol: Option<&'static [u8]>) -> Result<Self> {
        let bad_name = |error| Error::invalid("server_name", "is not a host name or address").because(error);
        let server_name =
            config.server_name.clone().map(ServerName::try_from).transpose().map_err(bad_name)?;
        let paths = Paths { ca: config.ca.clone(), cert: config.cert.clone(), key: config.key.clone() };
        let expected = backend_name(&config.backend);
        let shared = Arc::new(TlsParts { expected, paths, server_name, protocol, loaded: Mutex::default() });
        Ok(Self { shared, met: Arc::default() })
    }

    pub(super) fn apart(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), met: Arc::default() }
    }

    pub(super) async fn prepare(&self) -> Result<()> {
        self.loaded().await.map(drop)
    }

    pub(super) fn failure(&self) -> Option<Error> {
        self.met.lock().clone()
    }

    pub(super) async fn secure(&self, stream: TcpStream, host: &str) -> io::Result<Stream> {
        let loaded = match self.loaded().await {
            Ok(loaded) => loaded,
            Err(error) => {
                *self.met.lock() = Some(error.clone());
                return Err(io::Error::other(error));
            }
        };
        let name = match &self.shared.server_name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host.to_owned()).map_err(io::Error::other)?,
        };
        *self.met.lock() = None;
        let asked = Arc::default();
        let config = loaded.config(&asked);
        let (shared, met) = (Arc::clone(&self.shared), Arc::clone(&self.met));
        let first = First { shared, met, asked, taken: loaded.taken, host: host.to_owned() };
        match TlsConnector::from(Arc::new(config)).connect(name, stream).await {
            Ok(stream) => Ok(Stream::tls(TlsStream { stream, first: Some(first) })),
            Err(error) => {
                first.failed(Some(&error));
                Err(error)
            }
        }
    }

    async fn loaded(&self) -> Result<Loaded> {
        let shared = Arc::clone(&self.shared);
        let read = tokio::task::spawn_blocking(move || shared.loaded()).await;
        read.unwrap_or_else(|error| {
            Err(Error::new(ErrorKind::RuntimeGone, "the certificates were not read").because(error))
        })
    }
}

impl TlsParts {
    fn loaded(&self) -> Result<Loaded> {
        let fresh = self.paths.read().and_then(|contents| {
            if let Some((_, loaded)) = self.loaded.lock().as_ref().filter(|(last, _)| *last == contents) {
                return Ok(loaded.clone());
            }
            let loaded = contents.load(self.protocol)?;
            *self.loaded.lock() = Some((contents, loaded.clone()));
            Ok(loaded)
        });
        match (fresh, self.loaded.lock().as_ref()) {
            (Err(error), Some((_, last))) => {
                seen::certificates_refused(&error);
                Ok(last.clone())
            }
            (fresh, _) => fresh,
        }
    }
}

#[derive(Debug)]
pub(super) struct TlsStream {
    stream: tokio_rustls::client::TlsStream<TcpStream>,
    first: Option<First>,
}

/// A missing first answer may be the server's refusal of the client's certificate.
struct First {
    shared: Arc<TlsParts>,
    met: Arc<Mutex<Option<Error>>>,
    asked: Arc<AtomicBool>,
    taken: Arc<AtomicBool>,
    host: String,
}

impl First {
    fn answered(&self) {
        if self.asked.load(Ordering::Acquire) {
            self.taken.store(true, Ordering::Release);
        }
    }

    fn failed(&self, error: Option<&io::Error>) {
        let peer = Peer {
            expected: self.shared.expected,
            host: &self.host,
            asked: self.asked.load(Ordering::Acquire),
            shows_certificate: self.shared.paths.cert.is_some(),
            taken: self.taken.load(Ordering::Acquire),
        };
        *self.met.lock() = peer.refusal(error);
    }
}

impl fmt::Debug for First {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)
    }
}

impl TlsStream {
    fn ended(&mut self, error: Option<&io::Error>) {
        if let Some(first) = self.first.take() {
            first.failed(error);
        }
    }

    /// The error of a failed write only reports that the server has closed. Its reason is in earlier data of
    /// the server.
    fn written<T>(&mut self, context: &mut Context<'_>, answer: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &answer
            && self.first.is_some()
        {
            let mut room = [0; 16];
            let read = Pin::new(&mut self.stream).poll_read(context, &mut ReadBuf::new(&mut room));
            match read {
                Poll::Ready(Err(alert)) => self.ended(Some(&alert)),
                _ => self.ended(Some(error)),
            }
        }
        answer
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        match &read {
            Ok(()) if buffer.filled().len() > before => {
                if let Some(first) = self.first.take() {
                    first.answered();
                }
            }
            Ok(()) if buffer.remaining() > 0 => self.ended(None),
            Ok(()) => {}
            Err(error) => self.ended(Some(error)),
        }
        Poll::Ready(read)
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        Poll::Ready(self.written(context, written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.stream).poll_flush(context));
        Poll::Ready(self.written(context, flushed))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, slices));
        Poll::Ready(self.written(context, written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
