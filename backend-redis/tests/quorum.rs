//! A lock on a majority of five Redis servers, two of which are killed and started again at random:
//! one keeps what it has confirmed (`appendfsync always`), one comes back empty, or both do. Four
//! contenders; one of them reaches three of the servers only, and is mostly cut off from those that
//! are killed, so that it does not hear that they have forgotten it. Another tries all the time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use latchwork_conformance::cases::is_long;
use latchwork_conformance::proxy::{Direction, Proxy};
use latchwork_conformance::servers::{Kind, Options, Server};
use latchwork_core::recipes::{Mutex as Member, QuorumGuard, QuorumLock};
use latchwork_core::{Config, Coordinator, ErrorKind, Release, Result, connect};
use rand::RngExt;
use tokio::task::JoinSet;
use tokio::time::sleep;

const SERVERS: usize = 5;
/// The servers that are killed.
const KILLED: [usize; 2] = [0, 1];
/// Those that the first contender does not reach.
const APART: [usize; 2] = [3, 4];
const CONTENDERS: usize = 4;
/// The contender that does not wait.
const TRIES: usize = 3;
const TTL: Duration = Duration::from_secs(2);
const KEY: &str = "quorum";

/// Five servers; those that are killed keep what they confirm, or forget it.
async fn start(keeps: [bool; 2]) -> Arc<[Server]> {
    let mut servers = Vec::new();
    for number in 0..SERVERS {
        let keeps = KILLED.iter().position(|killed| *killed == number).is_some_and(|at| keeps[at]);
        let durable: &[&str] = if keeps { &["--appendonly", "yes", "--appendfsync", "always"] } else { &[] };
        let options = Options::new().own().args(durable.iter().copied());
        servers.push(Server::start(Kind::Redis, options).await.unwrap());
    }
    servers.into()
}

/// One client of each server, over links of its own.
struct Clients {
    coordinators: Vec<Coordinator>,
    links: Vec<Proxy>,
}

impl Clients {
    async fn connect(servers: &[Server]) -> Self {
        let (mut coordinators, mut links) = (Vec::new(), Vec::new());
        for (number, server) in servers.iter().enumerate() {
            let link = Proxy::start(server.addr()).await.unwrap();
            let mut config = Config::from_url(&server.url_at(link.addr())).unwrap();
            (config.name, config.ttl) = (Some(format!("server-{number}")), TTL);
            config.request_timeout = TTL / 2;
            coordinators.push(connect(&[latchwork_redis::connector()], &config).await.unwrap());
            links.push(link);
        }
        Self { coordinators, links }
    }

    fn mutexes(&self) -> Vec<Member> {
        self.coordinators.iter().map(|coordinator| coordinator.mutex(KEY).unwrap()).collect()
    }

    fn lock(&self, guarded: bool) -> QuorumLock {
        let new = if guarded {
            QuorumLock::new(self.mutexes(), TTL)
        } else {
            QuorumLock::trusting(self.mutexes(), TTL)
        };
        new.unwrap()
    }

    /// It does not hear from these servers, nor they from it.
    fn part_from(&self, servers: &[usize]) {
        for server in servers {
            self.links[*server].hold(Direction::ToServer);
            self.links[*server].hold(Direction::ToClient);
        }
    }

    fn rejoin(&self, servers: &[usize]) {
        servers.iter().for_each(|server| self.links[*server].resume());
    }
}

/// What was seen.
#[derive(Default)]
struct Seen {
    // Of each contender, what it holds.
    holds: Mutex<[Option<Arc<QuorumGuard>>; CONTENDERS]>,
    acquired: [AtomicUsize; CONTENDERS],
    lost: AtomicUsize,
    failed: AtomicUsize,
    overlaps: AtomicUsize,
    // When the last one acquired, and the longest time without any.
    last: Mutex<Option<(Instant, Duration)>>,
    over: AtomicBool,
}

impl Seen {
    fn acquire(&self, contender: usize, guard: &Arc<QuorumGuard>) {
        let mut holds = self.holds.lock().unwrap();
        // Whoever is asked later looks at a later clock.
        let others = holds.iter().enumerate().filter(|(other, _)| *other != contender);
        let valid = others.filter(|(_, hold)| hold.as_ref().is_some_and(|hold| hold.is_held())).count();
        if guard.is_held() && valid > 0 {
            self.overlaps.fetch_add(1, Ordering::AcqRel);
        }
        holds[contender] = Some(Arc::clone(guard));
        drop(holds);
        self.acquired[contender].fetch_add(1, Ordering::AcqRel);
        let (mut last, now) = (self.last.lock().unwrap(), Instant::now());
        let longest = last.map_or(Duration::ZERO, |(then, longest)| longest.max(now - then));
        *last = Some((now, longest));
    }

