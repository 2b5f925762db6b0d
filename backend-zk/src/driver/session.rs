//! The life of one session: it is opened, followed, and closed or killed.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::{LeaseWriter, LinkLog, Throttle};
use latchwork_core::seen::{self, Rechecks, Requests};
use latchwork_core::{Moment, Secret};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use zookeeper_client::{Acls, Client, Connector, Error, SessionState, StateWatcher};

use super::relay::{self, Relay};
use super::sasl;
use super::tasks::Tasks;
use super::watch_budget::WatchedBytes;
use super::{NodeMode, kind};
use crate::config::{NAME, Settings};
use crate::error::{Answer, Fault, Tried};

/// The shortest pause before a request that failed is sent again.
const PAUSE: Duration = Duration::from_millis(20);

/// A session.
pub(crate) struct Driver {
    // Taken when the session is closed: the crate closes it with its last handle.
    client: Mutex<Option<Arc<Client>>>,
    tasks: Arc<Tasks>,
    pub(super) state: StateWatcher,
    session: i64,
    lease: LeaseWriter,
    pub(super) request_timeout: Duration,
    // Bounds the number of requests that may be ahead of a proof of contact.
    pub(super) throttle: Throttle,
    pub(super) link: Arc<LinkLog>,
    pub(super) requests: Requests,
    pub(crate) rechecks: Rechecks,
    pub(super) acls: Acls<'static>,
    pub(super) watched: Arc<WatchedBytes>,
    // Set for a watch session. Its server may lag behind the server of the nodes' session, so it syncs before
    // it watches. Its end does not end the nodes' session.
    pub(super) only_watches: bool,
    // The server's paths are longer than this client's by this length.
    pub(super) chroot_len: usize,
}

/// A session that was created, and is not in the chroot yet. Its creation is contact 0 of the lease.
pub(crate) struct Connected {
    pub(crate) driver: Driver,
    pub(crate) sent: Moment,
    pub(crate) answered: Moment,
}

