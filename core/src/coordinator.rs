//! The user's handle on one connected client, which makes the recipes.

pub(crate) mod close;
pub(crate) mod operator;
mod quorum;

use std::fmt;
use std::sync::Arc;

use crate::address::{Address, Key, Kind, Namespace, QueuePrefix};
use crate::capabilities::Capabilities;
use crate::client::Client;
use crate::config::Config;
use crate::connector::Connector;
use crate::contracts::{Backend, Lease, Limit, ListedKey};
use crate::error::{Error, Result};
use crate::facts::ServerFacts;
use crate::listing::Listing;
use crate::moving::Participant;
use crate::recipes::{
    Barrier, CellHandle, CountDownLatch, Counter, DoubleBarrier, Election, Group, IdGenerator, Mutex,
    QueueHandle, RwLock, Semaphore, SharedValue,
};
use crate::reentrancy::Owners;
use crate::registry::{ClientRecord, Clients, Keys, Place};
use crate::token::Tokens;

/// A client of one coordinator: one set of connections, one lease, one inbox. Cloning is cheap, and
/// recipes are cheap handles made from it without I/O.
///
/// Two `Coordinator`s on one URL in one process are two clients. When the last clone, recipe and
/// guard is dropped, everything is given back in the background. What is dropped as the runtime
/// ends may not reach the server; then its lease frees it. So end `main` by
/// [`close`](Coordinator::close), or run it in [`close_after`](Coordinator::close_after), which
/// also closes after an early `?` and a panic.
#[derive(Clone)]
pub struct Coordinator(Arc<CoordinatorParts>);

struct CoordinatorParts {
    owners: Arc<Owners>,
    namespace: Namespace,
    place: Place,
    layout: u32,
    operator: bool,
    // For a client of both sides of a move.
    moving: Option<Arc<Participant>>,
    // Validates addresses without I/O.
    connector: Option<(Arc<dyn Connector>, Config)>,
}

impl Coordinator {
    /// A coordinator over a connected backend, configured by `config`. For tests and backends;
    /// users call `connect`. It neither registers nor checks the layout.
    ///
    /// # Panics
    /// Outside a tokio runtime, and for a namespace that [`Config::validate`] refuses.
    pub fn new(backend: Arc<dyn Backend>, config: &Config) -> Self {
        Self::of(Client::new(backend, Tokens::default(), config), config, None, None)
    }

    /// A coordinator over a registered client. The connector validates the queues' addresses.
    pub(crate) fn with(client: Client, config: &Config, connector: Arc<dyn Connector>) -> Self {
        Self::of(client, config, Some(connector), None)
    }

    /// A coordinator that takes part in a move: `backend` is that of both sides, and `config` the old
    /// side's, whose namespace its addresses have.
    pub(crate) fn moving(backend: Arc<dyn Backend>, config: &Config, participant: Arc<Participant>) -> Self {
        let client = Client::new(backend, Tokens::Coded, config).ending_within(participant.ends_within());
        Self::of(client, config, None, Some(participant))
    }

    fn of(
        client: Client,
        config: &Config,
        connector: Option<Arc<dyn Connector>>,
        moving: Option<Arc<Participant>>,
    ) -> Self {
        let client = Arc::new(client);
        let namespace = Namespace::new(&config.namespace);
        Self(Arc::new(CoordinatorParts {
            owners: Arc::new(Owners::new(client)),
            place: Place::of(&namespace).expect("a valid namespace"),
            namespace,
            layout: config.layout,
            operator: config.operator,
            moving,
            connector: connector.map(|connector| (connector, config.clone())),
        }))
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        self.0.owners.client()
    }

    fn handle(&self, recipe: &'static str, kind: Kind, key: impl Into<Key>) -> Result<QueueHandle> {
        Ok(QueueHandle::new(&self.0.owners, self.address(kind, key)?, recipe, self.0.moving.clone()))
    }

    /// A mutex: validates the key, no I/O.
    ///
    /// # Errors
    /// `InvalidArgument` naming `key`.
    pub fn mutex(&self, key: impl Into<Key>) -> Result<Mutex> {
        self.handle("mutex", Kind::Mutex, key).map(Mutex::new)
    }

    /// A read/write lock: validates the key, no I/O.
    ///
    /// # Errors
    /// `InvalidArgument` naming `key`.
    pub fn rwlock(&self, key: impl Into<Key>) -> Result<RwLock> {
        self.handle("rwlock", Kind::RwLock, key).map(RwLock::new)
    }

