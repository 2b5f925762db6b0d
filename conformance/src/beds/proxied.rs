//! A real server, or several of one ensemble, each behind one fault proxy per client.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::{select_all, try_join_all};
use latchwork_core::{Address, Capabilities, Config, Connector, Error, ErrorKind, Result, connect};

use crate::proxy::{Direction, Event, EventLost, Parked, Proxy};
use crate::servers::Server;
use crate::testbed::{Armed, Client, Fault, Link, Stage, Testbed};

/// An operator's hands on a server, past the library: written with the client crate or the server's own tools.
#[async_trait]
pub trait Admin: fmt::Debug + Send + Sync {
    /// Everything under `namespace` (as it is coded on the server) and under the exact `names` that must not stay: nodes of holders and
    /// waiters, member nodes. What a documented call stores, or goes by itself, is left out.
    async fn contents(&self, namespace: &str, names: &[String]) -> Result<Vec<String>>;

    /// Removes the node at `sequence`.
    async fn remove(&self, queue: &Address, sequence: u64) -> Result<()>;

    /// Puts an entry under the queue that is no node of ours and must do no harm.
    async fn plant(&self, queue: &Address) -> Result<()>;

    /// How many requests the server got, those of this call not counted.
    async fn requests(&self) -> Result<u64>;
}

/// Opens an [`Admin`] of the server at this address (of several: with commas between them), on the runtime of the case.
pub type OpenAdmin = fn(addr: String) -> futures_util::future::BoxFuture<'static, Result<Box<dyn Admin>>>;

/// A backend on a real server.
#[derive(Debug)]
pub struct ServerBed {
    /// The backend's name.
    pub name: &'static str,
    /// Its connector.
    pub connector: Arc<dyn Connector>,
    /// What it is expected to promise.
    pub capabilities: Capabilities,
    /// `host:port` of each of its servers.
    pub hosts: Vec<String>,
    /// The configuration of a client, hosts apart.
    pub config: Config,
    /// LEASE-EXPIRY's bound beyond the TTL.
    pub expiry_bound: Duration,
    /// An operator's hands.
    pub admin: OpenAdmin,
    /// What a name for `Address::exact` begins with.
    pub exact_prefix: &'static str,
    // Ends when the run does; whoever has an ensemble ends it.
    server: tokio::sync::Mutex<Option<Server>>,
}

impl ServerBed {
    /// A testbed on these `hosts`, which are one for their clients, behind a `url` of the kind that `connector` connects to.
    ///
    /// # Errors
    /// `InvalidArgument` when the URL is none of ours, or has a login, or a path other than Redis' database 0.
    pub fn new(
        url: &str,
        hosts: Vec<String>,
        connector: Arc<dyn Connector>,
        capabilities: Capabilities,
        expiry_bound: Duration,
        exact_prefix: &'static str,
        admin: OpenAdmin,
    ) -> Result<Self> {
        let config = Config::from_url(url)?;
        if config.user.is_some() || config.password.is_some() || !["", "0"].contains(&config.path.as_str()) {
            return Err(Error::invalid(
                "url",
                "the suite looks at the server by itself: it needs one without a login and a path",
            ));
        }
        Ok(Self {
            name: connector.name(),
            connector,
            capabilities,
            hosts,
            config,
            expiry_bound,
            admin,
            exact_prefix,
            server: tokio::sync::Mutex::default(),
        })
    }

    /// With its server, which ends with it.
    pub fn keeping(self, server: Server) -> Self {
        Self { server: tokio::sync::Mutex::new(Some(server)), ..self }
    }
}

#[async_trait]
impl Testbed for ServerBed {
    fn name(&self) -> &str {
        self.name
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    async fn stage(&self) -> Result<Box<dyn Stage>> {
        let mut config = self.config.clone();
        config.namespace = format!("t{}", &latchwork_core::contracts::NodeId::random().to_string()[..12]);
        Ok(Box::new(ServerStage {
            connector: Arc::clone(&self.connector),
            admin: (self.admin)(self.hosts.join(",")).await?,
            open_admin: self.admin,
            hosts: self.hosts.clone(),
            config,
            expiry_bound: self.expiry_bound,
            exact_prefix: self.exact_prefix,
            last_name: AtomicU64::new(0),
            proxies: Mutex::default(),
        }))
    }

    async fn close(&self) {
        // A container is removed on the runtime that it was made on.
        drop(self.server.lock().await.take());
    }

    fn connectors(&self) -> Vec<Arc<dyn Connector>> {
        vec![Arc::clone(&self.connector)]
    }
}

struct ServerStage {
    connector: Arc<dyn Connector>,
    admin: Box<dyn Admin>,
    open_admin: OpenAdmin,
    hosts: Vec<String>,
    config: Config,
    expiry_bound: Duration,
    exact_prefix: &'static str,
    last_name: AtomicU64,
    // They outlive the clients, whose last words are said after a case has dropped them.
    proxies: Mutex<Vec<Arc<Proxy>>>,
}

impl ServerStage {
    fn exact(&self, number: u64) -> String {
        format!("{}{}-{number}", self.exact_prefix, self.config.namespace)
    }
}

#[async_trait]
impl Stage for ServerStage {
    fn can(&self, fault: Fault) -> bool {
        // The task that renews cannot be killed alone, from outside; and a proxy that reads no protocol can lose a
        // message only with its connection.
        !matches!(fault, Fault::KillKeeper | Fault::DropWake)
    }

