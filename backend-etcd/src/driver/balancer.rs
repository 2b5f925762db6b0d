//! The channel to all servers.
//!
//! The client crate's own channel picks servers at random, even if they are down or silent. It reads
//! certificates once, and has no setting for the expected server name of every host.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use etcd_client::Channel;
use hyper_util::rt::TokioIo;
use latchwork_core::backend::Transport;
use latchwork_core::{Error, Result};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout};
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Uri};
use tonic::transport::{Channel as TonicChannel, Endpoint};
use tower::util::BoxCloneSyncService;
use tower::{ServiceExt, service_fn};

use crate::config::Settings;
use crate::error::{IsLearner, NO_LEARNER, NotConnected};

trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// The silence after which the client pings a server. Servers close connections of clients that ping more
/// often than every 5 s.
pub(super) const PING_AFTER: Duration = Duration::from_secs(6);
pub(super) const PING_ANSWER: Duration = Duration::from_secs(2);
/// How long requests skip a server whose last dial got no answer, or that is a learner.
pub(super) const PASSED_OVER: Duration = Duration::from_secs(5);
/// The pause after such a dial. Requests that waited for it fail with it, and go to another server.
const NOT_DIALLED: Duration = Duration::from_millis(100);

/// Connects to each server when a request goes there.
pub(super) fn channel(settings: &Settings) -> Result<Channel> {
    let hosts = settings.endpoints.iter().map(|host| Host::new(host, settings));
    let hosts = hosts.collect::<Result<Arc<[_]>>>()?;
    // Clients that start together must not all begin at the same server.
    let first = RandomState::new().hash_one(0) as usize % hosts.len().max(1);
    let turns = || Arc::new(AtomicUsize::new(first));
    let spread = Spread { hosts, next: turns(), next_of_renewals: turns() };
    Ok(Channel::Custom(BoxCloneSyncService::new(service_fn(move |request: Request<Body>| {
        let is_renewal = request.uri().path().ends_with("/LeaseKeepAlive");
        let host = spread.next(is_renewal).clone();
        async move {
            let answer = host.channel.oneshot(request).await?;
            if is_of_learner(answer.headers()) {
                host.state.passed_over();
                return Err(IsLearner(host.name).into());
            }
            Ok(answer)
        }
    }))))
}

fn is_of_learner(answer: &HeaderMap) -> bool {
    answer
        .get("grpc-message")
        .and_then(|text| text.to_str().ok())
        .is_some_and(|text| text.contains(NO_LEARNER))
}

#[derive(Clone)]
struct Host {
    name: Arc<str>,
    channel: TonicChannel,
    state: Arc<HostState>,
}

impl Host {
    fn new(host: &str, settings: &Settings) -> Result<Self> {
        let bad = || Error::invalid("url", format!("{host:?} is not a host name or address"));
        // The scheme only switches the transport's own TLS off.
        let endpoint =
            Endpoint::from_shared(format!("http://{host}")).map_err(|error| bad().because(error))?;
        let scheme = if settings.transport.is_tls() { "https" } else { "http" };
        let origin: Uri = format!("{scheme}://{host}").parse().map_err(|error| bad().because(error))?;
        let endpoint = endpoint
            .origin(origin)
            .timeout(settings.request_timeout)
            .http2_keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(settings.request_timeout.min(PING_ANSWER))
            .keep_alive_while_idle(true);
        let state = Arc::<HostState>::default();
        let dial = Dial {
            host: host.to_owned(),
            transport: settings.transport.clone(),
            // A request that has waited for all silent servers must have time for one that answers.
            within: settings.request_timeout / settings.endpoints.len() as u32,
            state: Arc::clone(&state),
        };
        let dial = service_fn(move |_| {
            let dial = dial.clone();
            async move { dial.connect().await.map(TokioIo::new).map_err(NotConnected) }
        });
        Ok(Self { name: host.into(), channel: endpoint.connect_with_connector_lazy(dial), state })
    }
}

/// Whether requests go to this server.
#[derive(Default)]
struct HostState(Mutex<Option<PassedOver>>);

struct PassedOver {
    // The end of the last dial without an answer.
    silent: Option<Instant>,
    tried: Instant,
}

impl HostState {
    fn dialled(&self, silent: bool) {
        let now = Instant::now();
        *self.0.lock() = silent.then_some(PassedOver { silent: Some(now), tried: now });
    }

    fn passed_over(&self) {
        *self.0.lock() = Some(PassedOver { silent: None, tried: Instant::now() });
    }

    fn has_just_been_silent(&self) -> bool {
        let since = self.0.lock().as_ref().and_then(|state| state.silent);
        since.is_some_and(|since| since.elapsed() < NOT_DIALLED)
    }

    fn may_try(&self) -> bool {
        let mut state = self.0.lock();
        let Some(state) = &mut *state else { return true };
        let due = state.tried.elapsed() >= PASSED_OVER;
        if due {
            state.tried = Instant::now();
        }
        due
    }
}

/// Resolves the name and reads the certificates at each dial.
#[derive(Clone)]
struct Dial {
    host: String,
    transport: Transport,
    within: Duration,
    state: Arc<HostState>,
}

impl Dial {
    async fn connect(self) -> io::Result<Box<dyn Connection>> {
        if self.state.has_just_been_silent() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let answer = timeout(self.within, self.dial()).await;
        self.state.dialled(answer.is_err());
        answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    async fn dial(&self) -> io::Result<Box<dyn Connection>> {
        #[cfg(test)]
        if let Some(stream) = super::tests::dial(&self.host).await {
            return Ok(Box::new(stream?));
        }
        Ok(Box::new(self.transport.dial(&self.host).await?))
    }
}

/// Sends each request to the next server, so a repeated request goes to another one. Silent servers and
/// learners are used only if no other server is left.
#[derive(Clone)]
struct Spread {
    hosts: Arc<[Host]>,
    next: Arc<AtomicUsize>,
    // A read confirms each renewal. With common turns and two servers, all renewals could go to one.
    next_of_renewals: Arc<AtomicUsize>,
}

impl Spread {
    fn next(&self, is_renewal: bool) -> &Host {
        let turns = if is_renewal { &self.next_of_renewals } else { &self.next };
        let turn = || &self.hosts[turns.fetch_add(1, Ordering::Relaxed) % self.hosts.len()];
        let mut next = (0..self.hosts.len()).map(|_| turn());
        next.find(|host| host.state.may_try()).unwrap_or_else(turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_is_tried_by_one_request_at_a_time() {
        let silence = HostState::default();
        assert!(silence.may_try() && silence.may_try() && !silence.has_just_been_silent());
        silence.dialled(true);
        assert!(silence.has_just_been_silent() && !silence.may_try());
        tokio::time::advance(PASSED_OVER).await;
        assert!(silence.may_try() && !silence.may_try());
        assert!(!silence.has_just_been_silent(), "the one that tries dials");
        silence.dialled(false);
        assert!(silence.may_try() && silence.may_try());
    }
}
