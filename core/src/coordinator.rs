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

/// A client of one coordinator: one set of connections and one lease. Clones are cheap. Recipes are made
/// without I/O: the call only checks its arguments.
///
/// Two `Coordinator`s on one URL are two clients. The drop of the last clone, recipe and guard gives
/// everything back in the background. If the runtime ends before, the locks remain until the lease expires.
/// So end `main` by [`close`](Coordinator::close), or run it in [`close_after`](Coordinator::close_after),
/// which also closes after an early `?` and a panic.
#[derive(Clone)]
pub struct Coordinator(Arc<CoordinatorParts>);

struct CoordinatorParts {
    owners: Arc<Owners>,
    namespace: Namespace,
    place: Place,
    layout: u32,
    operator: bool,
    // Only for a client of both sides of a move.
    moving: Option<Arc<Participant>>,
    // Validates addresses without I/O.
    connector: Option<(Arc<dyn Connector>, Config)>,
}

impl Coordinator {
    /// Makes a coordinator over a connected backend, for tests and backends. It neither registers the client
    /// nor checks the layout.
    ///
    /// # Panics
    /// Outside of a tokio runtime, and for a namespace that [`Config::validate`] refuses.
    pub fn new(backend: Arc<dyn Backend>, config: &Config) -> Self {
        Self::of(Client::new(backend, Tokens::default(), config), config, None, None)
    }

    /// Makes a coordinator over a registered client.
    pub(crate) fn with(client: Client, config: &Config, connector: Arc<dyn Connector>) -> Self {
        Self::of(client, config, Some(connector), None)
    }

    /// Makes a coordinator that takes part in a move. `config` is of the old side, whose namespace the
    /// addresses have.
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

    /// Makes a mutex.
    ///
    /// # Errors
    /// `InvalidArgument` (`key`): the key is empty or longer than 255 bytes, or the server cannot use it.
    pub fn mutex(&self, key: impl Into<Key>) -> Result<Mutex> {
        self.handle("mutex", Kind::Mutex, key).map(Mutex::new)
    }

    /// Makes a read/write lock.
    ///
    /// # Errors
    /// As [`mutex`](Self::mutex).
    pub fn rwlock(&self, key: impl Into<Key>) -> Result<RwLock> {
        self.handle("rwlock", Kind::RwLock, key).map(RwLock::new)
    }

    /// Makes a semaphore. Its first acquisition stores the limit. The number `3` is
    /// [`Limit::Exactly(3)`](Limit::Exactly). Use [`Limit::UnlessStored`] if
    /// [`set_limit`](Semaphore::set_limit) changes the limit while clients run. [`Semaphore`] has the rules.
    ///
    /// # Errors
    /// As [`mutex`](Self::mutex). `InvalidArgument` (`limit`): the limit is zero.
    pub fn semaphore(&self, key: impl Into<Key>, limit: impl Into<Limit>) -> Result<Semaphore> {
        Semaphore::new(self.handle("semaphore", Kind::Semaphore, key)?, limit.into())
    }

    /// Makes a value that all clients share.
    ///
    /// # Errors
    /// As [`mutex`](Self::mutex).
    pub fn shared_value(&self, key: impl Into<Key>) -> Result<SharedValue> {
        self.cell(Kind::Value, key).map(SharedValue::new)
    }

    /// Makes a number that all clients share.
    ///
    /// # Errors
    /// As [`mutex`](Self::mutex).
    pub fn counter(&self, key: impl Into<Key>) -> Result<Counter> {
        self.cell(Kind::Counter, key).map(Counter::new)
    }

    /// Makes a generator of unique ids. The handle and its clones share their reserved ids.
    ///
    /// # Errors
    /// As [`mutex`](Self::mutex).
    pub fn id_generator(&self, key: impl Into<Key>) -> Result<IdGenerator> {
        self.cell(Kind::Ids, key).map(IdGenerator::new)
    }

    /// Makes a latch that opens after `count` count-downs. All clients must give the same count.
    ///
    /// # Errors
    /// As [`mutex`](Self::mutex). `InvalidArgument` (`count`): the count is zero.
    pub fn count_down_latch(&self, key: impl Into<Key>, count: u32) -> Result<CountDownLatch> {
        CountDownLatch::new(self.cell(Kind::Latch, key)?, count)
    }

