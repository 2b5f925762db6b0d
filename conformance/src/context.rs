//! The context of a case: a fixture, its clients, and the recipe that takes the place of the mutex.

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

/// The environment variable that repeats the random choices of a run. Each run prints its value.
pub(crate) const SEED: &str = "LATCHWORK_SEED";

/// The place where a case plays: its fixture and its testbed.
pub struct Context {
    /// The testbed.
    pub(crate) testbed: &'static dyn Testbed,
    /// The fixture of this case.
    pub(crate) fixture: Box<dyn Fixture>,
    /// The recipe that takes the place of the mutex.
    pub(crate) adapter: Adapter,
    // The permits that another client must hold.
    taken: Option<Arc<Taken>>,
    // The case is of the clock class.
    keeps_time: bool,
    // The reason if the case is not played.
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
    /// Opens a context on a testbed, for a case that [keeps real time](crate::Case::keeps_time) or not.
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

    /// Returns whether the case waits until leases run out: in the clock class, and on a paused clock, on
    /// which waiting takes no time.
    pub(crate) fn keeps_time(&self) -> bool {
        self.testbed.is_paused() || self.keeps_time
    }

    /// Leaves the case out, because the fixture does not support it.
    pub(crate) fn leave_out(&self, why: &'static str) {
        self.left_out.get_or_init(|| why);
    }

    /// Returns whether the case was played.
    pub(crate) fn played(&self) -> Played {
        self.left_out.get().map_or(Played::Whole, |why| Played::LeftOut(why))
    }

    /// Returns the recipe that takes the place of the mutex.
    pub(crate) fn mutex(&self, client: &Client, key: &str) -> Lock {
        self.adapter.lock(&client.coordinator, key, self.taken.clone()).expect("a good key")
    }

    /// Returns the queue of that mutex.
    pub(crate) fn queue(&self, key: &str) -> Address {
        self.queue_of(self.adapter.kind(), key)
    }

    /// Returns a queue of this kind in the fixture's namespace.
    pub(crate) fn queue_of(&self, kind: Kind, key: &str) -> Address {
        Address::new(&self.fixture.config().namespace, kind, key).expect("a good key")
    }

    /// Acquires the permits that another client must hold, before anything except the suite's handles uses the queue.
    pub(crate) async fn take_others(&self, key: &str) {
        if let Some(taken) = &self.taken {
            soon("the other permits are taken", taken.take(key)).await.expect("taken");
        }
    }

    /// Does the same for child processes that acquire that mutex.
    pub(crate) async fn contested(&self, key: &str) -> Contested {
        self.take_others(key).await;
        Contested::new(key, self.adapter)
    }

    /// Joins the queue of that mutex directly at the backend.
    pub(crate) async fn join_mutex(&self, client: &Client, key: &str) -> Joined {
        self.take_others(key).await;
        let join = Join { limit: self.adapter.limit(), ..join_of(&self.queue(key), self.adapter.claim()) };
        soon("join", client.coordinator.backend().join(&join)).await.expect("joined")
    }

    /// Ends the case: the context's own client releases its permits.
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

    /// Connects a client with a TTL for cases that are not about loss.
    pub(crate) async fn client(&self) -> Client {
        self.client_with(&self.config(LONG_TTL)).await
    }

    /// Connects a client with such a long TTL that renewals and re-checks hide no fault.
    pub(crate) async fn quiet(&self) -> Client {
        self.client_with(&self.config(QUIET_TTL)).await
    }

    /// Connects a client with a short TTL.
    pub(crate) async fn mortal(&self) -> Client {
        self.client_with(&self.config(SHORT_TTL)).await
    }

    /// Connects a client with a long request timeout, for cases in which each request must be answered: a server that pauses for
    /// some seconds then fails no request.
    pub(crate) async fn patient(&self, ttl: Duration) -> Client {
        self.client_by(ttl, |config| config.request_timeout = CONNECT).await
    }

    /// Connects a client with this TTL. `set` changes the rest of its configuration.
    pub(crate) async fn client_by(&self, ttl: Duration, set: impl FnOnce(&mut Config)) -> Client {
        let mut config = self.config(ttl);
        set(&mut config);
        self.client_with(&config).await
    }

