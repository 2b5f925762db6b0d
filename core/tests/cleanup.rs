use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{Clients, Plant, clients, connected, fails, planted};
use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt};
use latchwork_core::backend::{self, Node};
use latchwork_core::memory::{Link, Memory};
use latchwork_core::{
    Capabilities, Clock, Config, Coordinator, Ended, Error, ErrorKind, HoldState, LostReason, Owner, Result,
};

fn config() -> Config {
    Config::new("memory")
}

#[derive(Clone, Copy, Debug)]
enum Leave {
    Forbidden,
    /// The server is full until this instant: it refuses with an error that is not retryable.
    FullUntil(tokio::time::Instant),
    /// The node has left, and the backend reports that as an error.
    NotHeld,
    Panics,
    /// `loses`: the first reply that reports the missing node is lost.
    FindsNothing {
        loses: bool,
    },
    Silent,
    EndsWithTheLease,
    NeverJoins,
    CutOff,
}

#[derive(Debug)]
struct Faulty {
    leave: Leave,
    joins: AtomicUsize,
    leaves: AtomicUsize,
}

#[async_trait]
impl Plant for Faulty {
    fn capabilities(&self, mut real: Capabilities) -> Capabilities {
        real.lease_per_node |= matches!(self.leave, Leave::CutOff);
        real
    }

    async fn before_join(&self) -> Result<()> {
        let first = self.joins.fetch_add(1, Ordering::Relaxed) == 0;
        match self.leave {
            Leave::Silent if !first => {
                tokio::time::sleep(config().request_timeout + Duration::from_millis(5)).await;
                Err(Error::new(ErrorKind::Unavailable, "planted: why"))
            }
            Leave::NeverJoins => Err(Error::lost(LostReason::Expired)),
            Leave::CutOff => std::future::pending().await,
            _ => Ok(()),
        }
    }

    async fn before_abandon(&self) -> Result<()> {
        if let Leave::CutOff = self.leave {
            self.leaves.fetch_add(1, Ordering::Relaxed);
            return Err(Error::new(ErrorKind::Unavailable, "planted: cut off"));
        }
        Ok(())
    }

    async fn before_downgrade(&self) -> Result<()> {
        self.check()
    }

    async fn leave(&self, node: &dyn Node) -> Result<backend::Leave> {
        let first = self.leaves.fetch_add(1, Ordering::Relaxed) == 0;
        self.check()?;
        match self.leave {
            Leave::NotHeld => Err(Error::new(ErrorKind::NotHeld, "planted: it has left")),
            Leave::NeverJoins | Leave::CutOff => unreachable!("no node exists"),
            Leave::FindsNothing { loses } => {
                let _ = node.leave().await?;
                match loses && first {
                    true => Err(Error::new(ErrorKind::OutcomeUnknown, "planted: a reply is lost")),
                    false => Ok(backend::Leave::of(false)),
                }
            }
            Leave::EndsWithTheLease => Ok(backend::Leave::Absent(node.state().until_lost().await)),
            Leave::Silent => std::future::pending().await,
            Leave::Panics => panic!("planted: a driver that panics in a leave"),
            Leave::Forbidden | Leave::FullUntil(_) => node.leave().await,
        }
    }
}

impl Faulty {
    fn check(&self) -> Result<()> {
        match self.leave {
            Leave::Forbidden => Err(Error::forbidden("leaving", "planted")),
            Leave::FullUntil(end) if tokio::time::Instant::now() < end => {
                Err(Error::new(ErrorKind::Misconfigured, "planted: no space"))
            }
            _ => Ok(()),
        }
    }
}

fn faulty(leave: Leave) -> (Coordinator, Arc<Faulty>, Link) {
    faulty_under(leave, &config())
}

