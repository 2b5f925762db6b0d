use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use latchwork_conformance::servers::{Clocks, Kind, Options, Server, ask};
use tokio::sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore};

use super::{soon, until};

/// The most tests that are [`alone`] at a time.
const ALONE: usize = 3;

/// Locked by tests of tier 2.
static PROCESSORS: RwLock<()> = RwLock::const_new(());

pub(crate) async fn beside_others() -> RwLockReadGuard<'static, ()> {
    PROCESSORS.read().await
}

/// For a test of tier 2 that bounds its servers' election: no other test of tier 2 starts servers then.
pub(crate) async fn beside_none() -> RwLockWriteGuard<'static, ()> {
    PROCESSORS.write().await
}

static SHARED: OnceCell<Server> = OnceCell::const_new();
static TURNS: Semaphore = Semaphore::const_new(ALONE);
static USED: Mutex<Vec<Server>> = Mutex::new(Vec::new());

/// For tests that need only a namespace. The environment may name a server with fast clocks.
pub(crate) async fn server() -> &'static Server {
    let found = SHARED.get_or_init(async || {
        let server = started(Options::new()).await;
        if server.clocks() == Clocks::Fast { server } else { own_server().await }
    });
    found.await
}

pub(crate) async fn own_server() -> Server {
    started(Options::new().own()).await
}

pub(crate) async fn started(options: Options) -> Server {
    Server::start(Kind::Zookeeper, options).await.unwrap_or_else(|error| panic!("{error}"))
}

/// For tests that count sessions, watches or transactions.
pub(crate) async fn alone(test: impl AsyncFnOnce(&Server)) {
    let _turn = TURNS.acquire().await.unwrap();
    let server = match without_sessions().await {
        Some(server) => server,
        None => own_server().await,
    };
    test(&server).await;
    used().push(server);
}

/// A client whose proxy is gone cannot close its session.
async fn without_sessions() -> Option<Server> {
    let found = std::mem::take(&mut *used());
    let (mut free, mut busy) = (Vec::new(), Vec::new());
    for server in found {
        let kept = if sessions(&server).await == 0 { &mut free } else { &mut busy };
        kept.push(server);
    }
    let server = free.pop();
    used().extend(free.into_iter().chain(busy));
    server
}

fn used() -> MutexGuard<'static, Vec<Server>> {
    USED.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) async fn count(server: &Server, of: &str) -> u64 {
    try_count(server, of).await.expect("mntr reports this value")
}

/// `None`: no answer.
pub(crate) async fn try_count(server: &Server, of: &str) -> Option<u64> {
    let answer = ask(server.addr(), "mntr").await.ok()?;
    answer.lines().find_map(|line| line.strip_prefix(of))?.trim().parse().ok()
}

pub(crate) async fn sessions(server: &Server) -> u64 {
    count(server, "zk_global_sessions").await
}

pub(crate) async fn watches(server: &Server, expected: u64) {
    until(async || count(server, "zk_watch_count").await == expected).await;
}

/// Waits until the number is the same for a second.
pub(crate) async fn settled_watches(server: &Server, least: u64) -> u64 {
    soon(async {
        let (mut last, mut looks) = (0, 0);
        while last < least || looks < 10 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let now = count(server, "zk_watch_count").await;
            looks = if now == last { looks + 1 } else { 0 };
            last = now;
        }
        last
    })
    .await
}
