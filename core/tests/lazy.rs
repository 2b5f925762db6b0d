use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::fails;
use async_trait::async_trait;
use futures_util::FutureExt;
use latchwork_core::backend::Backend;
use latchwork_core::memory::{self, Memory};
use latchwork_core::{
    Clock, Config, Connector, Coordinator, Error, ErrorKind, LeaseState, LostReason, Result, connect_lazy,
};
use parking_lot::Mutex;

/// The connect takes time, and first fails as planned.
#[derive(Debug)]
struct Late {
    store: Memory,
    takes: Duration,
    failures: Mutex<VecDeque<ErrorKind>>,
    connects: AtomicUsize,
}

impl Late {
    fn new(takes: Duration) -> Arc<Self> {
        Arc::new(Self {
            store: Memory::new(Clock::tokio()),
            takes,
            failures: Mutex::default(),
            connects: AtomicUsize::new(0),
        })
    }

    fn coordinator(self: &Arc<Self>) -> Coordinator {
        let connector: Arc<dyn Connector> = Arc::<Self>::clone(self);
        connect_lazy(&[connector], &Config::new("late")).expect("nothing is asked of the server yet")
    }
}

#[async_trait]
impl Connector for Late {
    fn name(&self) -> &'static str {
        "late"
    }

    fn validate(&self, _config: &Config) -> Result<()> {
        Ok(())
    }

    fn clock(&self, _config: &Config) -> Clock {
        self.store.clock().clone()
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        self.connects.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.takes).await;
        if let Some(kind) = self.failures.lock().pop_front() {
            return Err(Error::new(kind, "planned"));
        }
        Ok(self.store.client(config)?.0)
    }
}

#[tokio::test(start_paused = true)]
async fn recipes_made_before_the_server_is_there_work_once_it_is() {
    let server = Late::new(Duration::from_millis(10));
    server.failures.lock().extend([ErrorKind::Unavailable, ErrorKind::Unavailable]);
    let coordinator = server.coordinator();
    let mutex = coordinator.mutex("a").expect("no I/O");
    assert_eq!(coordinator.lease().state(), LeaseState::Suspended);
    assert_eq!(server.connects.load(Ordering::Relaxed), 0);
    let guard = mutex.acquire().await.expect("the third connect succeeds");
    assert!(guard.is_held());
    assert_eq!(coordinator.lease().state(), LeaseState::Live);
    assert_eq!(server.connects.load(Ordering::Relaxed), 3);
    coordinator.close().await.expect("closed");
    assert_eq!(server.store.contents(), ["latchwork/layout/stamp"]);
}

