//! What a case is given: a fixture, clients of it, and what stands for a mutex.

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

/// The environment variable that repeats the random choices of a run that printed it.
pub(crate) const SEED: &str = "LATCHWORK_SEED";

/// Where a case plays: its fixture, and the testbed behind it.
pub struct Context {
    /// The testbed.
    pub(crate) testbed: &'static dyn Testbed,
    /// The case's own fixture.
    pub(crate) fixture: Box<dyn Fixture>,
    /// What the case takes for a mutex.
    pub(crate) adapter: Adapter,
    // What is to be held beside it by a client of its own.
    taken: Option<Arc<Taken>>,
    // The case is of the clock class.
    keeps_time: bool,
    // Why the case is not played.
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
    /// When the testbed has no fixture to give.
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

    /// Whether the case waits until leases run out: in the clock class, and on a paused clock, which takes no time.
    pub(crate) fn keeps_time(&self) -> bool {
        self.testbed.is_paused() || self.keeps_time
    }

    /// Says that the fixture has not what the case needs.
    pub(crate) fn leave_out(&self, why: &'static str) {
        self.left_out.get_or_init(|| why);
    }

    /// Whether the case was played.
    pub(crate) fn played(&self) -> Played {
        self.left_out.get().map_or(Played::Whole, |why| Played::LeftOut(why))
    }

    /// What this case is played with, as a mutex.
    pub(crate) fn mutex(&self, client: &Client, key: &str) -> Lock {
        self.adapter.lock(&client.coordinator, key, self.taken.clone()).expect("a good key")
    }

    /// The queue of that mutex.
    pub(crate) fn queue(&self, key: &str) -> Address {
        self.queue_of(self.adapter.kind(), key)
    }

    /// The queue of a kind, under the fixture's namespace.
    pub(crate) fn queue_of(&self, kind: Kind, key: &str) -> Address {
        Address::new(&self.fixture.config().namespace, kind, key).expect("a good key")
    }

    /// Takes what is to be held of that mutex by another, before anything below or beside the
    /// suite's handles touches it.
    pub(crate) async fn take_others(&self, key: &str) {
        if let Some(taken) = &self.taken {
            soon("the other permits are taken", taken.take(key)).await.expect("taken");
        }
    }

    /// The same for child processes, which take that mutex too.
    pub(crate) async fn contested(&self, key: &str) -> Contested {
        self.take_others(key).await;
        Contested::new(key, self.adapter)
    }

    /// Joins the queue of that mutex below the recipes.
    pub(crate) async fn join_mutex(&self, client: &Client, key: &str) -> Joined {
        self.take_others(key).await;
        let join = Join { limit: self.adapter.limit(), ..join_of(&self.queue(key), self.adapter.claim()) };
        soon("join", client.coordinator.backend().join(&join)).await.expect("joined")
    }

    /// The end of a case: the context's own client gives back what it held.
    pub(crate) async fn end(&self) {
        if let Some(taken) = &self.taken {
            soon("the other permits are given back", taken.give_back()).await.expect("given back");
        }
    }

    pub(crate) fn config(&self, ttl: Duration) -> Config {
        let mut config = self.fixture.config();
        config.ttl = ttl;
        config
    }

    /// A client with a TTL for cases that are not about loss.
    pub(crate) async fn client(&self) -> Client {
        self.client_with(&self.config(LONG_TTL)).await
    }

    /// A client whose renewals and re-checks hide nothing.
    pub(crate) async fn quiet(&self) -> Client {
        self.client_with(&self.config(QUIET_TTL)).await
    }

    /// A client with a short TTL.
    pub(crate) async fn mortal(&self) -> Client {
        self.client_with(&self.config(SHORT_TTL)).await
    }

    /// A client that waits for an answer as long as for a connection: for cases in which each request must be
    /// answered, so that a server which stands still for some seconds fails none.
    pub(crate) async fn patient(&self, ttl: Duration) -> Client {
        self.client_by(ttl, |config| config.request_timeout = CONNECT).await
    }

    /// A client with this TTL. `set` changes the rest of its configuration.
    pub(crate) async fn client_by(&self, ttl: Duration, set: impl FnOnce(&mut Config)) -> Client {
        let mut config = self.config(ttl);
        set(&mut config);
        self.client_with(&config).await
    }

    /// `N` clients with a TTL for cases that are not about loss.
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

    /// What the random choices of a case begin with; it says so.
    pub(crate) fn seed(&self) -> u64 {
        let seed = match std::env::var(SEED) {
            Ok(seed) => seed.parse().unwrap_or_else(|_| panic!("{SEED} is a number, not {seed:?}")),
            Err(_) => rand::random(),
        };
        eprintln!("{}: {SEED}={seed}", self.testbed.name());
        seed
    }

