//! How long the driver tolerates silence, and when it dials again.

use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::{LeaseWriter, NodeWriter, Pauses, Transport};
use latchwork_core::{Clock, Config, Error, ErrorKind, Logins};
use tokio::time::{Instant, sleep, timeout};

use super::{Mode, Only, Scripted};
use crate::config::Settings;
use crate::driver::balancer::{PASSED_OVER, PING_AFTER, PING_ANSWER};
use crate::driver::{Driver, EventKind, StreamEvent, Watch, WatchEvents, WatchRequests};
use crate::error::Answer;
use crate::watch::{OwnNode, Watches, stream};

pub(super) const HOST: &str = "scripted:2379";
pub(super) const OTHER: &str = "other:2379";
const REQUEST: Duration = Duration::from_secs(4);
/// Timers count whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(10);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) async fn connect(hosts: &[&str]) -> Driver {
    let settings = Settings {
        endpoints: hosts.iter().map(|host| (*host).to_owned()).collect(),
        logins: Logins::of(&Config::new("etcd")),
        request_timeout: REQUEST,
        fast_path: true,
        transport: Transport::default(),
        scratch: "scratch".to_owned(),
    };
    Driver::connect(&settings).await.expect("it dials later")
}

pub(super) async fn ask(driver: &Driver) -> Result<(), Error> {
    driver.get(b"a").await.map(drop).map_err(Error::from)
}

async fn fails(driver: &Driver) -> (Duration, Error) {
    let began = Instant::now();
    let error = ask(driver).await.expect_err("no answer");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("scripted:2379"), "{error}");
    (began.elapsed(), error)
}

#[track_caller]
fn took(took: Duration, expected: Duration) {
    assert!((expected..expected + ROUNDING).contains(&took), "{took:?}, not {expected:?}");
}

async fn watch(driver: &Driver) -> Answer<(WatchRequests, WatchEvents)> {
    let watch = Watch { id: 1, key: b"a"[..].into(), prefix: false, from: 0, only: EventKind::Both };
    let (requests, mut events) = driver.watch(watch).await?;
    assert_eq!(events.next().await, Some(StreamEvent::Created { id: 1, revision: 1 }));
    Ok((requests, events))
}

#[tokio::test(start_paused = true)]
async fn request_during_an_outage_ends_by_its_deadline() {
    let scripted = Scripted::start(HOST, Mode::Silent);
    let driver = connect(&[HOST]).await;
    let (silent, error) = fails(&driver).await;
    took(silent, REQUEST);
    assert!(error.to_string().contains("the server was silent"), "{error}");
    scripted.set(Mode::Answers);
    ask(&driver).await.expect("answered");
    scripted.set(Mode::Hangs);
    // Until the client sees the end of its connection.
    sleep(seconds(1)).await;
    took(fails(&driver).await.0, REQUEST);
}

#[tokio::test(start_paused = true)]
async fn request_to_a_server_that_refuses_fails_at_once() {
    let scripted = Scripted::start(HOST, Mode::Down);
    let driver = connect(&[HOST]).await;
    let (refused, error) = fails(&driver).await;
    took(refused, Duration::ZERO);
    assert!(error.to_string().contains("the connection was refused"), "{error}");
    scripted.set(Mode::Answers);
    ask(&driver).await.expect("answered");
}

#[tokio::test(start_paused = true)]
async fn silent_connection_ends_when_a_ping_has_no_answer() {
    let scripted = Scripted::start(HOST, Mode::Answers);
    let driver = connect(&[HOST]).await;
    let (_requests, mut events) = watch(&driver).await.expect("answered");
    scripted.set(Mode::Silent);
    let began = Instant::now();
    assert_eq!(timeout(seconds(60), events.next()).await.expect("it ends"), None);
    took(began.elapsed(), PING_AFTER + PING_ANSWER);
    scripted.set(Mode::Answers);
    ask(&driver).await.expect("answered by the next connection");
    assert_eq!(scripted.dials().len(), 2);
}