    fn config(&self) -> Config {
        self.config.clone()
    }

    async fn client(&self, config: &Config) -> Result<Client> {
        let no_port = |error| Error::new(ErrorKind::Unavailable, "no port for a proxy").because(error);
        let proxies: Vec<_> = try_join_all(self.hosts.iter().map(Proxy::start))
            .await
            .map_err(no_port)?
            .into_iter()
            .map(Arc::new)
            .collect();
        let mut config = config.clone();
        config.hosts = proxies.iter().map(|proxy| proxy.addr().to_string()).collect();
        let coordinator = connect(&[Arc::clone(&self.connector)], &config).await?;
        self.proxies.lock().unwrap_or_else(PoisonError::into_inner).extend(proxies.iter().cloned());
        Ok(Client { coordinator, link: Arc::new(ProxyLink(proxies)) })
    }

    async fn contents(&self) -> Result<Vec<String>> {
        let names: Vec<_> =
            (1..=self.last_name.load(Ordering::Acquire)).map(|number| self.exact(number)).collect();
        match self.admin.contents(&self.config.namespace, &names).await {
            // A server that was started again has hung up on the operator too.
            Err(error) if error.is_retryable() => {
                (self.open_admin)(self.hosts.join(",")).await?.contents(&self.config.namespace, &names).await
            }
            contents => contents,
        }
    }

    async fn remove(&self, queue: &Address, sequence: u64) -> Result<()> {
        self.admin.remove(queue, sequence).await
    }

    async fn plant(&self, queue: &Address) -> Result<()> {
        self.admin.plant(queue).await
    }

    async fn requests(&self) -> Result<u64> {
        self.admin.requests().await
    }

    fn expiry_bound(&self) -> Duration {
        self.expiry_bound
    }

    fn exact_name(&self) -> String {
        self.exact(self.last_name.fetch_add(1, Ordering::AcqRel) + 1)
    }

    fn process_config(&self) -> Option<Config> {
        let mut config = self.config.clone();
        config.hosts = self.hosts.clone();
        Some(config)
    }
}

/// The ways of one client to the servers.
struct ProxyLink(Vec<Arc<Proxy>>);

#[async_trait]
impl Link for ProxyLink {
    fn cut(&self) {
        self.0.iter().for_each(|proxy| proxy.cut());
    }

    fn heal(&self) {
        self.0.iter().for_each(|proxy| proxy.resume());
    }

    fn drop_reply(&self, key: &str) -> Box<dyn Armed> {
        Box::new(ArmedEvents(self.0.iter().map(|proxy| proxy.drop_reply_to(names(key))).collect()))
    }

    fn park(&self, key: &str) -> Box<dyn Armed> {
        Box::new(ArmedParks(self.0.iter().map(|proxy| proxy.park_request(names(key))).collect()))
    }

    fn delay(&self, delay: Duration) {
        for proxy in &self.0 {
            proxy.delay(Direction::ToServer, delay / 2);
            proxy.delay(Direction::ToClient, delay / 2);
        }
    }

    fn drop_wake(&self, _queue: &Address, _sequence: u64) -> bool {
        false
    }

    fn narrow(&self, bytes_a_second: u32) -> bool {
        self.0.iter().for_each(|proxy| proxy.narrow(Direction::ToServer, Some(bytes_a_second)));
        true
    }

    fn asked(&self) -> u64 {
        self.0.iter().map(|proxy| proxy.asked()).sum()
    }

    fn kill_keeper(&self) -> bool {
        false
    }
}

fn names(key: &str) -> impl Fn(&[u8]) -> bool + Send + 'static {
    let key = key.as_bytes().to_vec();
    move |chunk| chunk.windows(key.len()).any(|window| window == key)
}

/// Armed on each way; the request takes one of them.
struct ArmedEvents(Vec<Event>);
struct ArmedParks(Vec<Parked>);

#[async_trait]
impl Armed for ArmedEvents {
    async fn caught(&mut self) -> std::result::Result<(), EventLost> {
        let (caught, ..) = select_all(self.0.iter_mut().map(|event| event.fired().boxed())).await;
        caught
    }

    async fn deliver(self: Box<Self>) {}
}

#[async_trait]
impl Armed for ArmedParks {
    async fn caught(&mut self) -> std::result::Result<(), EventLost> {
        let (caught, way, _) = select_all(self.0.iter_mut().map(|parked| parked.caught().boxed())).await;
        self.0.swap(0, way);
        self.0.truncate(1);
        caught
    }

    async fn deliver(mut self: Box<Self>) {
        if self.0.len() > 1 {
            // Nobody has waited for it yet; what went wrong is told below.
            let _ = self.caught().await;
        }
        // A server that has closed that connection drops the request: then it never lands, which is safe too.
        for parked in self.0 {
            if let Err(error) = parked.deliver().await {
                eprintln!("a parked request was not delivered: {error}");
            }
        }
    }
}