    /// A semaphore: validates key and limit, no I/O. The limit says how the handle relates to the
    /// limit on the coordinator. The first acquisition stores a limit.
    ///
    /// * `3`, or [`Limit::Exactly(3)`](Limit::Exactly): while another limit is stored, acquisitions
    ///   answer `Conflict`, also after a restart.
    /// * [`Limit::UnlessStored(3)`](Limit::UnlessStored): the stored limit, or this one if none is. A
    ///   limit that [`set_limit`](Semaphore::set_limit) stores outlives the configuration of every
    ///   client, so this is for a limit that changes while a fleet runs.
    /// * [`Limit::Stored`]: the limit that others have stored. While none is, acquisitions answer
    ///   `Conflict`.
    ///
    /// # Errors
    /// `InvalidArgument` naming `key` or `limit`.
    pub fn semaphore(&self, key: impl Into<Key>, limit: impl Into<Limit>) -> Result<Semaphore> {
        Semaphore::new(self.handle("semaphore", Kind::Semaphore, key)?, limit.into())
    }

    /// A value that all clients share: validates the key, no I/O.
    ///
    /// # Errors
    /// `InvalidArgument` naming `key`.
    pub fn shared_value(&self, key: impl Into<Key>) -> Result<SharedValue> {
        self.cell(Kind::Value, key).map(SharedValue::new)
    }

    /// A number that all clients share: validates the key, no I/O. The handle and its clones are
    /// one writer.
    ///
    /// # Errors
    /// `InvalidArgument` naming `key`.
    pub fn counter(&self, key: impl Into<Key>) -> Result<Counter> {
        self.cell(Kind::Counter, key).map(Counter::new)
    }

    /// A generator of unique ids: validates the key, no I/O. The handle and its clones share the
    /// ids that they have reserved.
    ///
    /// # Errors
    /// `InvalidArgument` naming `key`.
    pub fn id_generator(&self, key: impl Into<Key>) -> Result<IdGenerator> {
        self.cell(Kind::Ids, key).map(IdGenerator::new)
    }

    /// A latch that opens after `count` count-downs: validates key and count, no I/O. All clients
    /// give the same count.
    ///
    /// # Errors
    /// `InvalidArgument` naming `key` or `count`.
    pub fn count_down_latch(&self, key: impl Into<Key>, count: u32) -> Result<CountDownLatch> {
        CountDownLatch::new(self.cell(Kind::Latch, key)?, count)
    }

    /// An election: validates the key, no I/O.
    ///
    /// # Errors
    /// `InvalidArgument` naming `key`.
    pub fn election(&self, key: impl Into<Key>) -> Result<Election> {
        self.handle("election", Kind::Election, key).map(Election::new)
    }

    /// A group of members: validates the key, no I/O.
    ///
    /// # Errors
    /// `InvalidArgument` naming `key`, also for an [exact address](Key::exact).
    pub fn group(&self, key: impl Into<Key>) -> Result<Group> {
        self.handle("group", Kind::Group, self.staying("group", key)?).map(Group::new)
    }

    /// A barrier that so many `parties` pass together: validates key and parties, no I/O. All
    /// members give the same number.
    ///
    /// # Errors
    /// `InvalidArgument` naming `parties` or `key`, also for an [exact address](Key::exact).
    pub fn barrier(&self, key: impl Into<Key>, parties: u32) -> Result<Barrier> {
        let key = self.staying("barrier", key)?;
        let queue = self.handle("barrier", Kind::Barrier, key.clone())?;
        Barrier::new(queue, self.cell(Kind::Passage, key)?, parties)
    }

    /// A barrier that so many `parties` enter together and leave together: validates key and
    /// parties, no I/O. All members give the same number.
    ///
    /// # Errors
    /// `InvalidArgument` naming `parties` or `key`, also for an [exact address](Key::exact).
    pub fn double_barrier(&self, key: impl Into<Key>, parties: u32) -> Result<DoubleBarrier> {
        let key = self.staying("double_barrier", key)?;
        let queue = self.handle("double_barrier", Kind::DoubleBarrier, key.clone())?;
        DoubleBarrier::new(queue, self.cell(Kind::DoublePassage, key)?, parties)
    }

    /// The key of a recipe that has no exact address, and whose members are no holders while locks move.
    fn staying(&self, recipe: &'static str, key: impl Into<Key>) -> Result<String> {
        let key = key.into().in_namespace(recipe)?;
        if self.0.moving.is_some() {
            let why = "it does not move between coordinators: use the side that has it";
            return Err(Error::unsupported(recipe, why));
        }
        Ok(key)
    }

