//! One session of the client crate: opened, followed, given back. Only this module and the two below it call the crate.
//!
//! What the crate does not do, and what they add: requests wait without limit while it is disconnected, so each is
//! bounded by the request timeout and by the lease; its `Expired` comes later than the server's, so nothing waits for
//! it; it cannot end a connection without closing the session, so the task that serves it is kept in hand.

mod acls;
mod requests;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use latchwork_core::Moment;
use latchwork_core::contracts::{LeaseKeeper, LinkLog, Turns};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use zookeeper_client::{Acls, Client, Error as Answer, SessionState};

use crate::config::Settings;
use crate::error::Fault;
use crate::tasks::Tasks;

pub(crate) use acls::Grant;
pub(crate) use requests::{Joined, Joining, Look, Mode, Stat};
use watch::Burden;
pub(crate) use watch::{Connection, Event, Share, Watch};

type Result<T> = std::result::Result<T, Fault>;

/// The shortest pause before a request that failed is sent again.
const PAUSE: Duration = Duration::from_millis(20);

/// A session.
pub(crate) struct Driver {
    // Taken when the session is given back: the crate closes a session when its last handle goes.
    client: Mutex<Option<Arc<Client>>>,
    tasks: Arc<Tasks>,
    state: zookeeper_client::StateWatcher,
    session: i64,
    lease: LeaseKeeper,
    request_timeout: Duration,
    // Of requests; proofs of contact stand behind no more.
    turns: Turns,
    link: Arc<LinkLog>,
    acls: Acls<'static>,
    burden: Arc<Burden>,
    // Of a session beside the nodes' own: before it watches, or its server might not know yet what was listed there.
    sync_first: bool,
    // What the server's paths are longer by than ours.
    chroot_len: usize,
}

/// A session that was created: contact 0 of its lease.
pub(crate) struct Connected {
    pub(crate) driver: Driver,
    pub(crate) sent: Moment,
    pub(crate) answered: Moment,
}

