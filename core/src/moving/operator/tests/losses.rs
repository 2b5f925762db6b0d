//! The reads of an operator are overtaken by a loss, a repair, or another move.

use std::time::Duration;

use tokio::time::timeout;

use super::mortal::{Last, Life};
use super::{Bed, LONG, goes_to, ignored, state};
use crate::config::{Config, MoveConfig};
use crate::coordinator::operator::Operator;
use crate::decide::moving::MovePhase::{BothByNew, BothByOld, Done, New, Old};
use crate::decide::moving::values::ValuesAt;
use crate::decide::moving::{Side, Way};
use crate::error::{ErrorKind, Result};
use crate::moving::operator::step::Checked;
use crate::moving::operator::{MoveProgress, MoveState};

/// Repairs, and sleeps before one request during another event. Returns whether it slept.
async fn sleeps(bed: &Bed, requests: i64, meanwhile: impl AsyncFnOnce()) -> (Result<Vec<Side>>, bool) {
    let life = Life::new(Last::Asleep);
    let mortal = bed.mortal(&life, requests).await;
    let happens = async {
        life.asleep.notified().await;
        meanwhile().await;
        life.awake.notify_one();
        std::future::pending().await
    };
    let repaired = tokio::select! {
        repaired = timeout(LONG, mortal.repair()) => repaired.expect("it ends"),
        () = happens => unreachable!(),
    };
    (repaired, life.has_ended())
}