    /// Answers whether the fixture can lay a fault. Where it cannot, checks that it refuses.
    pub(crate) fn can(&self, fault: Fault) -> bool {
        self.fixture.can(fault)
    }

    /// How late something may come, beyond the bound that is promised. On a paused clock nothing is late:
    /// there the limit is as sharp as it may be, and tells broken backends from honest ones.
    pub(crate) fn late(&self) -> Duration {
        if self.testbed.is_paused() { NOISE } else { LATE }
    }

    /// A client whose lease ends in the case: by itself, and then soon; or by [`end_lease`](Context::end_lease), and
    /// then no pause of the machine ends it before.
    pub(crate) async fn doomed(&self) -> Client {
        self.client_with(&self.config(self.doom())).await
    }

    /// The TTL of such a client.
    pub(crate) fn doom(&self) -> Duration {
        if self.keeps_time() { SHORT_TTL } else { QUIET_TTL }
    }

    /// Within this after [`end_lease`](Context::end_lease) what hangs on the lease is gone, and others know: where the
    /// case has ended it, before any renewal or re-check of a client with a [`QUIET_TTL`].
    pub(crate) fn over(&self, client: &Client) -> Duration {
        if self.keeps_time() { self.recovery(client) } else { CLEAN_UP }
    }

    /// Ends the lease of a client on the server, as though it had run out: only of one that is dead or cut off, and
    /// that [has outlasted it](Context::outlast) if it still believes in it. Where [time is kept](Context::keeps_time)
    /// it is left to run out. A server that would not end it by itself in time is caught.
    pub(crate) async fn end_lease(&self, client: &Client) {
        self.end_lease_of(client.coordinator.label(), client.ttl()).await;
    }

    /// The same for a process that was killed: the client with this label and this granted TTL.
    pub(crate) async fn end_lease_of(&self, label: &str, granted: Duration) {
        if self.keeps_time {
            return;
        }
        let bound = granted + self.fixture.expiry_bound();
        let ended = within(bound + PATIENCE, "the end of the lease", self.fixture.end_lease(label, granted));
        for left in ended.await.expect("its lease is ended") {
            assert!(!left.is_zero(), "the lease of {label:?} was over before it could be ended");
            assert!(
                left <= bound + ROUNDED,
                "{label:?} was granted {granted:?}, and the server keeps it for {left:?}"
            );
        }
    }

    /// A client that is cut off sees its deadline pass, unless time is kept.
    pub(crate) fn outlast(&self, client: &Client) {
        self.passes(client, client.ttl());
    }

    /// A client dies, and its lease ends.
    pub(crate) async fn kill(&self, client: &Client) {
        latchwork_core::crash(&client.coordinator).await;
        self.outlast(client);
        self.end_lease(client).await;
    }

    /// The link of a client is cut, and its lease ends.
    pub(crate) async fn cut_off(&self, client: &Client) {
        client.link.cut();
        self.outlast(client);
        self.end_lease(client).await;
    }

    /// Removes a node past the library.
    pub(crate) async fn remove(&self, queue: &Address, sequence: u64) {
        assert!(self.can(Fault::Remove), "every backend has an outside");
        self.fixture.remove(queue, sequence).await.expect("removed");
    }

    /// How many requests the server got up to now.
    pub(crate) async fn requests(&self) -> u64 {
        self.fixture.requests().await.expect("counted")
    }

    /// The clock of a client jumps by this time, unless time is kept.
    pub(crate) fn passes(&self, client: &Client, time: Duration) {
        if !self.keeps_time() {
            client.coordinator.lease().clock().jump(time);
        }
    }

    /// The longest that a dead client's node may stand in the way, from its last contact.
    pub(crate) fn recovery(&self, client: &Client) -> Duration {
        client.ttl() + self.fixture.expiry_bound() + self.late()
    }

    /// Within this after its last use an idle cell is gone, and its watches are told (CELL-IDLE).
    pub(crate) fn idle_bound(&self, idle: Duration) -> Duration {
        idle + idle / 4 + Duration::from_secs(1) + self.fixture.expiry_bound() + self.late()
    }

    /// The end of a case: nothing may be left on the server.
    pub async fn assert_nothing_left(&self) {
        let left = left_at(&*self.fixture, CLEAN_UP).await.expect("the server can be read");
        assert!(left.is_empty(), "left behind on the server: {left:#?}");
    }
}