fn faulty_under(leave: Leave, config: &Config) -> (Coordinator, Arc<Faulty>, Link) {
    let plant = Arc::new(Faulty { leave, joins: AtomicUsize::new(0), leaves: AtomicUsize::new(0) });
    let (coordinator, link) = planted(&Memory::new(Clock::tokio()), config, &plant);
    (coordinator, plant, link)
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_grants_no_lease_is_not_asked_in_a_tight_loop() {
    let (coordinator, backend, _) = faulty(Leave::NeverJoins);
    let mutex = coordinator.mutex("a").expect("a good key");
    fails(mutex.acquire().within(Duration::from_secs(5)).await, ErrorKind::Unavailable, "never");
    let joins = backend.joins.load(Ordering::Relaxed);
    assert!((5..100).contains(&joins), "{joins}");
}

#[tokio::test(start_paused = true)]
async fn a_leave_that_panics_does_not_keep_the_next_acquire_waiting() {
    let mutex = faulty(Leave::Panics).0.mutex("a").expect("a good key");
    drop(mutex.acquire().await.expect("acquired"));
    assert!(mutex.try_acquire().await.expect("answered").is_none());
}

#[test]
fn a_leave_that_died_with_its_runtime_does_not_keep_the_next_acquire_waiting() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
    };
    let first = runtime();
    let (coordinator, link) =
        first.block_on(async { Memory::new(Clock::system()).connect(&config()) }).unwrap();
    let mutex = coordinator.mutex("a").expect("a good key");
    let guard = first.block_on(mutex.acquire()).expect("acquired");
    link.hold();
    drop(guard);
    first.block_on(link.held());
    first.shutdown_timeout(Duration::from_secs(5));
    link.resume();
    fails(runtime().block_on(mutex.try_acquire()), ErrorKind::RuntimeGone, "its runtime is gone");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_the_server_refuses_is_unknown() {
    let (coordinator, ..) = faulty(Leave::Forbidden);
    let guard = coordinator.mutex("a").expect("a good key").acquire().await.expect("acquired");
    let error = fails(guard.release().await, ErrorKind::OutcomeUnknown, "it is still in the queue");
    assert_eq!((error.operation(), error.key()), (Some("release"), Some("a")));
    assert!(error.to_string().contains("forbidden"), "the cause is missing: {error}");
    assert_eq!(guard.release().await.expect_err("still").kind(), ErrorKind::OutcomeUnknown);
}

