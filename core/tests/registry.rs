//! Cases of registration that the suite does not have for every backend.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Plant, fails};
use async_trait::async_trait;
use latchwork_core::backend::{EntryPage, LAYOUT, clients_address};
use latchwork_core::memory::Link;
use latchwork_core::{
    Config, Coordinator, Ended, Error, ErrorKind, LostReason, Operator, Result, connect_lazy,
};
use parking_lot::Mutex;

type Stored = crate::common::Stored<Plants>;

/// Other tasks begin to wait for the answer during this time.
const ROUND_TRIP: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
struct Plants {
    joins: Mutex<VecDeque<ErrorKind>>,
    /// The next change of a value waits in the driver for this time.
    change: Mutex<Option<Duration>>,
}

#[async_trait]
impl Plant for Plants {
    async fn before_join(&self) -> Result<()> {
        let failed = self.joins.lock().pop_front();
        let Some(kind) = failed else { return Ok(()) };
        tokio::time::sleep(ROUND_TRIP).await;
        Err(Error::new(kind, "planted"))
    }

    async fn before_change(&self) {
        let late = self.change.lock().take();
        if let Some(late) = late {
            tokio::time::sleep(late).await;
        }
    }
}

impl Stored {
    async fn with_client() -> (Arc<Self>, Coordinator, Link) {
        let stored = Self::new();
        let (client, link) = stored.client(LAYOUT).await.expect("connected");
        (stored, client, link)
    }

    async fn operator(self: &Arc<Self>, layout: u32) -> Operator {
        Operator::connect(&self.connectors(), &config(layout)).await.expect("connected")
    }

    async fn client(self: &Arc<Self>, layout: u32) -> Result<(Coordinator, Link)> {
        self.client_with(&config(layout)).await
    }
}

fn config(layout: u32) -> Config {
    Config::new("stored").as_of_layout(layout)
}

#[tokio::test(start_paused = true)]
async fn a_client_that_comes_back_too_old_ends_and_its_holds_run_out() {
    let (stored, older, link) = Stored::with_client().await;
    let (newer, _) = stored.client(LAYOUT + 1).await.expect("connected");
    let held = older.mutex("a").expect("a good key").acquire().await.expect("acquired");
    let ttl = older.lease().ttl();
    link.cut();
    tokio::time::sleep(ttl + Duration::from_secs(1)).await;
    let operator = stored.operator(LAYOUT + 1).await;
    assert_eq!(operator.raise_layout().await.expect("no client of an older build is listed"), LAYOUT + 1);
    operator.coordinator().close().await.expect("closed");
    assert_eq!(held.lost().await, Ended::Lost(LostReason::Expired));
    link.heal();
    tokio::time::sleep(ttl).await;
    let error = older.mutex("b").expect("a good key").acquire().await.expect_err("too old");
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("use a newer build"), "{error}");
    fails(older.mutex("b").expect("a good key").queue().first(10).await, ErrorKind::Closed, "it has ended");
    tokio::time::sleep(2 * ttl).await;
    assert_eq!(newer.clients().first(10).await.expect("listed").len(), 1, "itself");
}

#[tokio::test(start_paused = true)]
async fn returning_client_reads_the_layout_before_it_sends_requests() {
    let (stored, older, link) = Stored::with_client().await;
    let (newer, _) = stored.client(LAYOUT + 1).await.expect("connected");
    let counter = older.counter("c").expect("a good key");
    link.cut();
    tokio::time::sleep(older.lease().ttl() + Duration::from_secs(1)).await;
    stored.operator(LAYOUT + 1).await.raise_layout().await.expect("no client of an older build is listed");
    link.heal();
    // Its next registration is in a back-off.
    let mutex = older.mutex("a").expect("a good key");
    let (join, write) = tokio::join!(mutex.acquire().into_future(), counter.add(1));
    fails(join, ErrorKind::Misconfigured, "too old");
    fails(write, ErrorKind::Misconfigured, "too old");
    let queue = newer.mutex("a").expect("a good key").queue().first(10).await.expect("listed");
    assert_eq!(queue, [], "the older one has made no node");
    assert_eq!(newer.counter("c").expect("a good key").get().await.expect("read"), 0);
}

