//! An operator dies or sleeps at each of its requests, and another one completes its work.

use crate::contracts::Limit;
use std::future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;

use super::mortal::{Last, Life};
use super::{Bed, ignored, state};
use crate::coordinator::Coordinator;
use crate::decide::moving::MovePhase::{Done, New, Old};
use crate::error::Result;
use crate::moving::operator::{Move, MoveBlocker, MoveState};
use crate::recipes::Semaphore;

/// Runs an operator for this number of requests, and then another one. Returns both, and whether the first
/// one reached its last request.
async fn ends(
    bed: &Bed,
    requests: i64,
    last: Last,
    work: impl AsyncFn(&Move) -> Result<()>,
) -> ([Move; 2], bool) {
    let life = Life::new(last);
    let mortal = bed.mortal(&life, requests).await;
    let another = bed.operator().await;
    let works = async || {
        let worked = work(&another).await;
        worked.unwrap_or_else(|error| {
            panic!("next to an operator whose last request was {requests}, {last:?}: {error}")
        });
    };
    let meanwhile = async {
        life.asleep.notified().await;
        let mut works = pin!(works());
        // If it sleeps with the hold for writing values, the other operator waits, because its client lives.
        let ended = timeout(Duration::from_secs(60), &mut works).await;
        life.awake.notify_one();
        if ended.is_err() {
            works.await;
        }
        future::pending().await
    };
    let worked = tokio::select! {
        worked = work(&mortal) => worked,
        () = meanwhile => unreachable!(),
    };
    let has_ended = life.has_ended();
    assert!(worked.is_ok() || has_ended && last != Last::Asleep, "at {requests}, {last:?}: {worked:?}");
    works().await;
    ([mortal, another], has_ended)
}

/// Ends an operator's life at each of its requests, and checks the result of the next operator.
pub(super) async fn ends_at_each_request(
    before: impl AsyncFn(&Bed),
    work: impl AsyncFn(&Move) -> Result<()>,
    behind: impl AsyncFn(&Bed, &Move),
) {
    for last in [Last::Lost, Last::Unheard, Last::Asleep] {
        for requests in 0.. {
            let bed = Bed::new();
            let member = bed.member("one").await.follows();
            before(&bed).await;
            let ([_mortal, another], has_ended) = ends(&bed, requests, last, &work).await;
            behind(&bed, &another).await;
            member.leaves().await;
            if !has_ended {
                assert!(requests > 10, "{requests}");
                break;
            }
        }
    }
}

/// The old side gets a count of 7, a value, and the limit of an unused semaphore.
pub(super) async fn has_values(bed: &Bed) {
    let plain = bed.plain_on_old("before").await.expect("connected");
    plain.counter("visits").expect("a good key").add(7).await.expect("added");
    plain.shared_value("text").expect("a good key").write("seven").await.expect("written");
    idle(&plain).set_limit(3).await.expect("set");
    plain.close().await.expect("closed");
}

fn idle(of: &Coordinator) -> Semaphore {
    of.semaphore("idle", Limit::Stored).expect("a good key")
}

async fn limited(of: &Coordinator) -> Option<u32> {
    idle(of).stored_limit().await.expect("read")
}

async fn counted(plain: &Coordinator) -> i64 {
    plain.counter("visits").expect("a good key").get().await.expect("read")
}

#[tokio::test(start_paused = true)]
async fn run_completes_if_an_operator_stops_at_any_request() {
    let run = async |of: &Move| of.run(ignored).await;
    ends_at_each_request(has_values, run, async |bed, another| {
        assert_eq!(state(another).await, (MoveState::Done, Done));
        assert_eq!(another.status().await.expect("readable").epoch, 1);
        bed.plain_on_old("forgotten").await.expect_err("it has moved");
        let plain = bed.plain_on_new("current").await.expect("it is in use");
        assert_eq!(plain.client().tokens.of(1).expect("fits").epoch(), 1);
        assert_eq!((counted(&plain).await, limited(&plain).await), (7, Some(3)));
        plain.close().await.expect("closed");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn abort_completes_if_an_operator_stops_at_any_request() {
    let begun = async |bed: &Bed| {
        has_values(bed).await;
        let operator = bed.operator().await;
        while operator.advance(ignored).await.expect("a step") != New {}
    };
    let abort = async |of: &Move| of.abort(ignored).await;
    ends_at_each_request(begun, abort, async |bed, another| {
        assert_eq!(state(another).await, (MoveState::NotBegun, Old));
        let (old, new) = (bed.plain_on_old("a").await, bed.plain_on_new("b").await);
        let (old, new) = (old.expect("it is open"), new.expect("it is open"));
        assert_eq!(old.client().tokens.of(1).expect("fits").epoch(), 2);
        assert_eq!((counted(&old).await, counted(&new).await), (7, 0));
        assert_eq!(limited(&old).await, Some(3));
        old.close().await.expect("closed");
        new.close().await.expect("closed");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn finish_completes_if_an_operator_stops_at_any_request() {
    for last in [Last::Lost, Last::Unheard, Last::Asleep] {
        for requests in 0.. {
            let bed = Bed::new();
            has_values(&bed).await;
            bed.moves(&bed.operator().await).await;
            let finish = async |of: &Move| of.finish().await;
            let ([_mortal, another], has_ended) = ends(&bed, requests, last, finish).await;
            assert_eq!(state(&another).await, (MoveState::Finished, Done));
            bed.plain_on_old("forgotten").await.expect_err("it has moved");
            assert!(another.old.values_in_use().await.expect("listed").is_empty());
            assert_eq!(another.new.values_in_use().await.expect("listed").len(), 2);
            if !has_ended {
                break;
            }
        }
    }
}

/// Another operator writes the next stage during the reads.
#[tokio::test(start_paused = true)]
async fn a_plan_that_is_overtaken_at_any_request_is_of_one_stage() {
    for requests in 0.. {
        let bed = Bed::new();
        has_values(&bed).await;
        let (one, operator) = (bed.member("one").await.follows(), bed.operator().await);
        while operator.advance(ignored).await.expect("a step") != New {}
        let life = Life::new(Last::Asleep);
        let looks = bed.mortal(&life, requests).await;
        let meanwhile = async {
            life.asleep.notified().await;
            operator.run(ignored).await.expect("made");
            // This plain client is not an outsider, because the new side is open.
            let plain = bed.plain_on_new("current").await.expect("it is in use");
            life.awake.notify_one();
            future::pending::<()>().await;
            drop(plain);
        };
        let plan = tokio::select! {
            plan = looks.plan() => plan.expect("readable"),
            () = meanwhile => unreachable!(),
        };
        let left = |of: &MoveBlocker| matches!(of, MoveBlocker::StillConnected(_));
        assert!(plan.blockers.iter().all(left), "at {requests}, in {:?}", plan.status.phase);
        one.leaves().await;
        if !life.has_ended() {
            assert!(requests > 5, "{requests}");
            break;
        }
    }
}