/// The record is written over the stamp of the repair's look.
#[tokio::test(start_paused = true)]
async fn late_repair_takes_no_other_operator_back() {
    for requests in 0.. {
        let bed = Bed::new();
        let one = bed.participant("one").await;
        goes_to(&bed.operator().await, New).await;
        bed.stores.old.wipe();
        let another = bed.operator().await;
        let (_, has_ended) = sleeps(&bed, requests, async || {
            another.repair().await.expect("restored");
            goes_to(&another, Done).await;
        })
        .await;
        if has_ended {
            assert_eq!(state(&another).await, (MoveState::Done, Done), "at {requests}");
            let blockers = another.plan().await.expect("readable").blockers;
            assert!(
                blockers.iter().all(|of| of.to_string().contains("connected to the old side")),
                "{blockers:?}"
            );
        }
        one.close().await.expect("closed");
        if !has_ended {
            assert!(requests > 10, "{requests}");
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_copy_is_kept_when_the_new_side_is_lost_during_a_repair() {
    for requests in 0.. {
        let bed = Bed::new();
        let one = bed.participant("one").await;
        one.counter("visits").expect("a good key").add(500).await.expect("added");
        let operator = bed.operator().await;
        goes_to(&operator, New).await;
        let read = operator.old.stamped().await.expect("read");
        operator.old.mark(&read, None).await.expect("answered").expect("no other client writes it");
        let (repaired, has_ended) = sleeps(&bed, requests, async || {
            bed.stores.new.wipe();
            // Another client writes the stamp.
            bed.operator().await.close().await.expect("closed");
        })
        .await;
        if has_ended {
            let stamp = bed.operator().await.new.stamped().await.expect("read");
            assert_eq!(stamp.arrival, None, "at {requests}: {repaired:?}");
        }
        one.close_now().await.expect("closed");
        if !has_ended {
            assert!(requests > 10, "{requests}");
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn restored_stage_knows_that_the_new_side_may_have_copies() {
    for aborts in [false, true] {
        let bed = Bed::new();
        let one = bed.participant("one").await;
        one.counter("visits").expect("a good key").add(5).await.expect("added");
        let operator = bed.operator().await;
        goes_to(&operator, BothByOld).await;
        let copy = bed.stores.old.copy();
        goes_to(&operator, BothByNew).await;
        assert_eq!(operator.step_back(ignored).await.expect("a step"), Some(BothByOld));
        bed.stores.old.go_back(&copy);
        let operator = bed.operator().await;
        assert_eq!(operator.repair().await.expect("restored"), [Side::Old]);
        if aborts {
            operator.abort(ignored).await.expect("taken back");
            assert_eq!(operator.new.values_in_use().await.expect("listed"), []);
        } else {
            operator.run(ignored).await.expect("the values of the new side are copies");
        }
        one.close_now().await.expect("closed");
    }
}

/// The record of a move that is done outlives a later marker.
#[tokio::test(start_paused = true)]
async fn refused_retirement_and_aborted_next_move_leave_the_record_of_the_last_move() {
    let bed = Bed::new();
    let operator = bed.operator().await;
    bed.moves(&operator).await;
    let current = bed.plain_on_new("current").await.expect("it is in use");
    let of_new = Operator::of(&operator.new.coordinator).expect("an operator");
    let error = of_new.retire("memory://later").await.expect_err("a client is connected");
    assert!(error.to_string().contains("current"), "{error}");
    current.close().await.expect("closed");
    let late = bed.participant("late").await;
    late.close().await.expect("closed");
    let at = |url| Config::from_url(url).expect("a good URL");
    let config = MoveConfig::new(at("memory://new?namespace=b"), at("memory://new?namespace=c"), "next");
    let next = Bed { stores: bed.stores.clone(), config };
    let (two, follows_up) = (next.participant("two").await, next.operator().await);
    goes_to(&follows_up, New).await;
    follows_up.abort(ignored).await.expect("taken back");
    two.close().await.expect("closed");
    let late = bed.participant("late").await;
    late.close().await.expect("closed");
    operator.finish().await.expect("no client is left");
    // A reopened namespace is a new side without a past.
    of_new.retire("memory://later").await.expect("no client is left");
    assert!(of_new.reopen().await.expect("reopened"));
    assert_eq!(operator.new.stamped().await.expect("read").arrival, None);
}

#[tokio::test(start_paused = true)]
async fn finish_without_a_move_says_that_no_move_has_begun() {
    let bed = Bed::new();
    let operator = bed.operator().await;
    for one in [None, Some(bed.participant("one").await)] {
        let error = operator.finish().await.expect_err("no move has begun");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().contains("has not begun"), "{error}");
        if let Some(one) = one {
            one.close().await.expect("closed");
        }
    }
}

async fn steps_until(bed: &Bed, way: Way, values: ValuesAt) {
    let operator = bed.operator().await;
    loop {
        let read = operator.stage().await.expect("read").expect("it stands");
        if read.values == values {
            return;
        }
        operator.attempt(Some(read), way, &mut Checked::default()).await.expect("a step");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The old side loses the write that lets clients use the new side's values again.
#[tokio::test(start_paused = true)]
async fn lost_end_of_a_freeze_is_written_again_before_any_other_step() {
    let bed = Bed::new();
    let one = bed.member("one").await.follows();
    goes_to(&bed.operator().await, BothByNew).await;
    steps_until(&bed, Way::Back, ValuesAt::LeavingNew).await;
    let copy = bed.stores.old.copy();
    steps_until(&bed, Way::Forward, ValuesAt::New).await;
    one.leaves().await;
    bed.stores.old.go_back(&copy);
    let operator = bed.operator().await;
    let frozen = operator.stage().await.expect("read").expect("it stands");
    assert_eq!(frozen.values, ValuesAt::LeavingNew);
    operator.attempt(Some(frozen), Way::Back, &mut Checked::default()).await.expect("completed");
    assert_eq!(operator.stage().await.expect("read").expect("it stands").values, ValuesAt::New);
}

#[tokio::test(start_paused = true)]
async fn member_that_is_late_and_apart_is_named_once_in_progress_status_and_plan() {
    let bed = Bed::new();
    let (late, one) = (bed.member("late").await, bed.member("one").await.follows());
    let operator = bed.operator().await;
    timeout(LONG, operator.start(ignored)).await.expect_err("it waits for the late member");
    late.loses_the_new_side().await;
    let mut told = Vec::new();
    let waits = operator.start(|progress| {
        if let MoveProgress::Waits(status) = progress {
            told = vec![(progress.to_string(), status.waits_for.clone())];
        }
    });
    timeout(LONG, waits).await.expect_err("it waits");
    let (said, waits_for) = told.pop().expect("it says so");
    assert!(said.contains("waits for 1 of 2 "), "{said}");
    let named: Vec<_> = waits_for.iter().map(|of| (&*of.label, of.number > 0, of.lacks)).collect();
    assert_eq!(named, [("late", true, Some("not connected to the new side"))]);
    late.acknowledges().await;
    for status in [operator.status().await.expect("read"), operator.plan().await.expect("read").status] {
        assert_eq!(
            status.waits_for,
            waits_for
                .iter()
                .map(|of| {
                    let mut of = of.clone();
                    of.knows_the_move = true;
                    of
                })
                .collect::<Vec<_>>()
        );
        assert_eq!((status.members, status.phase), (2, Old));
    }
    late.leaves().await;
    one.leaves().await;
}
