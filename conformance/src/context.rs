use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use latchwork_core::backend::{Join, Joined};
use latchwork_core::{Address, Config, Kind};

use crate::actions::join_of;
use crate::adapter::Adapter;
use crate::bounds::{CLEAN_UP, CONNECT, LATE, LONG_TTL, NOISE, PATIENCE, QUIET_TTL, ROUNDED, SHORT_TTL};
use crate::child::Contested;
use crate::exclusive::Lock;
use crate::played::Played;
use crate::taken::Taken;
use crate::testbed::{Client, Fault, Fixture, Testbed, left_at};
use crate::waits::{soon, within};

pub(crate) const SEED: &str = "LATCHWORK_SEED";

/// The fixture and testbed of a case.
pub struct Context {
    pub(crate) testbed: &'static dyn Testbed,
    pub(crate) fixture: Box<dyn Fixture>,
    pub(crate) adapter: Adapter,
    // Permits of another client.
    taken: Option<Arc<Taken>>,
    keeps_time: bool,
    left_out: OnceLock<&'static str>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("testbed", &self.testbed.name())
            .field("adapter", &self.adapter)
            .finish_non_exhaustive()
    }
}

impl Context {
    /// Opens a context for a case that [keeps real time](crate::Case::keeps_time) or not.
    ///
    /// # Errors
    /// If the testbed creates no fixture.
    pub async fn open(
        testbed: &'static dyn Testbed,
        adapter: Adapter,
        keeps_time: bool,
    ) -> latchwork_core::Result<Self> {
        let fixture = testbed.fixture().await?;
        let taken = match adapter {
            Adapter::SemaphoreOfFive => {
                let mut config = fixture.config();
                config.ttl = QUIET_TTL;
                Some(Arc::new(Taken::by(fixture.client(&config).await?.coordinator)))
            }
            _ => None,
        };
        Ok(Self { testbed, fixture, adapter, taken, keeps_time, left_out: OnceLock::new() })
    }

    /// On a paused clock, the wait for a lease's end takes no time.
    pub(crate) fn keeps_time(&self) -> bool {
        self.testbed.is_paused() || self.keeps_time
    }

    pub(crate) fn leave_out(&self, why: &'static str) {
        self.left_out.get_or_init(|| why);
    }

    pub(crate) fn played(&self) -> Played {
        self.left_out.get().map_or(Played::Whole, |why| Played::LeftOut(why))
    }

    pub(crate) fn mutex(&self, client: &Client, key: &str) -> Lock {
        self.adapter.lock(&client.coordinator, key, self.taken.clone()).expect("a good key")
    }

    pub(crate) fn queue(&self, key: &str) -> Address {
        self.queue_of(self.adapter.kind(), key)
    }

    pub(crate) fn queue_of(&self, kind: Kind, key: &str) -> Address {
        Address::new(&self.fixture.config().namespace, kind, key).expect("a good key")
    }

    /// Only the suite's handles may use the queue before.
    pub(crate) async fn take_others(&self, key: &str) {
        if let Some(taken) = &self.taken {
            soon("the other permits are taken", taken.take(key)).await.expect("taken");
        }
    }

    pub(crate) async fn contested(&self, key: &str) -> Contested {
        self.take_others(key).await;
        Contested::new(key, self.adapter)
    }

    pub(crate) async fn join_mutex(&self, client: &Client, key: &str) -> Joined {
        self.take_others(key).await;
        let join = Join { limit: self.adapter.limit(), ..join_of(&self.queue(key), self.adapter.claim()) };
        soon("join", client.coordinator.backend().join(&join)).await.expect("joined")
    }

    pub(crate) async fn end(&self) {
        if let Some(taken) = &self.taken {
            soon("the other permits are released", taken.give_back()).await.expect("released");
        }
    }

    pub(crate) fn config(&self, ttl: Duration) -> Config {
        let mut config = self.fixture.config();
        config.ttl = ttl;
        config
    }

    pub(crate) async fn client(&self) -> Client {
        self.client_with(&self.config(LONG_TTL)).await
    }

    pub(crate) async fn quiet(&self) -> Client {
        self.client_with(&self.config(QUIET_TTL)).await
    }

    pub(crate) async fn mortal(&self) -> Client {
        self.client_with(&self.config(SHORT_TTL)).await
    }

    /// For cases in which each request must be answered, also by a server that pauses.
    pub(crate) async fn patient(&self, ttl: Duration) -> Client {
        self.client_by(ttl, |config| config.request_timeout = CONNECT).await
    }

