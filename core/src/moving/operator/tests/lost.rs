//! An operator that loses its lease continues with the next one.

use std::time::Duration;

use tokio::time::timeout;

use super::killed::has_values;
use super::mortal::{Last, Life};
use super::{Bed, LONG, ignored, state};
use crate::decide::moving::MovePhase::{self, BothByOld, Done, New, Old};
use crate::error::Result;
use crate::moving::operator::{Move, MoveProgress, MoveState};

/// Loses a side's lease before each request in turn.
async fn goes_on_from_each_request(
    before: impl AsyncFn(&Bed),
    work: impl AsyncFn(&Move) -> Result<()>,
    end: (MoveState, MovePhase),
) {
    for requests in 0.. {
        let bed = Bed::new();
        has_values(&bed).await;
        let one = match end.0 {
            // No client may be connected.
            MoveState::Finished => None,
            _ => Some(bed.member("one").await.follows()),
        };
        before(&bed).await;
        let life = Life::new(Last::Leaseless);
        let operator = bed.mortal(&life, requests).await;
        let worked = timeout(LONG, work(&operator)).await.expect("it ends");
        worked.unwrap_or_else(|error| panic!("at {requests}: {error}"));
        assert_eq!(state(&operator).await, end, "at {requests}");
        if let Some(one) = one {
            one.leaves().await;
        }
        if !life.has_ended() {
            assert!(requests > 10, "{requests}");
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_goes_on_from_each_request() {
    let run = async |of: &Move| of.run(ignored).await;
    goes_on_from_each_request(async |_| {}, run, (MoveState::Done, Done)).await;
}

#[tokio::test(start_paused = true)]
async fn an_abort_goes_on_from_each_request() {
    let begun = async |bed: &Bed| {
        let operator = bed.operator().await;
        while operator.advance(ignored).await.expect("a step") != New {}
    };
    let abort = async |of: &Move| of.abort(ignored).await;
    goes_on_from_each_request(begun, abort, (MoveState::NotBegun, Old)).await;
}

#[tokio::test(start_paused = true)]
async fn a_finish_says_at_the_most_that_another_call_helps() {
    let made = async |bed: &Bed| bed.moves(&bed.operator().await).await;
    let finish = async |of: &Move| {
        while let Err(error) = of.finish().await {
            assert!(error.may_pass(), "{error}");
        }
        Ok(())
    };
    goes_on_from_each_request(made, finish, (MoveState::Finished, Done)).await;
}

#[tokio::test(start_paused = true)]
async fn waiting_operator_notices_members_after_a_lost_watch() {
    let bed = Bed::new();
    let late = bed.member("late").await;
    let life = Life::new(Last::Lost);
    let operator = bed.mortal(&life, i64::MAX).await;
    let mut outages = 0;
    let start =
        operator.start(|progress| outages += usize::from(matches!(progress, MoveProgress::Outage(_))));
    let meanwhile = async {
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            life.watches_end.notify_waiters();
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        late.acknowledges().await;
    };
    let (phase, ()) = timeout(LONG, futures_util::future::join(start, meanwhile)).await.expect("in time");
    assert_eq!(phase.expect("acknowledged"), BothByOld);
    assert_eq!(outages, 3, "it does not spin");
    late.leaves().await;
}