    fn holds(&self, contender: usize) -> bool {
        self.holds.lock().unwrap()[contender].as_ref().is_some_and(|hold| hold.is_held())
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    fn overlaps(&self) -> usize {
        self.overlaps.load(Ordering::Acquire)
    }
}

async fn contend(seen: Arc<Seen>, contender: usize, lock: QuorumLock) {
    // The one that is to be caught holds for longer.
    let work = if contender == 0 { TTL / 2 } else { Duration::from_millis(10) };
    while !seen.is_over() {
        let acquired = match contender {
            TRIES => lock.try_acquire().await,
            _ => lock.acquire_within(TTL * 2).await.map(Some),
        };
        let guard = match acquired {
            Ok(Some(guard)) => Arc::new(guard),
            Ok(None) => {
                sleep(Duration::from_millis(15)).await;
                continue;
            }
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unavailable), "{error}");
                seen.failed.fetch_add(1, Ordering::AcqRel);
                continue;
            }
        };
        seen.acquire(contender, &guard);
        // One that was lost is worked under until it is known.
        if guard.run(sleep(work)).await.is_err() {
            seen.lost.fetch_add(1, Ordering::AcqRel);
        }
        seen.holds.lock().unwrap()[contender] = None;
        // Its release may fail where a server does not answer.
        let _answer = tokio::time::timeout(TTL, guard.release()).await;
    }
}

/// Kills the servers and starts them again, one or both, mostly while the first contender holds and
/// is parted from them; until `ends`, or until two hold.
async fn kill(seen: &Seen, first: &Clients, servers: &[Server], ends: Instant) -> usize {
    let mut restarts = 0;
    while Instant::now() < ends && seen.overlaps() == 0 {
        let time = rand::rng().random_range(500..3500);
        sleep(Duration::from_millis(time)).await;
        let killed: &[usize] = match rand::rng().random_range(0..4) {
            0 => &KILLED[..1],
            1 => &KILLED[1..],
            _ => &KILLED,
        };
        let parted = rand::rng().random_ratio(3, 4);
        if parted {
            // Just after the first one has acquired, if it does in time.
            let patience = Instant::now() + TTL;
            for holds in [false, true] {
                while seen.holds(0) != holds && Instant::now() < patience {
                    sleep(Duration::from_millis(2)).await;
                }
            }
            first.part_from(killed);
        }
        join_all(killed.iter().map(async |server| {
            servers[*server].kill().await.unwrap();
            servers[*server].launch().await.unwrap();
        }))
        .await;
        restarts += killed.len();
        if parted {
            sleep(TTL / 2).await;
            first.rejoin(killed);
        }
    }
    restarts
}

/// Plays until `lasts` is over, or two hold at once. Prints what was seen.
async fn play(name: &str, keeps: [bool; 2], guarded: bool, lasts: Duration) -> (Arc<Seen>, usize) {
    let servers = start(keeps).await;
    let mut clients = Vec::new();
    for _ in 0..CONTENDERS {
        clients.push(Clients::connect(&servers).await);
    }
    clients[0].lock(guarded).initialize().await.unwrap();
    let seen = Arc::new(Seen::default());
    clients[0].part_from(&APART);
    let mut contenders = JoinSet::new();
    for (number, clients) in clients.iter().enumerate() {
        contenders.spawn(contend(Arc::clone(&seen), number, clients.lock(guarded)));
    }
    let begun = Instant::now();
    let restarts = kill(&seen, &clients[0], &servers, begun + lasts).await;
    let took = begun.elapsed();
    seen.over.store(true, Ordering::Release);
    while let Some(ended) = contenders.join_next().await {
        ended.unwrap();
    }
    let acquired: Vec<_> = seen.acquired.iter().map(|count| count.load(Ordering::Acquire)).collect();
    let longest = seen.last.lock().unwrap().map_or(took, |(_, longest)| longest);
    println!(
        "{name}: {took:.1?}, {restarts} restarts, acquired {acquired:?}, {} lost, {} in vain, {} overlaps, \
         longest time without an acquisition {longest:.1?}",
        seen.lost.load(Ordering::Acquire),
        seen.failed.load(Ordering::Acquire),
        seen.overlaps(),
    );
    (seen, restarts)
}