    pub(crate) async fn client_by(&self, ttl: Duration, set: impl FnOnce(&mut Config)) -> Client {
        let mut config = self.config(ttl);
        set(&mut config);
        self.client_with(&config).await
    }

    pub(crate) async fn clients<const N: usize>(&self) -> [Client; N] {
        let mut clients = Vec::new();
        for _ in 0..N {
            clients.push(self.client().await);
        }
        clients.try_into().expect("as many")
    }

    pub(crate) async fn client_with(&self, config: &Config) -> Client {
        within(PATIENCE, "connect", self.fixture.client(config)).await.expect("a client connects")
    }

    pub(crate) fn seed(&self) -> u64 {
        let seed = match std::env::var(SEED) {
            Ok(seed) => seed.parse().unwrap_or_else(|_| {
                panic!("{SEED}={seed:?} is not a number: use the value that a run printed")
            }),
            Err(_) => rand::random(),
        };
        eprintln!("{}: {SEED}={seed}", self.testbed.name());
        seed
    }

    pub(crate) fn can(&self, fault: Fault) -> bool {
        self.fixture.can(fault)
    }

    /// On a paused clock nothing is late, so a sharp limit finds broken backends.
    pub(crate) fn late(&self) -> Duration {
        if self.testbed.is_paused() { NOISE } else { LATE }
    }

    /// With kept time the TTL is short. Otherwise [`end_lease`](Context::end_lease) ends the lease before any
    /// pause of the machine may.
    pub(crate) async fn doomed(&self) -> Client {
        self.client_with(&self.config(self.doom())).await
    }

    pub(crate) fn doom(&self) -> Duration {
        if self.keeps_time() { SHORT_TTL } else { QUIET_TTL }
    }

    /// Other clients know the [end of a lease](Context::end_lease) within this: without kept time before any
    /// renewal or re-check at [`QUIET_TTL`].
    pub(crate) fn over(&self, client: &Client) -> Duration {
        if self.keeps_time() { self.recovery(client) } else { CLEAN_UP }
    }

    /// As if it had run out. Checks the remaining time against the bound. The client must be dead, or cut off
    /// and [past its deadline](Context::outlast).
    pub(crate) async fn end_lease(&self, client: &Client) {
        self.end_lease_of(client.coordinator.label(), client.ttl()).await;
    }

    pub(crate) async fn end_lease_of(&self, label: &str, granted: Duration) {
        if self.keeps_time {
            return;
        }
        let bound = granted + self.fixture.expiry_bound();
        let ended = within(bound + PATIENCE, "the end of the lease", self.fixture.end_lease(label, granted));
        for left in ended.await.expect("the server ends its lease") {
            assert!(!left.is_zero(), "the lease of {label:?} was over before the case ended it");
            assert!(
                left <= bound + ROUNDED,
                "{label:?} was granted {granted:?}, but the server keeps its lease for {left:?}"
            );
        }
    }

    pub(crate) fn outlast(&self, client: &Client) {
        self.passes(client, client.ttl());
    }

    pub(crate) async fn kill(&self, client: &Client) {
        latchwork_core::crash(&client.coordinator).await;
        self.outlast(client);
        self.end_lease(client).await;
    }

    pub(crate) async fn cut_off(&self, client: &Client) {
        client.link.cut();
        self.outlast(client);
        self.end_lease(client).await;
    }

    pub(crate) async fn remove(&self, queue: &Address, sequence: u64) {
        assert!(self.can(Fault::Remove), "every fixture must support Fault::Remove");
        self.fixture.remove(queue, sequence).await.expect("removed");
    }

    pub(crate) async fn requests(&self) -> u64 {
        self.fixture.requests().await.expect("counted")
    }

    pub(crate) fn passes(&self, client: &Client, time: Duration) {
        if !self.keeps_time() {
            client.coordinator.lease().clock().jump(time);
        }
    }

    /// From the last contact of a dead client until its nodes block no other client.
    pub(crate) fn recovery(&self, client: &Client) -> Duration {
        client.ttl() + self.fixture.expiry_bound() + self.late()
    }

    /// From the last use until watches know the end (CELL-IDLE).
    pub(crate) fn idle_bound(&self, idle: Duration) -> Duration {
        idle + idle / 4 + Duration::from_secs(1) + self.fixture.expiry_bound() + self.late()
    }

    /// Asserts that nothing is left on the server.
    pub async fn assert_nothing_left(&self) {
        let left = left_at(&*self.fixture, CLEAN_UP).await.expect("the server can be read");
        assert!(left.is_empty(), "data was left on the server: {left:#?}");
    }
}