/// The control of the test above.
#[tokio::test(start_paused = true)]
async fn slow_server_keeps_its_connection() {
    let scripted = Scripted::start(HOST, Mode::Answers);
    let driver = connect(&[HOST]).await;
    let (_requests, mut events) = watch(&driver).await.expect("answered");
    scripted.set(Mode::Slow(2 * REQUEST));
    took(fails(&driver).await.0, REQUEST);
    let idle = timeout(10 * (PING_AFTER + PING_ANSWER), events.next()).await;
    assert!(idle.is_err(), "{idle:?}");
    scripted.set(Mode::Answers);
    ask(&driver).await.expect("answered");
    assert_eq!(scripted.dials().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn hanging_dial_ends_after_its_share_of_the_request_timeout() {
    let (hanging, good) = (Scripted::start(HOST, Mode::Hangs), Scripted::start(OTHER, Mode::Answers));
    let driver = connect(&[HOST, OTHER]).await;
    let began = Instant::now();
    // The first request goes to either server.
    for _ in 0..2 {
        ask(&driver).await.expect("answered");
    }
    took(began.elapsed(), REQUEST / 2);
    for _ in 0..10 {
        ask(&driver).await.expect("answered");
    }
    took(began.elapsed(), REQUEST / 2);
    assert_eq!((hanging.dials().len(), good.dials().len()), (1, 1), "silent servers are passed over");
}

#[tokio::test(start_paused = true)]
async fn request_that_a_learner_refuses_goes_to_another_host() {
    let (learner, voter) = (Scripted::start(HOST, Mode::Answers), Scripted::start(OTHER, Mode::Answers));
    learner.answers(Only::Nothing);
    let driver = connect(&[HOST, OTHER]).await;
    for _ in 0..20 {
        ask(&driver).await.expect("answered by the other");
        watch(&driver).await.expect("a stream of the other");
        driver.delete(b"a").await.expect("answered by the other");
    }
    voter.set(Mode::Down);
    learner.answers(Only::All);
    sleep(PASSED_OVER).await;
    ask(&driver).await.expect("the learner was promoted");
    learner.answers(Only::Nothing);
    let error = driver.delete(b"a").await.map_err(Error::from).expect_err("no host serves");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let alone = connect(&[HOST]).await;
    let error = alone.delete(b"a").await.map_err(Error::from).expect_err("a learner");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("scripted:2379 is a learner"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn pauses_between_dials_for_watches_grow_to_their_longest() {
    let scripted = Scripted::start(HOST, Mode::Down);
    let (watches, commands) = Watches::new();
    let clock = Clock::tokio();
    let lease = LeaseWriter::new(clock.clone(), seconds(60), clock.now());
    let held = Arc::new(OwnNode { key: b"a"[..].into(), state: NodeWriter::new(lease, 1), left: None });
    watches.register(Arc::clone(&held));
    watches.watch_own_from(&held, 1);
    let running = tokio::spawn(stream::run(connect(&[HOST]).await, Arc::clone(&watches), commands, clock));
    sleep(seconds(30)).await;
    let dials = scripted.dials();
    let pauses: Vec<_> = dials.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // Each pause has jitter of up to its length.
    let within = |shortest: Duration| shortest..2 * shortest + ROUNDING;
    assert!(within(Pauses::OUTAGE.first).contains(&pauses[0]), "{pauses:?}");
    assert!(pauses[10..].iter().all(|pause| within(Pauses::OUTAGE.longest).contains(pause)), "{pauses:?}");
    assert!(pauses.len() > 20, "{pauses:?}");
    scripted.set(Mode::Answers);
    sleep(2 * Pauses::OUTAGE.longest).await;
    let connected = scripted.dials().len();
    sleep(seconds(30)).await;
    assert_eq!((connected, scripted.dials().len()), (dials.len() + 1, dials.len() + 1));
    running.abort();
}
