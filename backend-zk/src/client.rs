use std::future::Ready;
use std::sync::Arc;

use latchwork_core::backend::{CloseOnce, NamePool, SingleFlight, connect_within, opening_bound};
use latchwork_core::{Error, ErrorKind, LostReason, Result};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::config::Settings;
use crate::namespace::connect_error;
use crate::opening::open_session;
use crate::probe::probe;
use crate::queue::Session;

pub(crate) struct Client {
    pub(crate) settings: Arc<Settings>,
    names: Arc<NamePool>,
    runtime: Handle,
    current: Mutex<Arc<Session>>,
    opening: SingleFlight<Result<()>>,
    ended: CancellationToken,
    // Cancelled by a kill: the client sends nothing more, not even a close.
    killed: CancellationToken,
    closing: CloseOnce,
}

impl Client {
    /// The runtime of the caller then serves all sessions of the client.
    pub(crate) async fn connect(settings: Settings) -> Result<Arc<Self>> {
        let (settings, names, runtime) =
            (Arc::new(settings), Arc::new(NamePool::default()), Handle::current());
        let ended = CancellationToken::new();
        let opened = async {
            settings.transport.prepare().await?;
            probe(&settings).await?;
            open_session(&settings, &names, &runtime, &ended).await
        };
        let session = in_time(&settings, opened).await?;
        Ok(Arc::new(Self {
            settings,
            names,
            runtime,
            current: Mutex::new(session),
            opening: SingleFlight::default(),
            ended,
            killed: CancellationToken::new(),
            closing: CloseOnce::default(),
        }))
    }

    pub(crate) fn current(&self) -> Arc<Session> {
        Arc::clone(&self.current.lock())
    }

    /// Returns the current session, or a new one if the current session is lost (LEASE-REOPEN).
    pub(crate) async fn session(self: &Arc<Self>) -> Result<Arc<Session>> {
        if let Some(session) = self.live()? {
            return Ok(session);
        }
        let client = Arc::clone(self);
        let opening = self.opening.run(&self.runtime, || async move { client.reopen().await });
        let Settings { connect_timeout, request_timeout, .. } = *self.settings;
        let within = opening_bound(connect_timeout, request_timeout);
        let opened = opening.wait_within(within, "the opening of a session");
        self.ended.run_until_cancelled(opened).await.ok_or_else(Error::closed)???;
        Ok(self.current())
    }

    fn live(&self) -> Result<Option<Arc<Session>>> {
        if self.ended.is_cancelled() {
            return Err(Error::closed());
        }
        let session = self.current();
        Ok(session.writer().lost().is_none().then_some(session))
    }

    async fn reopen(&self) -> Result<()> {
        if self.live()?.is_some() {
            return Ok(());
        }
        let old = self.current();
        old.close(LostReason::Expired);
        if old.driver.is_connected() {
            // If the close has no answer in time, it is sent again over a new connection.
            let _ = tokio::time::timeout(self.settings.request_timeout, old.driver.silent()).await;
        }
        let opening = async {
            let ended = old.driver.end_on_server(&self.settings, &self.runtime).await;
            ended.map_err(|fault| connect_error(fault, &self.settings))?;
            open_session(&self.settings, &self.names, &self.runtime, &self.ended).await
        };
        let opened = self.killed.run_until_cancelled(in_time(&self.settings, opening)).await;
        let fresh = opened.ok_or_else(Error::closed)??;
        if !self.take_over(&fresh) {
            fresh.close(LostReason::Closed);
            fresh.closed_within(self.settings.request_timeout).await;
            return Err(Error::closed());
        }
        Ok(())
    }

    /// Makes this session the current one. Returns `false` if the client has ended.
    fn take_over(&self, fresh: &Arc<Session>) -> bool {
        let mut current = self.current.lock();
        // An end sets the flag before it takes this lock, so one of the two sees the other.
        let lives = !self.ended.is_cancelled();
        if lives {
            *current = Arc::clone(fresh);
        }
        lives
    }

    /// Closes the client, and waits until the server has confirmed it, also for a session that is being
    /// opened: if the process exits before, that session remains until it expires.
    pub(crate) async fn close(&self) -> Result<()> {
        let request_timeout = self.settings.request_timeout;
        let close = || {
            let session = self.end();
            let opening = self.opening.run_if(&self.runtime, || None::<Ready<Result<()>>>);
            async move {
                let opening = async {
                    if let Some(opening) = opening {
                        let _ = tokio::time::timeout(request_timeout, opening.wait()).await;
                    }
                };
                let (confirmed, ()) = tokio::join!(session.closed_within(request_timeout), opening);
                if confirmed {
                    return Ok(());
                }
                let what = "closed, but the server did not confirm the end of the session: it expires by its timeout";
                Err(Error::new(ErrorKind::Unavailable, what))
            }
        };
        self.ended.cancel();
        self.closing.close(&self.runtime, request_timeout, close).await
    }

    /// Starts to close the client in the background, and returns its last session.
    pub(crate) fn end(&self) -> Arc<Session> {
        self.ended.cancel();
        let session = self.current();
        session.close(LostReason::Closed);
        session
    }

    pub(crate) async fn kill(&self) {
        self.ended.cancel();
        self.killed.cancel();
        self.current().kill().await;
    }
}

async fn in_time<T>(settings: &Settings, connecting: impl Future<Output = Result<T>>) -> Result<T> {
    let answer = connect_within(settings.connect_timeout, "ZooKeeper", &settings.hosts, connecting).await;
    answer.map_err(|error| match (error.kind(), settings.transport.failure()) {
        // The client crate reports only a timeout.
        (ErrorKind::Unavailable, Some(failure)) => failure,
        _ => error,
    })
}