    /// Connects `N` clients with a TTL for cases that are not about loss.
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

    /// Returns the seed of the random choices of a case, and prints it.
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

    /// Returns whether the fixture supports a fault.
    pub(crate) fn can(&self, fault: Fault) -> bool {
        self.fixture.can(fault)
    }

    /// Returns how late an event may come beyond the promised bound. On a paused clock nothing is late, so the sharp limit there
    /// distinguishes broken backends from correct ones.
    pub(crate) fn late(&self) -> Duration {
        if self.testbed.is_paused() { NOISE } else { LATE }
    }

    /// Connects a client whose lease ends during the case. If time is kept, the TTL is short. Otherwise
    /// [`end_lease`](Context::end_lease) ends the lease, and the TTL is long enough that no pause of the
    /// machine ends it before.
    pub(crate) async fn doomed(&self) -> Client {
        self.client_with(&self.config(self.doom())).await
    }

    /// Returns the TTL of such a client.
    pub(crate) fn doom(&self) -> Duration {
        if self.keeps_time() { SHORT_TTL } else { QUIET_TTL }
    }

    /// Returns the time after [`end_lease`](Context::end_lease) within which the nodes of the lease are gone and other clients
    /// know it. If the case has ended the lease, that is before any renewal or re-check of a client with a [`QUIET_TTL`].
    pub(crate) fn over(&self, client: &Client) -> Duration {
        if self.keeps_time() { self.recovery(client) } else { CLEAN_UP }
    }

    /// Ends the lease of a client on the server, as if it had run out. The client must be dead or cut off, and must
    /// [have outlasted the lease](Context::outlast) if it is alive. If [time is kept](Context::keeps_time), the lease runs
    /// out in real time. The remaining time on the server is checked: it must not exceed the bound.
    pub(crate) async fn end_lease(&self, client: &Client) {
        self.end_lease_of(client.coordinator.label(), client.ttl()).await;
    }

    /// Does the same for a killed process: for the client with this label and this granted TTL.
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

    /// Lets the deadline of a client pass that is cut off, unless time is kept.
    pub(crate) fn outlast(&self, client: &Client) {
        self.passes(client, client.ttl());
    }

    /// Crashes a client, and ends its lease.
    pub(crate) async fn kill(&self, client: &Client) {
        latchwork_core::crash(&client.coordinator).await;
        self.outlast(client);
        self.end_lease(client).await;
    }

    /// Cuts the link of a client, and ends its lease.
    pub(crate) async fn cut_off(&self, client: &Client) {
        client.link.cut();
        self.outlast(client);
        self.end_lease(client).await;
    }

    /// Removes a node without the library.
    pub(crate) async fn remove(&self, queue: &Address, sequence: u64) {
        assert!(self.can(Fault::Remove), "every fixture must support Fault::Remove");
        self.fixture.remove(queue, sequence).await.expect("removed");
    }

    /// Returns the number of requests that the server has received.
    pub(crate) async fn requests(&self) -> u64 {
        self.fixture.requests().await.expect("counted")
    }

    /// Lets the clock of a client jump by this time, unless time is kept.
    pub(crate) fn passes(&self, client: &Client, time: Duration) {
        if !self.keeps_time() {
            client.coordinator.lease().clock().jump(time);
        }
    }

    /// Returns the longest time that a dead client's node may block others, from its last contact.
    pub(crate) fn recovery(&self, client: &Client) -> Duration {
        client.ttl() + self.fixture.expiry_bound() + self.late()
    }

    /// Returns the time after its last use within which an idle cell is gone and its watches are notified (CELL-IDLE).
    pub(crate) fn idle_bound(&self, idle: Duration) -> Duration {
        idle + idle / 4 + Duration::from_secs(1) + self.fixture.expiry_bound() + self.late()
    }

    /// Asserts that nothing is left on the server, at the end of a case.
    pub async fn assert_nothing_left(&self) {
        let left = left_at(&*self.fixture, CLEAN_UP).await.expect("the server can be read");
        assert!(left.is_empty(), "data was left on the server: {left:#?}");
    }
}