    fn cell(&self, kind: Kind, key: impl Into<Key>) -> Result<CellHandle> {
        Ok(CellHandle::new(self.client(), self.address(kind, key)?))
    }

    fn address(&self, kind: Kind, key: impl Into<Key>) -> Result<Address> {
        let address = Address::within(&self.0.namespace, kind, key.into())?;
        if self.0.moving.is_some() && address.is_exact() {
            let why = "an exact address does not move: others use it, and know of no move";
            return Err(Error::invalid("key", why).on(address.name()));
        }
        if let (None, Some((connector, config))) = (address.namespace(), &self.0.connector) {
            connector.check(config, &address).map_err(|error| error.on(address.name()))?;
        }
        Ok(address)
    }

    /// The connected clients of the namespace, this one among them, in the order in which they
    /// registered: no I/O.
    ///
    /// A client is listed from its connect to its close. One that died is listed until the server has
    /// ended its lease, and one that was cut off registers again when it is back. Clients of another
    /// namespace, another database or another chroot are not listed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork_core::Result<()> {
    /// # use latchwork_core::{Config, connect, memory};
    /// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
    /// for client in coordinator.clients().first(100).await? {
    ///     println!("{} {} on {}, latchwork {}", client.sequence, client.label, client.host, client.version);
    /// }
    /// # coordinator.close().await
    /// # }
    /// ```
    pub fn clients(&self) -> Listing<ClientRecord> {
        Listing::of(Clients::new(self.client(), &self.0.place))
    }

    /// The keys of a kind that begin with `prefix` (empty: all of them): the queues that have holders or
    /// waiters, or the stored values. Validates the prefix, no I/O.
    ///
    /// Keys at [exact addresses](Key::exact) are not listed. A key may be in two pages. A listing
    /// does not use a value: one that goes when it is idle still goes. On Redis a listing walks over
    /// all keys of the server.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork_core::Result<()> {
    /// # use latchwork_core::{Config, Kind, connect, memory};
    /// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
    /// let held = coordinator.mutex("orders/7")?.acquire().await?;
    /// let orders = coordinator.list(Kind::Mutex, "orders/")?.all().await?;
    /// assert_eq!(orders[0].address.name(), "orders/7");
    /// # drop(held);
    /// # coordinator.close().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` naming `prefix` when it is over 255 bytes.
    pub fn list(&self, kind: Kind, prefix: &str) -> Result<Listing<ListedKey>> {
        let of = QueuePrefix::new(&self.0.namespace.text, kind, prefix)?;
        Ok(Listing::of(Keys::new(self.client(), of)))
    }

    /// Asks the server what it says of itself: version, topology, role, clock, memory, disk. For people
    /// who look for a fault, as `latchwork doctor` does; no acquisition depends on any of it. Where the
    /// server does not tell a fact, or the login may not ask for it, the fact says so.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork_core::Result<()> {
    /// # use latchwork_core::{Config, connect, memory};
    /// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
    /// let facts = coordinator.server_facts().await?;
    /// println!("{} {}, {}", facts.product, facts.version, facts.topology);
    /// # coordinator.close().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Unavailable` when the server does not answer; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn server_facts(&self) -> Result<ServerFacts> {
        let facts = self.client().serve(self.client().backend.server_facts()).await;
        facts.map_err(|error| error.in_operation("server_facts"))
    }

    /// Its [name](Config::name), by which several coordinators of one program are told apart.
    pub fn name(&self) -> Option<&str> {
        self.client().name.as_deref()
    }

    /// The backend, for code that works below the recipes.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.client().backend
    }

    /// What the backend promises beyond the contracts. One that [connects
    /// lazily](crate::connect_lazy) promises nothing until it is connected.
    pub fn capabilities(&self) -> Capabilities {
        self.client().backend.capabilities()
    }

    /// The current lease; after a loss the next acquisition opens a new one.
    pub fn lease(&self) -> Lease {
        self.client().backend.lease()
    }

    /// The label that this client's nodes carry on the server.
    pub fn label(&self) -> &str {
        &self.client().label
    }
}

impl fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coordinator")
            .field("backend", &self.client().backend.name())
            .field("namespace", &self.0.namespace.text)
            .field("label", &self.client().label)
            .finish_non_exhaustive()
    }
}
