use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use latchwork_core::Moment;
use latchwork_core::backend::{LeaseWriter, LinkLog, Throttle};
use latchwork_core::seen::{Rechecks, Requests};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use zookeeper_client::{Acls, Client, Error, SessionInfo, SessionState, StateWatcher};

use super::dial::{dial, reached};
use super::sasl;
use super::tasks::Tasks;
use super::watch_budget::WatchedBytes;
use super::{NodeMode, kind};
use crate::config::{NAME, Settings};
use crate::error::{Answer, Fault, Unanswered};

/// The shortest pause before a request that failed is sent again.
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) struct Driver {
    // Taken at the close: the crate closes the session with its last handle.
    client: Mutex<Option<Arc<Client>>>,
    tasks: Arc<Tasks>,
    pub(super) state: StateWatcher,
    session: SessionInfo,
    // Cancelled when another connection has ended the session.
    ended: CancellationToken,
    lease: LeaseWriter,
    pub(super) request_timeout: Duration,
    // Bounds the number of requests that may be ahead of a proof of contact.
    pub(super) throttle: Throttle,
    pub(super) link: Arc<LinkLog>,
    pub(super) requests: Requests,
    pub(crate) rechecks: Rechecks,
    pub(super) acls: Acls<'static>,
    pub(super) watched: Arc<WatchedBytes>,
    // Set for a watch session, which syncs before it watches, because its server may lag behind the server of
    // the nodes' session. Its end does not end the nodes' session.
    pub(super) only_watches: bool,
    // How much longer the server's paths are than this client's.
    pub(super) chroot_len: usize,
}

/// A new session, not in the chroot yet. Its creation is contact 0 of the lease.
pub(crate) struct Connected {
    pub(crate) driver: Driver,
    pub(crate) sent: Moment,
    pub(crate) answered: Moment,
}

impl Driver {
    /// Creates a session with a new lease, or a watch session whose lease is `beside`. Has no bound: the
    /// caller bounds the whole connect.
    pub(crate) async fn connect(
        settings: &Settings,
        runtime: &Handle,
        beside: Option<&LeaseWriter>,
    ) -> Answer<Connected> {
        let tasks = Arc::new(Tasks::on(runtime));
        let (client, sent, answered) = dial(settings, &tasks, None).await?;
        if settings.sasl {
            sasl::check(&client).await?;
        }
        let own = || LeaseWriter::new(settings.clock.clone(), client.session_timeout(), sent);
        let lease = beside.cloned().unwrap_or_else(own);
        if beside.is_none() {
            settings.link.mended();
        }
        // Without a login, open to all, as with Curator. With a login, open only to that login.
        let acls = if settings.logins.are_given() { Acls::creator_all() } else { Acls::anyone_all() };
        let driver = Driver {
            state: client.state_watcher(),
            session: client.session().clone(),
            ended: CancellationToken::new(),
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

    pub(crate) async fn connect_inside(
        settings: &Settings,
        runtime: &Handle,
        beside: Option<&LeaseWriter>,
    ) -> Answer<Self> {
        let driver = Self::connect(settings, runtime, beside).await?.driver;
        driver.enter(settings.chroot.as_deref()).await?;
        Ok(driver)
    }

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

    pub(crate) fn session(&self) -> i64 {
        self.session.id().0
    }

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

    /// Never returns at once, because a server under load may refuse requests on a live connection.
    pub(crate) async fn recovered(&self) -> Answer<()> {
        tokio::time::sleep(PAUSE).await;
        self.connected().await
    }

    /// Cancelled when the connection is cut, by [`kill`](Self::kill) or a [`close`](Self::close) that did not
    /// end.
    pub(crate) fn killed(&self) -> CancellationToken {
        self.tasks.killed.clone()
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.tasks.killed.is_cancelled()
    }

    /// Suspends the lease whenever the connection is lost. Returns when the session has ended.
    pub(crate) async fn follow(&self) {
        let mut watcher = self.state.clone();
        let mut state = watcher.state();
        while !state.is_terminated() {
            if state == SessionState::SyncConnected {
                self.link.mended();
            } else {
                self.lease.suspend();
                self.link.broken(&"the connection was closed, or the server was silent");
            }
            state = watcher.changed().await;
        }
    }

    pub(crate) async fn disconnected(&self) {
        reached(self.state.clone(), |state| state != SessionState::SyncConnected).await;
    }

    /// Closes the session in the background: the server then removes its ephemeral nodes. Callers end the
    /// lease first, because requests under way keep the session open until they see the lost lease. If a
    /// request that no task polls still keeps it open, this cuts the connection, and the session expires.
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

    pub(crate) async fn closed(&self) {
        let closed = reached(self.state.clone(), SessionState::is_terminated);
        self.ended.run_until_cancelled(closed).await;
    }

    /// Waits until no more events can come.
    pub(crate) async fn silent(&self) {
        self.tasks.killed.run_until_cancelled(self.closed()).await;
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.state.peek_state() == SessionState::SyncConnected
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state.peek_state().is_terminated()
    }

    /// Cuts the connection. The session expires on the server.
    pub(crate) async fn kill(&self) {
        // Before the last handle is dropped: otherwise the tasks close the session as they end.
        self.tasks.kill().await;
        self.client.lock().take();
    }

    /// Ends the session on the server, over a new connection, unless its close was confirmed. Returns when
    /// the server has removed its nodes.
    pub(crate) async fn end_on_server(&self, settings: &Settings, runtime: &Handle) -> Answer<()> {
        if self.state.peek_state() == SessionState::Closed || self.ended.is_cancelled() {
            return Ok(());
        }
        self.kill().await;
        let tasks = Arc::new(Tasks::on(runtime));
        match dial(settings, &tasks, Some(self.session.clone())).await {
            Ok((client, ..)) => {
                let state = client.state_watcher();
                // The last handle: this closes the session.
                drop(client);
                let closed = reached(state, SessionState::is_terminated);
                let closed = tokio::time::timeout(self.request_timeout, closed).await;
                if !matches!(closed, Ok(SessionState::Closed)) {
                    tasks.kill().await;
                    return Err(Fault::Unknown(Unanswered::default()));
                }
            }
            Err(Fault::SessionOver) => {}
            Err(fault) => return Err(fault),
        }
        self.ended.cancel();
        Ok(())
    }

    pub(super) fn client(&self) -> Answer<Arc<Client>> {
        self.client.lock().clone().ok_or(Fault::SessionOver)
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("session", &self.session.id()).finish_non_exhaustive()
    }
}