#[tokio::test(start_paused = true)]
async fn a_lost_hold_that_is_released_twice_gives_the_same_answer_twice() {
    let (coordinator, link) = connected();
    let guard = coordinator.mutex("a").expect("a good key").acquire().await.expect("acquired");
    link.cut();
    guard.lost().await;
    for _ in 0..2 {
        assert_eq!(guard.release().await.expect_err("it was lost").lost_reason(), Some(LostReason::Expired));
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_releases_at_once_neither_answers_before_the_server() {
    let (coordinator, link) = connected();
    let guard = coordinator.mutex("a").expect("a good key").acquire().await.expect("acquired");
    link.hold();
    let (mut first, mut second) = (Box::pin(guard.release()), Box::pin(guard.release()));
    assert!((&mut first).now_or_never().is_none());
    assert!((&mut second).now_or_never().is_none(), "the server has not answered");
    link.resume();
    first.await.expect("confirmed");
    second.await.expect("confirmed");
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_states_reports_the_loss_also_when_the_release_comes_first() {
    let (coordinator, link) = connected();
    let guard = coordinator.mutex("a").expect("a good key").acquire().await.expect("acquired");
    let mut states = guard.states();
    assert_eq!(states.next().await, Some(HoldState::Held));
    link.lose_lease();
    assert_eq!(guard.release().await.expect_err("it was lost").lost_reason(), Some(LostReason::Revoked));
    assert_eq!(states.next().await, Some(HoldState::Ended(Ended::Lost(LostReason::Revoked))));
    assert_eq!(states.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_acquire_answers_closed_when_the_coordinator_is_closed() {
    let (coordinator, _link) = connected();
    let mutex = coordinator.mutex("a").expect("a good key");
    let _guard = mutex.acquire().await.expect("acquired");
    let mut waiting = Box::pin(mutex.acquire());
    assert!((&mut waiting).now_or_never().is_none());
    coordinator.close().await.expect("closed");
    assert_eq!(waiting.await.expect_err("closed").kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_crashed_client_sends_no_leave_when_it_is_dropped() {
    let Clients { store, client, config: Config { ttl, .. }, .. } = clients();
    let guard = client.mutex("a").expect("a good key").acquire().await.expect("acquired");
    latchwork_core::crash(&client).await;
    drop((guard, client));
    tokio::time::sleep(ttl / 2).await;
    assert_eq!(store.contents().len(), 1, "a crashed client sends nothing");
    tokio::time::sleep(ttl).await;
    assert!(store.contents().is_empty(), "the end of its lease removed it");
}

#[tokio::test(start_paused = true)]
async fn a_leave_that_a_full_server_refused_succeeds_when_it_has_space() {
    let (coordinator, ..) = faulty(Leave::FullUntil(tokio::time::Instant::now() + Duration::from_secs(3)));
    let mutex = coordinator.mutex("a").expect("a good key");
    let guard = mutex.acquire().await.expect("acquired");
    assert_eq!(guard.release().await.expect_err("full").kind(), ErrorKind::OutcomeUnknown);
    drop(guard);
    let next = mutex.acquire().within(Duration::from_secs(3600)).await;
    assert!(next.is_ok(), "{:?}: the live lease keeps the node for ever", next.err());
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_that_a_full_server_refused_succeeds_when_it_has_space() {
    for released in [true, false] {
        let (coordinator, ..) =
            faulty(Leave::FullUntil(tokio::time::Instant::now() + Duration::from_secs(3)));
        let (lock, owner) = (coordinator.rwlock("a").expect("a good key"), Owner::new("o"));
        let writer = lock.write().by(&owner).await.expect("acquired");
        let reader = lock.read().by(&owner).await.expect("it writes already");
        match released {
            true => {
                let error = fails(writer.release().await, ErrorKind::OutcomeUnknown, "full");
                assert_eq!((error.operation(), error.key()), (Some("release"), Some("a")));
                assert!(error.to_string().contains("no space"), "the cause is missing: {error}");
            }
            false => drop(writer.downgrade().await.expect_err("full")),
        }
        let other = lock.read().within(Duration::from_secs(3600)).await;
        assert!(other.is_ok(), "released: {released}: {:?}: the live lease keeps it out", other.err());
        assert!(reader.is_held());
    }
}

/// The readers that the writer itself admits need not wait for its `min_hold`.
#[tokio::test(start_paused = true)]
async fn a_downgrade_that_was_refused_is_not_put_off_to_the_end_of_a_least_time() {
    let (coordinator, ..) = faulty(Leave::FullUntil(tokio::time::Instant::now() + Duration::from_secs(3)));
    let lock = coordinator.rwlock("a").expect("a good key");
    let writer = lock.write().min_hold(Duration::from_secs(3600)).await.expect("acquired");
    writer.downgrade().await.expect_err("full");
    let other = lock.read().within(Duration::from_secs(60)).await;
    assert!(other.is_ok(), "{:?}", other.err());
}

/// Otherwise a client with many own tasks on a shared lock would never get it.
#[tokio::test(start_paused = true)]
async fn a_join_waits_for_earlier_leaves_and_not_for_later_ones() {
    let (coordinator, link) = connected();
    let lock = coordinator.rwlock("a").expect("a good key");
    let mut guards = Vec::new();
    for _ in 0..200 {
        guards.push(lock.read().await.expect("acquired"));
    }
    link.delay(Duration::from_millis(200));
    let leaving = tokio::spawn(async move {
        for guard in guards {
            drop(guard);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    tokio::task::yield_now().await;
    let tried = lock.try_read().await;
    assert!(matches!(tried, Ok(Some(_))), "{tried:?}");
    assert!(!leaving.is_finished());
}

/// The fixed end counts from the send, and `min_hold` from the answer.
#[tokio::test(start_paused = true)]
async fn try_waits_for_the_leave_of_a_hold_lost_before_its_minimum() {
    let (coordinator, link) = connected();
    let mutex = coordinator.mutex("a").expect("a good key");
    let second = Duration::from_secs(1);
    link.delay(second / 3);
    let guard = mutex.acquire().max_hold(second).min_hold(second).await;
    let guard = guard.expect("acquired");
    link.delay(Duration::ZERO);
    while guard.is_held() {
        coordinator.lease().clock().jump(second / 100);
    }
    // After a drop the leave would wait for a margin.
    let lost = guard.release().await.expect_err("its fixed end has come");
    assert_eq!(lost.lost_reason(), Some(LostReason::MaxHold));
    let tried = mutex.try_acquire().await;
    assert!(matches!(tried, Ok(Some(_))), "{tried:?}");
}

#[tokio::test(start_paused = true)]
async fn acquire_after_an_unanswered_leave_ends_in_time() {
    let (coordinator, link) = connected();
    let mutex = coordinator.mutex("a").expect("a good key");
    let guard = mutex.acquire().await.expect("acquired");
    link.cut();
    drop(guard);
    let started = tokio::time::Instant::now();
    fails(mutex.acquire().await, ErrorKind::Unavailable, "cut off");
    let ttl = coordinator.lease().ttl();
    assert!(started.elapsed() < ttl + ttl / 2, "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn try_after_a_leave_succeeds_when_the_server_returns() {
    let mut config = config();
    config.request_timeout = Duration::from_secs(1);
    let (coordinator, link) = Memory::new(Clock::tokio()).connect(&config).expect("connected");
    let mutex = coordinator.mutex("a").expect("a good key");
    for round in 0..20 {
        let guard = mutex.acquire().await.expect("acquired");
        link.cut();
        drop(guard);
        tokio::time::sleep(Duration::from_millis(5000 + 37 * round)).await;
        link.heal();
        let tried = mutex.try_acquire().await;
        assert!(matches!(tried, Ok(Some(_))), "round {round}: {tried:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leave_is_repeated_when_it_is_refused_and_not_when_the_node_has_left() {
    for (leave, goes_on) in [(Leave::NotHeld, false), (Leave::Forbidden, true)] {
        let (coordinator, backend, _) = faulty(leave);
        drop(coordinator.mutex("a").expect("a good key").acquire().await.expect("acquired"));
        tokio::time::sleep(Duration::from_millis(100)).await;
        let before = backend.leaves.load(Ordering::Relaxed);
        assert!(before > 0);
        tokio::time::sleep(Duration::from_secs(600)).await;
        let again = backend.leaves.load(Ordering::Relaxed) > before;
        assert_eq!(again, goes_on, "{leave:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_is_abandoned_until_its_slowest_request_is_obsolete() {
    let mut slow = config();
    slow.request_timeout = 3 * slow.ttl;
    let (coordinator, backend, _) = faulty_under(Leave::CutOff, &slow);
    assert!(coordinator.mutex("a").expect("a good key").acquire().now_or_never().is_none());
    let asked_within = async |time| {
        let before = backend.leaves.load(Ordering::Relaxed);
        tokio::time::sleep(time).await;
        backend.leaves.load(Ordering::Relaxed) > before
    };
    for half in 0..8 {
        assert!(asked_within(slow.ttl / 2).await, "given up after {half} halves of a TTL");
    }
    tokio::time::sleep(slow.ttl).await;
    assert!(!asked_within(slow.ttl).await, "the end of its lease removed it");
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_reply_was_lost_is_unknown_where_the_next_try_finds_nothing() {
    for (loses, expected) in
        [(true, ErrorKind::OutcomeUnknown), (false, ErrorKind::Lost(LostReason::Revoked))]
    {
        let (coordinator, ..) = faulty(Leave::FindsNothing { loses });
        let guard = coordinator.mutex("a").expect("a good key").acquire().await.expect("acquired");
        for _ in 0..2 {
            fails(guard.release().await, expected, "it finds nothing");
        }
    }
    // It is unknown whether a dropped release was sent.
    let (coordinator, ..) = faulty(Leave::FindsNothing { loses: true });
    let guard = coordinator.mutex("a").expect("a good key").acquire().await.expect("acquired");
    assert!(guard.release().now_or_never().is_none_or(|answer| answer.is_err()));
    fails(guard.release().await, ErrorKind::OutcomeUnknown, "in doubt");
}

/// A loss by the client's own clock does not prove that the server removed the node.
#[tokio::test(start_paused = true)]
async fn release_has_unknown_outcome_if_its_lease_ends_first() {
    let (coordinator, _, link) = faulty(Leave::EndsWithTheLease);
    let mutex = coordinator.mutex("a").expect("a good key");
    let held = mutex.acquire().await.expect("free");
    link.cut();
    let mut release = std::pin::pin!(held.release());
    assert!(release.as_mut().now_or_never().is_none(), "nobody has answered");
    tokio::time::sleep(2 * coordinator.lease().ttl()).await;
    fails(release.await, ErrorKind::OutcomeUnknown, "nobody confirms");
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_gives_up_reports_what_became_of_its_last_request() {
    let (coordinator, ..) = faulty(Leave::Silent);
    let mutex = coordinator.mutex("a").expect("a good key");
    drop(mutex.acquire().await.expect("free"));
    let began = tokio::time::Instant::now();
    let error = mutex.acquire().await.expect_err("nobody answers");
    assert!(error.to_string().contains("planted: why"), "{error}");
    let bound = coordinator.lease().ttl() + config().request_timeout + Duration::from_millis(100);
    assert!(began.elapsed() <= bound, "{:?}", began.elapsed());
}