async fn nobody_overlaps(name: &str, keeps: [bool; 2]) {
    let lasts = Duration::from_secs(if is_long() { 60 } else { 10 });
    let (seen, restarts) = play(name, keeps, true, lasts).await;
    assert_eq!(seen.overlaps(), 0, "two held at once");
    assert!(restarts >= 2, "{restarts}");
    let acquired: usize = seen.acquired[1..].iter().map(|count| count.load(Ordering::Acquire)).sum();
    assert!(acquired as u64 >= 2 * lasts.as_secs(), "{acquired}");
    // A hold that ends with its lease, twice, and what a busy machine adds.
    let (_, longest) = seen.last.lock().unwrap().expect("some acquired");
    assert!(longest < 3 * TTL, "{longest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_holds_beside_another_while_two_of_five_servers_come_back_empty() {
    nobody_overlaps("both empty", [false, false]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_holds_beside_another_while_one_server_comes_back_empty_and_one_with_its_data() {
    nobody_overlaps("one empty, one durable", [true, false]).await;
}

/// The control: without the rule, what is to be prevented is seen.
#[tokio::test(flavor = "multi_thread")]
async fn two_hold_at_once_where_servers_that_came_back_empty_count_at_once() {
    let (seen, _) = play("the control", [false, false], false, Duration::from_secs(60)).await;
    assert!(seen.overlaps() > 0, "nothing was seen");
}

/// The tries of the servers that answer after a majority outlive it, and are left by name: else each
/// leaves a tombstone, which keeps the queue out of its short form for minutes.
#[tokio::test(flavor = "multi_thread")]
async fn an_uncontended_quorum_leaves_no_tombstone_where_it_did_not_wait_for_the_answer() -> Result<()> {
    let servers = start([false; 2]).await;
    let clients = Clients::connect(&servers).await;
    let lock = clients.lock(true);
    lock.initialize().await?;
    // From then on each server is known to count, and a try is one request.
    let guard = lock.acquire().await?;
    while guard.tokens().contains(&None) {
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(guard.release().await?, Release::Released);
    for late in &clients.links[3..] {
        late.delay(Direction::ToClient, Duration::from_millis(20));
    }
    for _ in 0..20 {
        // It is released before those have answered.
        let guard = lock.acquire().await?;
        assert_eq!(guard.tokens().iter().flatten().count(), 3);
        assert_eq!(guard.release().await?, Release::Released);
    }
    for (coordinator, server) in clients.coordinators.iter().zip(servers.iter()) {
        coordinator.close().await?;
        let mut operator =
            redis::Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
        let keys = "latchwork:mutex:*";
        let mut keys: Vec<String> = redis::cmd("KEYS").arg(keys).query_async(&mut operator).await.unwrap();
        keys.sort();
        assert_eq!(keys, [format!("latchwork:mutex:{{{KEY}}}:one")], "{}", server.addr());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn with_three_of_five_servers_down_it_fails_in_time_and_holds_nothing() -> Result<()> {
    let servers = start([false; 2]).await;
    let (clients, others) = (Clients::connect(&servers).await, Clients::connect(&servers).await);
    let lock = clients.lock(true);
    lock.initialize().await?;
    let guard = lock.acquire().await?;
    for server in &servers[..3] {
        server.kill().await.unwrap();
    }
    let from = Instant::now();
    let ended = guard.lost().await;
    println!("lost after {:.1?}: {ended}", from.elapsed());
    assert!(from.elapsed() <= TTL + TTL / 2, "{:?}", from.elapsed());
    let from = Instant::now();
    let error = lock.acquire_within(TTL).await.expect_err("three are down");
    println!("in vain after {:.1?}: {error}", from.elapsed());
    assert_eq!(error.kind(), &ErrorKind::Unavailable, "{error}");
    assert!(from.elapsed() < TTL + TTL / 2, "{:?}", from.elapsed());
    let from = Instant::now();
    let error = lock.try_acquire().await.expect_err("three are down");
    println!("tried in vain after {:.1?}: {error}", from.elapsed());
    assert_eq!(error.kind(), &ErrorKind::Unavailable, "{error}");
    assert!(from.elapsed() < TTL, "{:?}", from.elapsed());
    for mutex in &others.mutexes()[3..] {
        let held = mutex.acquire_within(TTL / 2).await?;
        assert!(mutex.queue(0, 10).await?.len() == 1 && held.is_held(), "nothing stays held");
    }
    Ok(())
}
