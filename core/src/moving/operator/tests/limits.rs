//! Stored limits (MIGRATE-LIMITS).

use super::{Bed, ignored};
use crate::address::{Address, Kind};
use crate::contracts::{ExpectedLimit, Limit};
use crate::coordinator::Coordinator;
use crate::decide::moving::MovePhase::{self, BothByNew, BothByOld, Done, New, Old};
use crate::moving::operator::Move;
use crate::recipes::Semaphore;

fn semaphore(of: &Coordinator, key: &str) -> Semaphore {
    of.semaphore(key, Limit::Stored).expect("a good key")
}

async fn set(of: &Coordinator, key: &str, limit: u32) {
    semaphore(of, key).set_limit(limit).await.expect("set");
}

async fn stored(of: &Coordinator, key: &str) -> Option<u32> {
    semaphore(of, key).stored_limit().await.expect("read")
}

async fn on_both(bed: &Bed, key: &str) -> (Option<u32>, Option<u32>) {
    let operator = bed.operator().await;
    let limits = (stored(&operator.old.coordinator, key).await, stored(&operator.new.coordinator, key).await);
    operator.close().await.expect("closed");
    limits
}

async fn to(operator: &Move, phase: MovePhase) {
    while operator.status().await.expect("readable").phase != phase {
        operator.advance(ignored).await.expect("a step");
    }
}

async fn back_to(operator: &Move, phase: MovePhase) {
    while operator.status().await.expect("readable").phase != phase {
        operator.step_back(ignored).await.expect("a step");
    }
}

/// Unused limits are copied before both sides are needed, also over earlier ones. Limits of the new side
/// alone remain.
#[tokio::test(start_paused = true)]
async fn unused_limit_is_on_the_new_side_when_it_is_needed() {
    let bed = Bed::new();
    let (old, new) = (bed.plain_on_old("a").await.expect("open"), bed.plain_on_new("b").await.expect("open"));
    for (of, key, limit) in
        [(&old, "idle", 3), (&old, "used before", 4), (&new, "used before", 9), (&new, "new", 5)]
    {
        set(of, key, limit).await;
    }
    old.close().await.expect("closed");
    new.close().await.expect("closed");
    let (one, operator) = (bed.member("one").await.follows(), bed.operator().await);
    assert_eq!(operator.start(ignored).await.expect("begun"), BothByOld);
    for (key, expected) in [
        ("idle", (Some(3), Some(3))),
        ("used before", (Some(4), Some(4))),
        ("new", (None, Some(5))),
        ("none", (None, None)),
    ] {
        assert_eq!(on_both(&bed, key).await, expected, "{key}");
    }
    to(&operator, Done).await;
    assert_eq!(on_both(&bed, "idle").await, (Some(3), Some(3)));
    one.leaves().await;
    operator.close().await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_stored_in_any_phase_holds_in_all_that_follow() {
    for (phase, back) in [
        (Old, false),
        (BothByOld, false),
        (BothByNew, false),
        (New, false),
        (BothByNew, true),
        (BothByOld, true),
    ] {
        let bed = Bed::new();
        let (member, operator) = (bed.participant("one").await, bed.operator().await);
        set(&member, "a", 2).await;
        if back {
            to(&operator, New).await;
            back_to(&operator, phase).await;
        } else {
            to(&operator, phase).await;
        }
        set(&member, "a", 7).await;
        assert_eq!(stored(&member, "a").await, Some(7), "{phase:?}");
        to(&operator, New).await;
        assert_eq!(on_both(&bed, "a").await, (Some(7), Some(7)), "from {phase:?}, {back}");
        back_to(&operator, BothByOld).await;
        assert_eq!(on_both(&bed, "a").await, (Some(7), Some(7)), "back from {phase:?}, {back}");
        operator.abort(ignored).await.expect("given up");
        assert_eq!(stored(&member, "a").await, Some(7));
        member.close().await.expect("closed");
        operator.close().await.expect("closed");
    }
}

/// The first user of the limit came in phase *new*.
#[tokio::test(start_paused = true)]
async fn abort_copies_a_limit_of_the_new_side_to_the_old_side() {
    let bed = Bed::new();
    let (member, operator) = (bed.participant("one").await, bed.operator().await);
    to(&operator, New).await;
    let permit = member.semaphore("a", 2).expect("a good key").acquire(1).await.expect("acquired");
    assert!(permit.release().await.is_ok());
    operator.abort(ignored).await.expect("given up");
    assert_eq!(on_both(&bed, "a").await.0, Some(2));
    member.close().await.expect("closed");
    operator.close().await.expect("closed");
}

/// A late operator overwrites only the limit that it has read.
#[tokio::test(start_paused = true)]
async fn a_copy_that_comes_late_finds_the_limit_that_was_stored_since() {
    let bed = Bed::new();
    let new = bed.plain_on_new("b").await.expect("open");
    let queue = Address::new("b", Kind::Semaphore, "a").expect("a good key");
    assert!(new.backend().set_limit(&queue, ExpectedLimit::Absent, 3).await.expect("answered"));
    for over in [ExpectedLimit::Absent, ExpectedLimit::Exactly(4)] {
        assert!(!new.backend().set_limit(&queue, over, 9).await.expect("answered"), "{over:?}");
    }
    assert_eq!(stored(&new, "a").await, Some(3));
    assert!(new.backend().set_limit(&queue, ExpectedLimit::Exactly(3), 4).await.expect("answered"));
    assert_eq!(stored(&new, "a").await, Some(4));
    new.close().await.expect("closed");
}
