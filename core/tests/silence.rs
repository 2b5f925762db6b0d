//! A coordinator that stays away: how long an acquisition and a release wait for it.

use std::time::Duration;

use latchwork_core::memory::{Link, Memory};
use latchwork_core::recipes::Acquire;
use latchwork_core::{Clock, Config, Coordinator, ErrorKind};
use tokio::time::{Instant, sleep};

/// What timers add: they count whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(20);

struct Scene {
    config: Config,
    client: Coordinator,
    link: Link,
    other: Coordinator,
}

fn scene() -> Scene {
    let (store, config) = (Memory::new(Clock::tokio()), Config::new("memory"));
    let (client, link) = store.connect(&config).expect("connected");
    let (other, _) = store.connect(&config).expect("connected");
    Scene { config, client, link, other }
}

/// Two ways to be away: requests fail at once, or nobody ever answers.
fn ways() -> [fn(&Link); 2] {
    [Link::cut, Link::hold]
}

#[tokio::test(start_paused = true)]
async fn who_waits_in_the_queue_gives_up_a_ttl_after_the_last_answer_and_a_request() {
    for away in ways() {
        let Scene { config, client, link, other } = scene();
        let held = other.mutex("a").expect("a good key").acquire().await.expect("acquired");
        let waiting = tokio::spawn({
            let mutex = client.mutex("a").expect("a good key");
            async move { mutex.acquire().await }
        });
        // However long others hold, while the server answers.
        sleep(10 * config.ttl).await;
        assert!(!waiting.is_finished());
        away(&link);
        let began = Instant::now();
        let error = waiting.await.expect("no panic").expect_err("nobody answers");
        assert_eq!(error.kind(), &ErrorKind::Unavailable, "{error}");
        let took = began.elapsed();
        assert!(took <= config.ttl + config.request_timeout + ROUNDING, "{took:?}");
        // Not before its lease is lost: it keeps its place until then.
        assert!(took >= config.ttl / 2, "{took:?}");
        drop(held);
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_in_no_queue_gives_up_after_a_ttl() {
    for away in ways() {
        let Scene { config, client, link, .. } = scene();
        away(&link);
        let began = Instant::now();
        let error = client.mutex("a").expect("a good key").acquire().await.expect_err("nobody answers");
        assert_eq!(error.kind(), &ErrorKind::Unavailable, "{error}");
        let took = began.elapsed();
        assert!(took >= config.ttl && took <= config.ttl + ROUNDING, "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_has_a_deadline_waits_until_then() {
    for away in ways() {
        let Scene { config, client, link, .. } = scene();
        away(&link);
        let (began, deadline) = (Instant::now(), 3 * config.ttl);
        let mutex = client.mutex("a").expect("a good key");
        mutex.acquire_with(Acquire::new().within(deadline)).await.expect_err("nobody answers");
        assert!(
            began.elapsed() >= deadline && began.elapsed() <= deadline + ROUNDING,
            "{:?}",
            began.elapsed()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn who_lost_the_place_joins_anew_where_the_server_is_back_in_time() {
    let Scene { config, client, link, other } = scene();
    let held = other.mutex("a").expect("a good key").acquire().await.expect("acquired");
    let waiting = tokio::spawn({
        let mutex = client.mutex("a").expect("a good key");
        async move { mutex.acquire().await }
    });
    sleep(config.ttl).await;
    link.cut();
    client.lease().until_lost().await;
    link.heal();
    sleep(2 * config.ttl).await;
    assert!(!waiting.is_finished(), "it stands in the queue again");
    drop(held);
    drop(waiting.await.expect("no panic").expect("acquired"));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_nobody_confirms_ends_with_the_holds_deadline() {
    for away in ways() {
        let Scene { config, client, link, .. } = scene();
        let held = client.mutex("a").expect("a good key").acquire().await.expect("acquired");
        away(&link);
        let began = Instant::now();
        let error = held.release().await.expect_err("nobody answers");
        assert_eq!(error.kind(), &ErrorKind::Unknown, "{error}");
        assert!(began.elapsed() <= config.ttl + ROUNDING, "{:?}", began.elapsed());
    }
}
