use std::time::Duration;

use latchwork_core::memory::Link;
use latchwork_core::{ErrorKind, Owner};
use tokio::time::{Instant, sleep, timeout};

use crate::common::{Clients, clients, fails};

/// Timers count whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(20);

/// Requests fail at once (`cut`), or have no reply (`hold`).
fn ways() -> [fn(&Link); 2] {
    [Link::cut, Link::hold]
}

#[tokio::test(start_paused = true)]
async fn a_waiter_in_the_queue_gives_up_a_ttl_and_a_request_after_the_last_answer() {
    for away in ways() {
        let Clients { config, client, link, other, .. } = clients();
        let held = other.mutex("a").expect("a good key").acquire().await.expect("acquired");
        let waiting = tokio::spawn({
            let mutex = client.mutex("a").expect("a good key");
            async move { mutex.acquire().await }
        });
        // The server answers, so it waits as long as another client holds.
        sleep(10 * config.ttl).await;
        assert!(!waiting.is_finished());
        away(&link);
        let began = Instant::now();
        fails(waiting.await.expect("no panic"), ErrorKind::Unavailable, "nobody answers");
        let took = began.elapsed();
        assert!(took <= config.ttl + config.request_timeout + ROUNDING, "{took:?}");
        assert!(took >= config.ttl / 2, "{took:?}");
        drop(held);
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquire_without_a_node_gives_up_after_a_ttl() {
    for away in ways() {
        let Clients { config, client, link, .. } = clients();
        away(&link);
        let began = Instant::now();
        let acquired = client.mutex("a").expect("a good key").acquire().await;
        fails(acquired, ErrorKind::Unavailable, "nobody answers");
        let took = began.elapsed();
        assert!(took >= config.ttl && took <= config.ttl + ROUNDING, "{took:?}");
    }
}

/// Only the error of the request has host and cause.
#[tokio::test(start_paused = true)]
async fn error_of_a_try_includes_the_error_of_its_request() {
    let answers: [(fn(&Link), _); 2] =
        [(Link::cut, "the link is cut"), (Link::hold, "no reply within the request timeout")];
    for (away, cause) in answers {
        let Clients { client, link, .. } = clients();
        away(&link);
        let mutex = client.mutex("a").expect("a good key");
        let error = fails(mutex.try_acquire().await, ErrorKind::Unavailable, "no answer");
        assert!(error.to_string().contains(cause), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquire_with_a_deadline_waits_until_then() {
    for away in ways() {
        let Clients { config, client, link, .. } = clients();
        away(&link);
        let (began, deadline) = (Instant::now(), 3 * config.ttl);
        let mutex = client.mutex("a").expect("a good key");
        let error = fails(mutex.acquire().within(deadline).await, ErrorKind::Unavailable, "nobody answers");
        assert!(error.cause().is_some(), "{error}");
        let took = began.elapsed();
        assert!(took >= deadline && took <= deadline + ROUNDING, "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_lost_its_place_joins_again_when_the_server_is_back_in_time() {
    let Clients { config, client, link, other, .. } = clients();
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
    assert!(!waiting.is_finished(), "it is in the queue again");
    drop(held);
    drop(waiting.await.expect("no panic").expect("acquired"));
}

#[tokio::test(start_paused = true)]
async fn an_unconfirmed_release_ends_with_the_holds_deadline() {
    for away in ways() {
        let Clients { config, client, link, .. } = clients();
        let mutex = client.mutex("a").expect("a good key");
        let held = mutex.acquire().await.expect("acquired");
        away(&link);
        let began = Instant::now();
        fails(held.release().await, ErrorKind::OutcomeUnknown, "nobody answers");
        assert!(began.elapsed() <= config.ttl + ROUNDING, "{:?}", began.elapsed());
        link.heal();
        link.resume();
        assert!(mutex.try_acquire().await.expect("answered").is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_waits_on_when_its_lease_was_lost_and_another_has_followed() {
    let Clients { config, client, link, other, .. } = clients();
    let held = other.mutex("a").expect("a good key").acquire().await.expect("acquired");
    let waiting = tokio::spawn({
        let (mutex, owner) = (client.mutex("a").expect("a good key"), Owner::new("job"));
        async move { mutex.acquire().by(&owner).await }
    });
    sleep(config.ttl).await;
    link.cut();
    client.lease().until_lost().await;
    link.heal();
    sleep(10 * config.ttl).await;
    assert!(!waiting.is_finished(), "it has no deadline, and the server answers: {:?}", waiting.await);
    held.release().await.expect("released");
    drop(waiting.await.expect("no panic").expect("it is free"));
}

#[tokio::test(start_paused = true)]
async fn a_barrier_is_waited_for_through_an_outage_of_any_length() {
    for away in ways() {
        let Clients { config, client, link, other, .. } = clients();
        let waiting = tokio::spawn({
            let barrier = client.barrier("a", 2).expect("a good key");
            async move { barrier.wait().await.map(drop) }
        });
        sleep(config.ttl).await;
        away(&link);
        sleep(10 * config.ttl).await;
        assert!(!waiting.is_finished());
        link.heal();
        link.resume();
        let second = other.barrier("a", 2).expect("a good key");
        timeout(10 * config.ttl, second.wait()).await.expect("both are there").expect("passed");
        waiting.await.expect("no panic").expect("passed");
    }
}
