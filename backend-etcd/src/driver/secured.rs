//! The channel of a client that speaks TLS: the client crate's own reads certificates once, and cannot
//! say which server name it expects of every host.

use std::error::Error as StdError;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use etcd_client::Channel;
use hyper_util::rt::TokioIo;
use latchwork_core::support::{Stream, Transport};
use latchwork_core::{Error, Result};
use tonic::codegen::http::{Request, Response, Uri};
use tonic::transport::{Channel as TonicChannel, Endpoint};
use tower::Service;
use tower::util::BoxCloneSyncService;

use super::connection::{PING_AFTER, PING_ANSWER};
use crate::config::Settings;

type BoxError = Box<dyn StdError + Send + Sync>;
type BoxFuture<T> = Pin<Box<dyn Future<Output = std::result::Result<T, BoxError>> + Send>>;
type Body = tonic::body::Body;

/// A channel to all servers. It connects to each when a request goes there.
pub(super) fn channel(settings: &Settings) -> Result<Channel> {
    let endpoints = settings.endpoints.iter().map(|host| endpoint(host, settings));
    let channels = endpoints.collect::<Result<Arc<[_]>>>()?;
    // Clients that start together do not all begin at the same server.
    let first = RandomState::new().hash_one(0) as usize;
    let next = Arc::new(AtomicUsize::new(first % channels.len().max(1)));
    Ok(Channel::Custom(BoxCloneSyncService::new(Spread { channels, next })))
}

fn endpoint(host: &str, settings: &Settings) -> Result<TonicChannel> {
    let bad = || Error::invalid("url", format!("{host:?} is no address"));
    // The scheme here only says that the transport's own TLS has no part in it.
    let endpoint = Endpoint::from_shared(format!("http://{host}")).map_err(|error| bad().because(error))?;
    let origin: Uri = format!("https://{host}").parse().map_err(|error| bad().because(error))?;
    let endpoint = endpoint
        .origin(origin)
        .connect_timeout(settings.request_timeout)
        .timeout(settings.request_timeout)
        .http2_keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(settings.request_timeout.min(PING_ANSWER))
        .keep_alive_while_idle(true);
    let dial = Dial { host: host.to_owned(), transport: settings.transport.clone() };
    Ok(endpoint.connect_with_connector_lazy(dial))
}

/// Dials one host: its name is resolved and its certificates are read each time.
#[derive(Clone)]
struct Dial {
    host: String,
    transport: Transport,
}

impl Service<Uri> for Dial {
    type Response = TokioIo<Stream>;
    type Error = NotConnected;
    type Future = Pin<Box<dyn Future<Output = std::result::Result<Self::Response, NotConnected>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::result::Result<(), NotConnected>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Self { host, transport } = self.clone();
        Box::pin(async move { transport.dial(&host).await.map(TokioIo::new).map_err(NotConnected) })
    }
}

/// No connection was made: what was to be sent on it was not.
#[derive(Debug)]
pub(crate) struct NotConnected(io::Error);

impl fmt::Display for NotConnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no connection: {}", self.0)
    }
}

impl StdError for NotConnected {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

/// Sends each request to the next server: one that is sent again after it found a server down goes to
/// another.
#[derive(Clone)]
struct Spread {
    channels: Arc<[TonicChannel]>,
    next: Arc<AtomicUsize>,
}

impl Service<Request<Body>> for Spread {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<Response<Body>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::result::Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.channels.len();
        let mut channel = self.channels[at].clone();
        Box::pin(async move {
            std::future::poll_fn(|context| channel.poll_ready(context)).await?;
            Ok(channel.call(request).await?)
        })
    }
}