impl Driver {
    /// Creates a session, with a lease of its own or as one more of a client that counts on `beside`. Not bounded: the caller
    /// has a deadline over the whole of connecting.
    pub(crate) async fn connect(
        settings: &Settings,
        runtime: &Handle,
        beside: Option<&LeaseKeeper>,
    ) -> Result<Connected> {
        let tasks = Arc::new(Tasks::on(runtime));
        // Whole milliseconds on the wire: rounded up, or a server would seem to grant less than asked.
        let millis = settings.ttl.as_nanos().div_ceil(1_000_000);
        let ask = Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX));
        let mut connector =
            Client::connector().with_session_timeout(ask).with_connection_timeout(settings.host_timeout());
        if let Some(login) = &settings.login {
            connector = connector.with_auth("digest", login.0.as_bytes());
        }
        let sent = settings.clock.now();
        let client = tasks.within(connector.connect(&settings.hosts.join(","))).await?;
        let answered = settings.clock.now();
        let own = || LeaseKeeper::new(settings.clock.clone(), client.session_timeout(), sent);
        let lease = beside.cloned().unwrap_or_else(own);
        if beside.is_none() {
            settings.link.mended();
        }
        // Readable by all without a login, as Curator does; with one, only that login's.
        let acls = if settings.login.is_some() { Acls::creator_all() } else { Acls::anyone_all() };
        let driver = Driver {
            state: client.state_watcher(),
            session: client.session_id().0,
            client: Mutex::new(Some(Arc::new(client))),
            tasks,
            lease,
            request_timeout: settings.request_timeout,
            turns: Turns::default(),
            link: Arc::clone(&settings.link),
            acls,
            burden: Arc::default(),
            sync_first: beside.is_some(),
            chroot_len: settings.chroot.as_deref().map_or(0, str::len),
        };
        if let Some(chroot) = &settings.chroot {
            driver.make_path(chroot, Mode::Persistent).await?;
            let mut client = driver.client.lock();
            let root = client.as_deref().cloned().ok_or(Fault::Gone)?;
            let inner = root.chroot(chroot.as_str()).map_err(|_| Fault::Refused(Answer::NoNode))?;
            *client = Some(Arc::new(inner));
        }
        Ok(Connected { driver, sent, answered })
    }

    pub(crate) fn lease(&self) -> &LeaseKeeper {
        &self.lease
    }

    /// The session's id: what `ephemeralOwner` says of our nodes.
    pub(crate) fn session(&self) -> i64 {
        self.session
    }

    /// Waits until it is connected, or the lease is lost.
    pub(crate) async fn connected(&self) -> Result<()> {
        if self.client()?.state() == SessionState::SyncConnected {
            return Ok(());
        }
        let mut watcher = self.state.clone();
        let mut state = watcher.state();
        loop {
            match state {
                SessionState::SyncConnected => return Ok(()),
                state if state.is_terminated() => return Err(Fault::Gone),
                _ => {}
            }
            tokio::select! {
                next = watcher.changed() => state = next,
                _ = self.lease.until_lost() => return Err(Fault::Gone),
            }
        }
    }

    /// After a request that came to nothing: waits until it makes sense to ask again. Never at once, since a
    /// server under load may refuse while the connection stands.
    pub(crate) async fn recovered(&self) -> Result<()> {
        tokio::time::sleep(PAUSE).await;
        self.connected().await
    }

    /// Whether its connection was cut: by [`kill`](Self::kill), where the lease runs out by itself, or behind its end.
    pub(crate) fn is_killed(&self) -> bool {
        *self.tasks.aborted.borrow()
    }

    /// Suspends the lease whenever the connection is lost, and tells the log of it; returns when the session is over.
    pub(crate) async fn follow(&self) {
        let mut watcher = self.state.clone();
        let mut state = watcher.state();
        while !state.is_terminated() {
            if state == SessionState::SyncConnected {
                self.link.mended();
            } else {
                self.lease.suspend();
                // The crate does not say which of the two it was.
                self.link.broken(&"the connection was closed, or the server was silent");
            }
            state = watcher.changed().await;
        }
    }

    /// Waits until it is not connected.
    pub(crate) async fn disconnected(&self) {
        let mut watcher = self.state.clone();
        let mut state = watcher.state();
        while state == SessionState::SyncConnected {
            state = watcher.changed().await;
        }
    }

    /// Gives the session back: the server removes all that hangs on it as soon as it can be told. Requests
    /// under way hold the client until they see that the lease is lost, so that is to be ended before. One that
    /// nobody polls any more holds it without end, and the crate keeps the session alive for it: the connection is
    /// cut then, and the server lets the session expire.
    pub(crate) fn give_back(&self) {
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
                tasks.abort().await;
            }
        });
    }

    /// Waits until the server has confirmed that the session given back is closed.
    pub(crate) async fn closed(&self) {
        let mut watcher = self.state.clone();
        let mut state = watcher.state();
        while !state.is_terminated() {
            state = watcher.changed().await;
        }
    }

    /// Waits until no event comes any more: it is closed, has expired, or was killed.
    pub(crate) async fn silent(&self) {
        let mut killed = self.tasks.aborted.subscribe();
        tokio::select! {
            biased;
            _ = killed.wait_for(|killed| *killed) => {}
            () = self.closed() => {}
        }
    }

    /// Whether it is connected now.
    pub(crate) fn is_connected(&self) -> bool {
        self.state.peek_state() == SessionState::SyncConnected
    }

    /// Whether the crate says that it has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.state.peek_state().is_terminated()
    }

    /// Cuts the connection and sends nothing more: the session is left to expire on the server.
    pub(crate) async fn kill(&self) {
        // Ended before the last handle goes, or it would close the session on its way out.
        self.tasks.abort().await;
        self.client.lock().take();
    }

    fn client(&self) -> Result<Arc<Client>> {
        self.client.lock().clone().ok_or(Fault::Gone)
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver")
            .field("session", &format_args!("{:#x}", self.session))
            .finish_non_exhaustive()
    }
}