    /// Makes an election.
    ///
    /// # Errors
    /// As [`mutex`](Self::mutex).
    pub fn election(&self, key: impl Into<Key>) -> Result<Election> {
        self.handle("election", Kind::Election, key).map(Election::new)
    }

    /// Makes a group of members.
    ///
    /// # Errors
    /// As [`mutex`](Self::mutex), also for an [exact key](Key::exact). `Unsupported`: the client takes part
    /// in a [move](crate::Move).
    pub fn group(&self, key: impl Into<Key>) -> Result<Group> {
        self.handle("group", Kind::Group, self.staying("group", key)?).map(Group::new)
    }

    /// Makes a barrier that `parties` members pass together. All members must give the same number.
    ///
    /// # Errors
    /// As [`group`](Self::group). `InvalidArgument` (`parties`): the number is zero.
    pub fn barrier(&self, key: impl Into<Key>, parties: u32) -> Result<Barrier> {
        let key = self.staying("barrier", key)?;
        let queue = self.handle("barrier", Kind::Barrier, key.clone())?;
        Barrier::new(queue, self.cell(Kind::Passage, key)?, parties)
    }

    /// Makes a barrier that `parties` members enter together and leave together. All members must give the
    /// same number.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier).
    pub fn double_barrier(&self, key: impl Into<Key>, parties: u32) -> Result<DoubleBarrier> {
        let key = self.staying("double_barrier", key)?;
        let queue = self.handle("double_barrier", Kind::DoubleBarrier, key.clone())?;
        DoubleBarrier::new(queue, self.cell(Kind::DoublePassage, key)?, parties)
    }

    /// Checks the key of a recipe that has no exact addresses and does not move.
    fn staying(&self, recipe: &'static str, key: impl Into<Key>) -> Result<String> {
        let key = key.into().in_namespace(recipe)?;
        if self.0.moving.is_some() {
            let why = "groups and barriers do not move: use a separate coordinator with the URL of one side";
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
            let why =
                "an exact key does not move, because other programs use it: connect with the URL of one side";
            return Err(Error::invalid("key", why).on(address.name()));
        }
        if let (None, Some((connector, config))) = (address.namespace(), &self.0.connector) {
            connector.check(config, &address).map_err(|error| error.on(address.name()))?;
        }
        Ok(address)
    }

    /// Lists the connected clients of the namespace, including this one, in the order of their registration.
    /// A dead client is listed until the server has ended its lease.
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

    /// Lists the keys of a kind that start with `prefix` (empty for all keys): queues with holders or
    /// waiters, or stored values.
    ///
    /// [Exact keys](Key::exact) are not listed. A key may be on two pages. A listing is not a use of a value
    /// with a time to idle. On Redis it scans all keys of the server.
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
    /// `InvalidArgument` (`prefix`): the prefix is longer than 255 bytes.
    pub fn list(&self, kind: Kind, prefix: &str) -> Result<Listing<ListedKey>> {
        let of = QueuePrefix::new(&self.0.namespace.text, kind, prefix)?;
        Ok(Listing::of(Keys::new(self.client(), of)))
    }

    /// Reads facts about the server for diagnosis: version, topology, role, clock, memory, disk. A fact may
    /// be missing, with the reason: the server does not report it, or the login may not read it.
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
    /// `Unavailable`, `Closed`, `RuntimeGone`.
    ///
    /// # Cancel safety
    /// The call only reads.
    pub async fn server_facts(&self) -> Result<ServerFacts> {
        let facts = self.client().serve(self.client().backend.server_facts()).await;
        facts.map_err(|error| error.in_operation("server_facts"))
    }

    /// Returns the [name](Config::name), which distinguishes several coordinators of one program.
    pub fn name(&self) -> Option<&str> {
        self.client().name.as_deref()
    }

    /// Returns the backend, for code below the recipes.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.client().backend
    }

    /// Returns the capabilities of the backend. A client that [connects lazily](crate::connect_lazy) has none
    /// before it is connected.
    pub fn capabilities(&self) -> Capabilities {
        self.client().backend.capabilities()
    }

    /// Returns the current lease. After a loss, the next acquisition opens a new lease.
    pub fn lease(&self) -> Lease {
        self.client().backend.lease()
    }

    /// Returns the label of this client's nodes on the server.
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
