use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::Pauses;
use latchwork_core::{Clock, Config, ErrorKind, Result};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::{Mode, Scripted};
use crate::config::Settings;
use crate::driver::Setup;
use crate::driver::connection::Server;
use crate::error::Answer;
use crate::scripts::Reply;

const HOST: &str = "scripted:6379";
const LONGEST_PAUSE: Duration = Pauses::RECONNECT.longest.saturating_mul(2);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn connect(options: &str) -> Answer<(Server, Arc<Notify>)> {
    let config = Config::from_url(&format!("redis://{HOST}?{options}")).expect("a good URL");
    let settings = Settings::of(&config).expect("good options");
    let reconnected = Arc::new(Notify::new());
    let (clock, told) = (Clock::tokio(), Arc::clone(&reconnected));
    let setup = Setup { settings, clock, on_message: Arc::new(|_, _| {}), reconnected: told };
    Server::connect(setup).await.map(|(server, _)| (server, reconnected))
}

async fn ask(server: &Server, command: &'static str, within: Duration) -> Result<Reply> {
    server.ask(command, &redis::cmd(command), within).await
}

#[tokio::test(start_paused = true)]
async fn connect_to_a_silent_server_fails_at_its_bound() {
    Scripted::start(HOST, Mode::Silent);
    for (options, bound) in [
        ("connect_timeout=10s&request_timeout=2s", seconds(2)),
        ("connect_timeout=500ms&request_timeout=1m", Duration::from_millis(250)),
    ] {
        let began = Instant::now();
        let failure = connect(options).await.expect_err("no answer");
        assert_eq!(failure.error.kind(), ErrorKind::Unavailable, "{}", failure.error);
        let took = began.elapsed();
        assert!((bound..bound + Duration::from_millis(10)).contains(&took), "{options}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn silent_connection_is_replaced_when_a_request_has_waited_for_its_time() {
    let scripted = Scripted::start(HOST, Mode::Answers);
    let (server, reconnected) = connect("ttl=30s&request_timeout=2s").await.expect("connected");
    scripted.set(Mode::Silent);
    let began = Instant::now();
    let error = ask(&server, "TIME", seconds(2)).await.expect_err("no answer");
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert!(!server.is_up() && began.elapsed() < seconds(2) + LONGEST_PAUSE);
    scripted.set(Mode::Answers);
    reconnected.notified().await;
    assert!(server.is_up() && began.elapsed() < seconds(2) + LONGEST_PAUSE, "{:?}", began.elapsed());
    assert_eq!(scripted.dials().len(), 2);
    ask(&server, "TIME", seconds(2)).await.expect("answered");
}

#[tokio::test(start_paused = true)]
async fn slow_server_keeps_its_connection() {
    let scripted = Scripted::start(HOST, Mode::Answers);
    let (server, _) = connect("ttl=30s&request_timeout=2s").await.expect("connected");
    scripted.set(Mode::Slow(Duration::from_millis(600)));
    let second = async {
        sleep(Duration::from_millis(200)).await;
        ask(&server, "TIME", Duration::from_millis(800)).await
    };
    let (first, second) = tokio::join!(ask(&server, "PING", seconds(2)), second);
    first.expect("answered");
    assert!(second.is_err() && server.is_up(), "{second:?}");
    ask(&server, "PING", seconds(2)).await.expect("answered");
    assert_eq!(scripted.dials().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn pauses_between_dials_grow_to_their_longest() {
    let scripted = Scripted::start(HOST, Mode::Answers);
    let (server, reconnected) = connect("ttl=30s&request_timeout=2s").await.expect("connected");
    scripted.set(Mode::Down);
    sleep(seconds(20)).await;
    let dials = scripted.dials();
    let pauses: Vec<_> = dials[1..].windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[..3].iter().sum::<Duration>() < Duration::from_millis(150), "{pauses:?}");
    let longest = LONGEST_PAUSE / 2..LONGEST_PAUSE + Duration::from_millis(10);
    assert!(pauses.len() > 30 && pauses[10..].iter().all(|pause| longest.contains(pause)), "{pauses:?}");
    scripted.set(Mode::Answers);
    let back = Instant::now();
    reconnected.notified().await;
    assert!(server.is_up() && back.elapsed() <= LONGEST_PAUSE, "{:?}", back.elapsed());
}

/// A dial must not take all of a lease's time, and a slow server needs several tries.
#[tokio::test(start_paused = true)]
async fn bound_of_a_hanging_dial_doubles_up_to_the_request_timeout() {
    let scripted = Scripted::start(HOST, Mode::Answers);
    let (server, reconnected) =
        connect("ttl=6s&request_timeout=3s&connect_timeout=10s").await.expect("connected");
    scripted.set(Mode::Down);
    server.losses().next().await.expect("the driver lives");
    scripted.set(Mode::Silent);
    sleep(seconds(12)).await;
    let dials = scripted.dials();
    let hung: Vec<_> =
        dials.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap >= seconds(1)).collect();
    for (gap, bound) in hung.iter().zip([1, 2, 3, 3].map(seconds)) {
        assert!((bound..bound + LONGEST_PAUSE + Duration::from_millis(10)).contains(gap), "{hung:?}");
    }
    assert!(hung.len() >= 3, "{hung:?}");
    scripted.set(Mode::Answers);
    reconnected.notified().await;
    assert!(server.is_up());
}

#[tokio::test(start_paused = true)]
async fn request_during_an_outage_waits_for_the_next_connection_up_to_its_time() {
    let scripted = Scripted::start(HOST, Mode::Answers);
    let (server, _) = connect("ttl=30s&request_timeout=2s").await.expect("connected");
    scripted.set(Mode::Down);
    server.losses().next().await.expect("the driver lives");
    let began = Instant::now();
    let error = ask(&server, "TIME", seconds(2)).await.expect_err("down");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(
        (seconds(2)..seconds(2) + Duration::from_millis(10)).contains(&began.elapsed()),
        "{:?}",
        began.elapsed()
    );
    assert!(error.to_string().contains(HOST), "{error}");
    let back = async {
        sleep(seconds(1)).await;
        scripted.set(Mode::Answers);
    };
    let (answer, ()) = tokio::join!(ask(&server, "TIME", seconds(2)), back);
    answer.expect("answered by the next connection");
}