#[tokio::test(start_paused = true)]
async fn an_acquire_with_a_deadline_waits_for_the_server_until_then_and_one_without_for_a_ttl() {
    // The outage lasts longer than the connects of 1 s within a TTL (10 s).
    let down_for = |connects| {
        let server = Late::new(Duration::from_secs(1));
        server.failures.lock().extend(vec![ErrorKind::Unavailable; connects]);
        server.coordinator().mutex("a").expect("no I/O")
    };
    let minute = Duration::from_secs(60);
    for deadline in [minute, Duration::MAX] {
        assert!(down_for(20).acquire().within(deadline).await.expect("the server was up in time").is_held());
    }
    let error = down_for(200).acquire().within(minute).await.expect_err("not up");
    assert!(error.kind() == ErrorKind::Unavailable && error.cause().is_some(), "{error}");
    assert_eq!(down_for(200).acquire().await.expect_err("not up").kind(), ErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn a_fixed_end_counts_from_the_join_and_not_from_the_connecting_before_it() {
    let mutex = Late::new(Duration::from_secs(3)).coordinator().mutex("a").expect("no I/O");
    let guard = mutex.acquire().max_hold(Duration::from_secs(1)).await.expect("held");
    tokio::time::sleep(Duration::from_millis(990)).await;
    assert!(guard.is_held());
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(guard.check().expect_err("its end has come").lost_reason(), Some(LostReason::MaxHold));
}

#[tokio::test(start_paused = true)]
async fn an_error_that_no_retry_can_heal_is_reported_at_once() {
    let server = Late::new(Duration::ZERO);
    server.failures.lock().push_back(ErrorKind::Misconfigured);
    let error = server.coordinator().mutex("a").expect("no I/O").acquire().await.expect_err("misconfigured");
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert_eq!((error.operation(), error.key()), (Some("connect"), Some("a")));
}

#[tokio::test(start_paused = true)]
async fn many_first_operations_make_one_connection() {
    let server = Late::new(Duration::from_millis(10));
    let coordinator = server.coordinator();
    let keys = ["a", "b", "c"].map(|key| coordinator.mutex(key).expect("no I/O"));
    let guards = futures_util::future::try_join_all(keys.iter().map(|mutex| mutex.acquire())).await;
    assert_eq!(guards.expect("acquired").len(), 3);
    assert_eq!(server.connects.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn tries_that_are_shorter_than_the_connecting_still_find_it_done_in_the_end() {
    // Longer than the request timeout (2 s), shorter than the connect timeout (5 s).
    let mutex = Late::new(Duration::from_secs(3)).coordinator().mutex("a").expect("no I/O");
    assert_eq!(mutex.try_acquire().await.expect_err("not yet").kind(), ErrorKind::Unavailable);
    assert!(mutex.try_acquire().await.expect("connected meanwhile").is_some());
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_is_never_polled_does_not_keep_others_from_connecting() {
    let coordinator = Late::new(Duration::from_millis(10)).coordinator();
    let (a, b) = (coordinator.mutex("a").expect("no I/O"), coordinator.mutex("b").expect("no I/O"));
    let mut left_alone = Box::pin(a.acquire());
    assert!((&mut left_alone).now_or_never().is_none(), "it has begun to connect");
    assert!(b.try_acquire().await.expect("connected").is_some());
    let guard = left_alone.await.expect("it continues");
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_was_closed_before_it_connected_stays_closed() {
    let server = Late::new(Duration::ZERO);
    let coordinator = server.coordinator();
    let mutex = coordinator.mutex("a").expect("no I/O");
    coordinator.close().await.expect("nothing must leave");
    assert_eq!(mutex.acquire().await.expect_err("closed").kind(), ErrorKind::Closed);
    assert_eq!(coordinator.lease().lost(), Some(LostReason::Closed));
    coordinator.close().await.expect("again");
    assert_eq!(server.connects.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_was_closed_while_it_connects_stays_closed() {
    let server = Late::new(Duration::from_secs(1));
    let coordinator = server.coordinator();
    let mutex = coordinator.mutex("a").expect("no I/O");
    let mut acquiring = Box::pin(mutex.acquire());
    assert!((&mut acquiring).now_or_never().is_none(), "it has begun to connect");
    coordinator.close().await.expect("nothing must leave");
    assert_eq!(acquiring.await.expect_err("closed").kind(), ErrorKind::Closed);
    assert_eq!(mutex.try_acquire().await.expect_err("closed").kind(), ErrorKind::Closed);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(coordinator.lease().lost(), Some(LostReason::Closed));
    assert!(server.store.contents().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_taken_before_it_connected_is_the_connections_lease_from_then_on() {
    let server = Late::new(Duration::from_secs(1));
    let coordinator = server.coordinator();
    let early = coordinator.lease();
    assert_eq!(early.state(), LeaseState::Suspended);
    let watching = tokio::spawn({
        let early = early.clone();
        async move { (early.changed(LeaseState::Suspended).await, early.until_lost().await) }
    });
    tokio::task::yield_now().await;
    let guard = coordinator.mutex("a").expect("no I/O").acquire().await.expect("connected");
    assert_eq!(early.state(), LeaseState::Live);
    assert!(early.same_as(&coordinator.lease()));
    assert_eq!(early.deadline(), coordinator.lease().deadline());
    early.clock().jump(early.ttl());
    assert_eq!(guard.check().expect_err("its deadline has passed").lost_reason(), Some(LostReason::Expired));
    assert_eq!(watching.await.expect("no panic"), (LeaseState::Live, LostReason::Expired));
    drop(coordinator.mutex("a").expect("no I/O").acquire().await.expect("acquired under a new lease"));
    assert_eq!(coordinator.lease().state(), LeaseState::Live);
    assert_eq!(early.lost(), Some(LostReason::Expired));
    coordinator.close().await.expect("closed");
    assert_eq!(coordinator.lease().lost(), Some(LostReason::Closed));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_connects_lazily_is_tested_on_the_paused_clock_of_its_store() {
    let _store = Memory::named("lazy-on-a-paused-clock", Clock::tokio()).expect("a new store");
    let config = Config::from_url("memory://lazy-on-a-paused-clock").expect("a good URL");
    let coordinator = connect_lazy(&[memory::connector()], &config).expect("no I/O");
    let mutex = coordinator.mutex("a").expect("no I/O");
    let hour = Duration::from_secs(3600);
    // The first operation gets its durations before the store is known.
    let guard = mutex.acquire().within(hour).max_hold(hour).await.expect("acquired");
    tokio::time::sleep(hour + Duration::from_millis(1)).await;
    assert_eq!(guard.check().expect_err("its end has come").lost_reason(), Some(LostReason::MaxHold));
}

/// Otherwise an earlier time would be another instant on the store's clock.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_made_after_the_lazy_connect_must_be_on_the_same_clock() {
    let config = Config::from_url("memory://made-after-the-lazy-connect").expect("a good URL");
    let coordinator = connect_lazy(&[memory::connector()], &config).expect("no I/O");
    let _store = Memory::named("made-after-the-lazy-connect", Clock::tokio()).expect("a new store");
    fails(coordinator.mutex("a").expect("no I/O").acquire().await, ErrorKind::Misconfigured, "two clocks");
}