/// The client loses its registration while its change waits in the driver, and comes back before the change
/// is sent: after any work of an operator.
async fn late<T>(change: impl AsyncFnOnce(&Coordinator) -> Result<T>) -> Result<T> {
    let (stored, client, link) = Stored::with_client().await;
    let ttl = client.lease().ttl();
    *stored.plants.change.lock() = Some(3 * ttl);
    let away = async {
        link.cut();
        tokio::time::sleep(2 * ttl).await;
        link.heal();
    };
    tokio::join!(change(&client), away).0
}

#[tokio::test(start_paused = true)]
async fn a_change_that_was_sent_before_the_client_lost_its_place_has_an_unknown_outcome() {
    let set =
        late(async |client| client.shared_value("v").expect("a good key").write(b"late").await.map(drop))
            .await;
    let limit = late(async |client| client.semaphore("s", 2).expect("a good key").set_limit(3).await).await;
    let count = late(async |client| client.counter("c").expect("a good key").add(1).await.map(drop)).await;
    for changed in [set, limit, count] {
        fails(changed, ErrorKind::OutcomeUnknown, "it may be too late");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_back_enters_as_soon_as_it_is_needed() {
    let (_, client, link) = Stored::with_client().await;
    link.cut();
    tokio::time::sleep(3 * client.lease().ttl()).await;
    link.heal();
    let began = tokio::time::Instant::now();
    let _held = client.mutex("a").expect("a good key").acquire().await.expect("acquired");
    assert!(began.elapsed() < Duration::from_millis(200), "{:?}", began.elapsed());
    assert_eq!(client.clients().first(10).await.expect("listed").len(), 1, "it is registered first");
}

/// The client first notices the end of its node. Only a join on that lease reports the reason.
#[tokio::test(start_paused = true)]
async fn client_with_an_ended_lease_retries_registration_once() {
    let (stored, operator, _) = Stored::with_client().await;
    let (client, _) = stored.client(LAYOUT).await.expect("connected");
    let value = client.shared_value("v").expect("a good key");
    let clients = clients_address("latchwork").expect("a good namespace");
    let (once, again) = (1, 2);
    for failing in [once, again] {
        let listed = operator.backend().list(&clients, EntryPage::new(0, 10)).await.expect("listed");
        let last = listed.last().expect("both are listed").sequence;
        stored.plants.joins.lock().extend(vec![ErrorKind::Lost(LostReason::Expired); failing]);
        assert!(operator.backend().revoke(&clients, last).await.expect("answered"));
        let answer = value.write(b"x").await;
        if failing == once {
            answer.expect("it has entered by its second try");
        } else {
            fails(answer, ErrorKind::Unavailable, "its second try has failed too");
            value.write(b"x").await.expect("it has entered by its third try");
        }
        assert!(stored.plants.joins.lock().is_empty(), "each try has joined");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_without_its_place_says_so_within_the_request_timeout() {
    let (_, client, link) = Stored::with_client().await;
    link.cut();
    tokio::time::sleep(client.lease().ttl() + Duration::from_secs(1)).await;
    let began = tokio::time::Instant::now();
    fails(client.mutex("a").expect("a good key").try_acquire().await, ErrorKind::Unavailable, "cut off");
    assert!(began.elapsed() <= Duration::from_millis(2100), "{:?}", began.elapsed());
    client.close_now().await.expect("nothing is left to give back");
    fails(client.mutex("a").expect("a good key").acquire().await, ErrorKind::Closed, "closed");
}

#[tokio::test(start_paused = true)]
async fn an_operator_holds_nothing_and_changes_no_value() {
    let stored = Stored::new();
    let operator = stored.operator(LAYOUT).await.coordinator().clone();
    let acquired = operator.semaphore("s", 2).expect("a good key").acquire(1).await.map(drop);
    let wrote = operator.shared_value("v").expect("a good key").write(b"x").await.map(drop);
    let limited = operator.semaphore("s", 2).expect("a good key").set_limit(3).await;
    let counted = operator.counter("c").expect("a good key").add(1).await.map(drop);
    for answer in [acquired, wrote, limited, counted] {
        let error = fails(answer, ErrorKind::Misconfigured, "an operator");
        assert!(error.to_string().contains("operator"), "{error}");
    }
    let (plain, _) = stored.client(LAYOUT).await.expect("connected");
    let held = plain.mutex("a").expect("a good key").acquire().await.expect("acquired");
    let sequence = held.token().sequence();
    assert!(operator.mutex("a").expect("a good key").force_release(sequence).await.expect("answered"));
    assert_eq!(Operator::of(&plain).map(drop).expect_err("no operator").kind(), ErrorKind::Misconfigured);
}

#[tokio::test(start_paused = true)]
async fn a_lazy_client_is_refused_by_its_first_operation_and_enters_once_it_may() {
    let stored = Stored::new();
    let (newer, _) = stored.client(LAYOUT + 1).await.expect("the first");
    let lazy = connect_lazy(&stored.connectors(), &config(LAYOUT)).expect("nothing is asked yet");
    fails(lazy.mutex("a").expect("a good key").acquire().await, ErrorKind::Misconfigured, "a newer layout");
    let lazy = connect_lazy(&stored.connectors(), &config(LAYOUT + 1)).expect("nothing is asked yet");
    assert_eq!(newer.clients().first(10).await.expect("listed").len(), 1);
    let _held = lazy.mutex("a").expect("a good key").acquire().await.expect("acquired");
    assert_eq!(newer.clients().first(10).await.expect("listed").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_connect_goes_on_while_the_server_is_silent_until_its_time_is_over() {
    let (stored, watching, _) = Stored::with_client().await;
    let registered = async || watching.clients().first(10).await.expect("listed").len();
    let (request, all) = (config(LAYOUT).request_timeout, config(LAYOUT).connect_timeout);
    for silence in [request * 3 / 2, all * 2] {
        let connecting = tokio::spawn({
            let stored = Arc::clone(&stored);
            async move { stored.client(LAYOUT).await }
        });
        // The connector has connected, and the client has not registered.
        stored.link.lock().take();
        let link = loop {
            tokio::task::yield_now().await;
            if let Some(link) = stored.link.lock().clone() {
                break link;
            }
        };
        link.hold();
        let begun = tokio::time::Instant::now();
        tokio::time::sleep(silence.min(all + Duration::from_millis(1))).await;
        link.heal();
        match connecting.await.expect("no panic") {
            Ok((client, _)) => {
                assert!(silence < all && begun.elapsed() >= silence);
                assert_eq!(registered().await, 2);
                client.close().await.expect("closed");
            }
            Err(error) => {
                assert!(silence > all, "{error}");
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                assert!(error.to_string().contains("registers itself"), "{error}");
            }
        }
        tokio::time::sleep(config(LAYOUT).ttl * 2).await;
        assert_eq!(registered().await, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn connect_retries_after_no_answer_but_not_after_a_refusal() {
    let stored = Stored::new();
    stored.plants.joins.lock().extend([
        ErrorKind::OutcomeUnknown,
        ErrorKind::Unavailable,
        ErrorKind::Unavailable,
    ]);
    let (client, _) = stored.client(LAYOUT).await.expect("connected at last");
    stored.plants.joins.lock().extend([ErrorKind::Unavailable]);
    let error = fails(stored.client(LAYOUT).await, ErrorKind::Unavailable, "the server cannot serve it");
    assert!(error.to_string().contains("planted"), "{error}");
    assert!(stored.plants.joins.lock().is_empty());
    assert_eq!(client.clients().first(10).await.expect("listed").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn dropped_or_late_connect_leaves_no_registration() {
    let (stored, watching, _) = Stored::with_client().await;
    for polls in 1..8 {
        let mut connecting = Box::pin(stored.client(LAYOUT));
        for _ in 0..polls {
            let polled = futures_util::poll!(&mut connecting);
            if polled.is_ready() {
                break;
            }
            if let Some(link) = &*stored.link.lock() {
                link.delay(Duration::from_millis(20));
            }
            tokio::time::sleep(Duration::from_millis(7)).await;
        }
        drop(connecting);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(watching.clients().first(10).await.expect("listed").len(), 1, "after {polls} polls");
    }
}
