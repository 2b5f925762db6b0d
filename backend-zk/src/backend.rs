//! A connected client, and what connects it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use latchwork_core::contracts::{
    Backend, Close, Entry, Join, Joined, Lease, Names, Page, SequentialNodes, SingleFlight,
};
use latchwork_core::{
    Address, Capabilities, Config, Connector, Error, ErrorKind, Eviction, LostReason, Result,
};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use crate::config::Settings;
use crate::lease::Session;
use crate::{hello, limit, list, nodes};

const NAME: &str = "zookeeper";

/// Connects to ZooKeeper: `zookeeper://[user:password@]host[:port],…[/chroot]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ZooKeeperConnector;

/// The connector of this backend, for [`latchwork_core::connect`].
pub fn connector() -> Arc<dyn Connector> {
    Arc::new(ZooKeeperConnector)
}

#[async_trait]
impl Connector for ZooKeeperConnector {
    fn name(&self) -> &'static str {
        NAME
    }

    fn validate(&self, config: &Config) -> Result<()> {
        Settings::read(config).map(drop)
    }

    fn check(&self, _config: &Config, queue: &Address) -> Result<()> {
        Settings::queue_path(queue).map(drop)
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(ZooKeeperBackend::connect(config).await?))
    }
}

/// A client of a ZooKeeper ensemble: one session at a time that its nodes hang on, and where it waits in hundreds of queues at
/// once further ones that watch.
pub struct ZooKeeperBackend {
    shared: Arc<Shared>,
    closed: OnceCell<Result<()>>,
}

struct Shared {
    settings: Arc<Settings>,
    names: Arc<Names>,
    runtime: Handle,
    current: Mutex<Arc<Session>>,
    opening: SingleFlight<Result<()>>,
    closing: AtomicBool,
}

impl ZooKeeperBackend {
    /// Connects. Must run on a tokio runtime, which then serves the session.
    ///
    /// # Errors
    /// `Unavailable`, `WrongServer`, `Forbidden` or `Misconfigured`, as the connector.
    ///
    /// # Cancel safety
    /// A dropped connect leaves nothing beyond a session that expires.
    pub async fn connect(config: &Config) -> Result<Self> {
        Self::open(Settings::read(config)?).await
    }

    /// A control for tests: it counts an answered read as a proof of contact, and so believes a follower that is cut
    /// off from its leader. Two hold.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    #[cfg(feature = "controls")]
    pub async fn connect_believing_reads(config: &Config) -> Result<Self> {
        Self::open(Settings { believes_reads: true, ..Settings::read(config)? }).await
    }

    async fn open(settings: Settings) -> Result<Self> {
        let (settings, names, runtime) = (Arc::new(settings), Arc::new(Names::default()), Handle::current());
        let opened = async {
            hello::greet(&settings.hosts).await?;
            Session::open(&settings, &names, &runtime).await
        };
        let session = in_time(&settings, opened).await?;
        let shared = Shared {
            settings,
            names,
            runtime,
            current: Mutex::new(session),
            opening: SingleFlight::default(),
            closing: AtomicBool::new(false),
        };
        Ok(Self { shared: Arc::new(shared), closed: OnceCell::new() })
    }

    fn current(&self) -> Arc<Session> {
        self.shared.current()
    }

    /// The session to work on: the current one, or a new one when that is lost (LEASE-REOPEN).
    async fn session(&self) -> Result<Arc<Session>> {
        if let Some(session) = self.shared.live()? {
            return Ok(session);
        }
        let shared = &self.shared;
        let opens = Arc::clone(shared);
        let opening = shared.opening.join(&shared.runtime, || async move { opens.reopen().await });
        let Settings { connect_timeout, request_timeout, .. } = *shared.settings;
        let within = connect_timeout.saturating_add(request_timeout);
        opening.landed_within(within, "the opening of a session").await??;
        // Where that is lost by now, the request says so.
        Ok(self.current())
    }