impl Driver {
    /// Creates a session with a new lease, or a watch session of the client whose lease is `beside`. It has no
    /// bound: the caller bounds the whole of connecting.
    pub(crate) async fn connect(
        settings: &Settings,
        runtime: &Handle,
        beside: Option<&LeaseWriter>,
    ) -> Answer<Connected> {
        let tasks = Arc::new(Tasks::on(runtime));
        // The protocol has whole milliseconds. Rounded down, the granted TTL would seem shorter than the
        // requested one.
        let millis = settings.ttl.as_nanos().div_ceil(1_000_000);
        let ask = Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX));
        let mut connector =
            Client::connector().with_session_timeout(ask).with_connection_timeout(settings.host_timeout());
        let login = settings.login().await.map_err(Fault::NoLogin)?;
        let relay = relay(settings, &tasks).await?;
        let hosts = relay.as_ref().map_or_else(|| settings.hosts.join(","), Relay::addresses);
        if let Some(relay) = &relay {
            // Before any login: the relay expects the secret first.
            connector = connector.with_auth(relay::SCHEME, relay.secret());
        }
        if let Some((user, password)) = login {
            connector = logged_in(connector, settings, user, &password);
        }
        let sent = settings.clock.now();
        let client = tasks.within(connector.connect(&hosts)).await?;
        let answered = settings.clock.now();
        if settings.sasl {
            sasl::check(&client).await?;
        }
        if let Some(relay) = relay {
            tasks.runtime.spawn(end_with_session(relay, client.state_watcher(), tasks.killed.clone()));
        }
        let own = || LeaseWriter::new(settings.clock.clone(), client.session_timeout(), sent);
        let lease = beside.cloned().unwrap_or_else(own);
        if beside.is_none() {
            settings.link.mended();
        }
        // Without a login open to all, as with Curator. With a login, open only to that login.
        let acls = if settings.logins.are_given() { Acls::creator_all() } else { Acls::anyone_all() };
        let driver = Driver {
            state: client.state_watcher(),
            session: client.session_id().0,
            client: Mutex::new(Some(Arc::new(client))),
            tasks,
            lease,
            request_timeout: settings.request_timeout,
            throttle: Throttle::default(),
            link: Arc::clone(&settings.link),
            requests: Requests::new(NAME, kind::LABELS),
            rechecks: Rechecks::new(NAME),
            acls,
            watched: Arc::default(),
            only_watches: beside.is_some(),
            chroot_len: settings.chroot.as_deref().map_or(0, str::len),
        };
        Ok(Connected { driver, sent, answered })
    }

    /// As [`connect`](Self::connect), inside the chroot.
    pub(crate) async fn connect_inside(
        settings: &Settings,
        runtime: &Handle,
        beside: Option<&LeaseWriter>,
    ) -> Answer<Self> {
        let driver = Self::connect(settings, runtime, beside).await?.driver;
        driver.enter(settings.chroot.as_deref()).await?;
        Ok(driver)
    }

    /// Creates the chroot if it is missing. All later paths are below it.
    pub(crate) async fn enter(&self, chroot: Option<&str>) -> Answer<()> {
        let Some(chroot) = chroot else { return Ok(()) };
        self.make_path(chroot, NodeMode::Persistent).await?;
        let mut client = self.client.lock();
        let root = client.as_deref().cloned().ok_or(Fault::SessionOver)?;
        let inner = root.chroot(chroot).map_err(|_| Fault::Refused(Error::NoNode))?;
        *client = Some(Arc::new(inner));
        Ok(())
    }

    pub(crate) fn lease(&self) -> &LeaseWriter {
        &self.lease
    }

    /// Returns the session's id, which the client's nodes have as `ephemeralOwner`.
    pub(crate) fn session(&self) -> i64 {
        self.session
    }

    /// Waits until the session is connected, or the lease is lost.
    pub(crate) async fn connected(&self) -> Answer<()> {
        if self.client()?.state() == SessionState::SyncConnected {
            return Ok(());
        }
        let is_settled = |state: SessionState| state == SessionState::SyncConnected || state.is_terminated();
        tokio::select! {
            biased;
            state = reached(self.state.clone(), is_settled) => match state.is_terminated() {
                true => Err(Fault::SessionOver),
                false => Ok(()),
            },
            _ = self.lease.until_lost() => Err(Fault::SessionOver),
        }
    }

    /// Waits, after a failed request, until the client should ask again. It never returns at once, since a
    /// server under load may refuse requests without a break of the connection.
    pub(crate) async fn recovered(&self) -> Answer<()> {
        tokio::time::sleep(PAUSE).await;
        self.connected().await
    }

    /// Returns a token that is cancelled when the connection is cut: by [`kill`](Self::kill), or by a
    /// [`close`](Self::close) that did not end.
    pub(crate) fn killed(&self) -> CancellationToken {
        self.tasks.killed.clone()
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.tasks.killed.is_cancelled()
    }

    /// Suspends the lease and logs it whenever the connection is lost. Returns when the session has ended.
    pub(crate) async fn follow(&self) {
        let mut watcher = self.state.clone();
        let mut state = watcher.state();
        while !state.is_terminated() {
            if state == SessionState::SyncConnected {
                self.link.mended();
            } else {
                self.lease.suspend();
                // The crate does not distinguish the two.
                self.link.broken(&"the connection was closed, or the server was silent");
            }
            state = watcher.changed().await;
        }
    }

    /// Waits until the connection is lost.
    pub(crate) async fn disconnected(&self) {
        reached(self.state.clone(), |state| state != SessionState::SyncConnected).await;
    }

    /// Closes the session, in the background: the server then removes its ephemeral nodes. Callers end the
    /// lease before, since requests under way keep the client until they see the lost lease. A request that no
    /// task polls keeps it without end, and the crate keeps the session alive for it. In that case this cuts
    /// the connection, and the session expires.
    pub(crate) fn close(&self) {
        let Some(client) = self.client.lock().take() else { return };
        let held = Arc::downgrade(&client);
        drop(client);
        if held.strong_count() == 0 {
            return;
        }
        let (tasks, timeout) = (Arc::clone(&self.tasks), self.request_timeout);
        self.tasks.runtime.spawn(async move {
            tokio::time::sleep(timeout).await;
            if held.strong_count() > 0 {
                tasks.kill().await;
            }
        });
    }

    /// Waits until the server has confirmed the close.
    pub(crate) async fn closed(&self) {
        reached(self.state.clone(), SessionState::is_terminated).await;
    }

    /// Waits until no more events can come: the session is closed, expired or killed.
    pub(crate) async fn silent(&self) {
        self.tasks.killed.run_until_cancelled(self.closed()).await;
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.state.peek_state() == SessionState::SyncConnected
    }

    /// Returns whether the crate reports the end of the session.
    pub(crate) fn is_over(&self) -> bool {
        self.state.peek_state().is_terminated()
    }

    /// Cuts the connection. The client sends no more requests, and the session expires on the server.
    pub(crate) async fn kill(&self) {
        // Before the last handle is dropped. Otherwise the tasks would close the session as they end.
        self.tasks.kill().await;
        self.client.lock().take();
    }

    pub(super) fn client(&self) -> Answer<Arc<Client>> {
        self.client.lock().clone().ok_or(Fault::SessionOver)
    }
}

/// Returns a connector that logs a session in at each dial.
fn logged_in(connector: Connector, settings: &Settings, user: String, password: &Secret) -> Connector {
    match settings.sasl {
        true => sasl::logged_in(connector, user, password.expose().to_owned()),
        false => connector.with_auth("digest", format!("{user}:{}", password.expose()).as_bytes()),
    }
}

/// Opens the relay of a client with TLS or SASL. With SASL it delays repeated watches until after the login.
async fn relay(settings: &Settings, tasks: &Tasks) -> Answer<Option<Relay>> {
    if !settings.transport.is_tls() && !settings.sasl {
        return Ok(None);
    }
    let opened = Relay::open(&settings.hosts, &settings.transport, settings.sasl, &tasks.runtime).await;
    opened.map(Some).map_err(|error| {
        seen::relay_failed(NAME, &error);
        Fault::Unsent(Tried { hosts: Ipv4Addr::LOCALHOST.to_string(), took: Duration::ZERO })
    })
}

/// Keeps the relay until the client crate needs no connection any more. That is later than the last use of a
/// client, because the session is closed in the background.
async fn end_with_session(relay: Relay, state: StateWatcher, killed: CancellationToken) {
    killed.run_until_cancelled(reached(state, SessionState::is_terminated)).await;
    drop(relay);
}

/// Waits until the crate reports such a state of the session.
async fn reached(mut watcher: StateWatcher, is_wanted: impl Fn(SessionState) -> bool) -> SessionState {
    let mut state = watcher.state();
    while !is_wanted(state) {
        state = watcher.changed().await;
    }
    state
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("session", &format_args!("{:#x}", self.session))
            .finish_non_exhaustive()
    }
}
