//! The duration of an acquisition while servers do not answer.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::driver::two_in;
use crate::contracts::Limit;
use crate::decide::moving::MovePhase;

const SECOND: Duration = Duration::from_secs(1);

/// It was stopped for longer than its lease, and is admitted before its next membership.
#[tokio::test(start_paused = true)]
async fn long_waiter_also_waits_for_its_membership() {
    for phase in [MovePhase::Old, MovePhase::BothByOld] {
        let (_stores, one, other) = two_in(phase).await;
        let held = other.coordinator.mutex("a").unwrap().acquire().await.unwrap();
        let mutex = one.coordinator.mutex("a").unwrap();
        let waits = tokio::spawn(async move { mutex.acquire().await });
        let lease = one.coordinator.lease();
        sleep(3 * lease.ttl()).await;
        one.old.hold();
        let deadline = one.coordinator.lease().deadline();
        held.release().await.unwrap();
        lease.clock().sleep_until(deadline).await;
        sleep(SECOND / 100).await;
        one.old.resume();
        let hold = timeout(lease.ttl(), waits).await.expect("in time").expect("no panic");
        assert!(hold.unwrap_or_else(|error| panic!("{phase:?}: {error}")).is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn a_stored_limit_is_asked_for_until_the_deadline() {
    let (_stores, one, other) = two_in(MovePhase::BothByOld).await;
    other.coordinator.semaphore("s", 2).unwrap().set_limit(2).await.unwrap();
    let stored = one.coordinator.semaphore("s", Limit::Stored).unwrap();
    one.new.cut();
    let acquires = tokio::spawn(async move { stored.acquire(1).within(30 * SECOND).await });
    sleep(SECOND).await;
    assert!(!acquires.is_finished(), "{:?}", acquires.await);
    one.new.heal();
    let permit = timeout(10 * SECOND, acquires).await.expect("in time").expect("no panic");
    assert!(permit.expect("a permit").is_held());
}