    async fn close_in_order(&self) -> Result<()> {
        let session = self.current();
        session.give_back(LostReason::Closed);
        if session.closed_within(self.shared.settings.request_timeout).await {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            "the server did not confirm the end of the session; it expires by itself",
        ))
    }
}

impl Shared {
    fn current(&self) -> Arc<Session> {
        Arc::clone(&self.current.lock())
    }

    fn live(&self) -> Result<Option<Arc<Session>>> {
        if self.closing.load(Ordering::Acquire) {
            return Err(Error::closed());
        }
        let session = self.current();
        Ok(session.lease().lost().is_none().then_some(session))
    }

    async fn reopen(&self) -> Result<()> {
        if self.live()?.is_some() {
            return Ok(());
        }
        let old = self.current();
        old.give_back(LostReason::Expired);
        if old.driver.is_connected() {
            // Our own old nodes are not to be in our way. Where it takes too long, they are, for a while.
            let _ = tokio::time::timeout(self.settings.request_timeout, old.driver.silent()).await;
        }
        let fresh =
            in_time(&self.settings, Session::open(&self.settings, &self.names, &self.runtime)).await?;
        let mut current = self.current.lock();
        // Looked at under the lock that an end takes behind the flag: one of the two sees the other.
        if self.closing.load(Ordering::Acquire) {
            fresh.give_back(LostReason::Closed);
            return Err(Error::closed());
        }
        *current = fresh;
        Ok(())
    }
}

async fn in_time<T>(settings: &Settings, work: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(settings.connect_timeout, work).await {
        Ok(answer) => answer,
        Err(_) => Err(Error::new(
            ErrorKind::Unavailable,
            format!(
                "no ZooKeeper gave a session at {:?} within {:?}",
                settings.hosts, settings.connect_timeout
            ),
        )),
    }
}

#[async_trait]
impl SequentialNodes for ZooKeeperBackend {
    async fn join(&self, join: &Join) -> Result<Joined> {
        nodes::join(&self.session().await?, join).await
    }

    async fn abandon(&self, join: &Join) -> Result<()> {
        // On the session as it is: what hung on a lost one goes with that.
        nodes::abandon(&self.current(), join).await
    }

    async fn list(&self, queue: &Address, page: Page) -> Result<Vec<Entry>> {
        list::list(&*self.session().await?, queue, page).await
    }

    async fn revoke(&self, queue: &Address, sequence: u64) -> Result<bool> {
        list::revoke(&*self.session().await?, queue, sequence).await
    }

    async fn limit(&self, queue: &Address) -> Result<Option<u32>> {
        limit::limit(&*self.session().await?, queue).await
    }

    async fn set_limit(&self, queue: &Address, limit: u32) -> Result<()> {
        limit::set_limit(&*self.session().await?, queue, limit).await
    }
}

#[async_trait]
impl Backend for ZooKeeperBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            lease_per_node: false,
            // A refused try leaves a node for a moment, which may make another's try fail and wakes a follower.
            clean_try: false,
            prompt_revocation: true,
            minimum_outlives_close: false,
            survives_failover: true,
            exact_addresses: true,
            eviction: Eviction::Never,
        }
    }

    fn lease(&self) -> Lease {
        self.current().lease().lease().clone()
    }

    async fn close(&self, how: Close) -> Result<()> {
        self.shared.closing.store(true, Ordering::Release);
        match how {
            Close::Orderly => self.closed.get_or_init(|| self.close_in_order()).await.clone(),
            Close::Abrupt => {
                self.current().kill().await;
                Ok(())
            }
        }
    }
}

impl Drop for ZooKeeperBackend {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        // After an abrupt end there is nothing to give back any more, and this does nothing.
        self.current().give_back(LostReason::Closed);
    }
}

impl fmt::Debug for ZooKeeperBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeperBackend")
            .field("hosts", &self.shared.settings.hosts)
            .field("session", &self.current())
            .finish_non_exhaustive()
    }
}
