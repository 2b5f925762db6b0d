//! Servers that lose the markers during a move.

use super::killed::ends_at_each_request;
use super::{Bed, goes_to, ignored, state};
use crate::contracts::{CellLife, CellWrite, Expected};
use crate::decide::moving::MovePhase::{BothByNew, BothByOld, Done, New, Old};
use crate::decide::moving::Side;
use crate::decide::moving::evidence::Contradiction;
use crate::error::ErrorKind;
use crate::moving::operator::{Move, MoveBlocker, MoveState};
use crate::registry::stamp_address;

/// Resets the stamp, as after a failover to an old replica.
async fn forgets(of: &Move, side: Side) {
    let value = Some(b"layout=2".as_slice().into());
    let write = CellWrite { expected: Expected::Any, value, life: CellLife::Stays };
    let namespace = if side == Side::Old { "a" } else { "b" };
    let stamp = stamp_address(namespace).expect("a good namespace");
    of.side(side).backend().write_cell(&stamp, &write).await.expect("an operator's cell");
}

async fn epoch(of: &Move, side: Side) -> u16 {
    of.side(side).stamped().await.expect("read").epoch
}

#[tokio::test(start_paused = true)]
async fn move_resumes_after_marker_repair_and_the_exit_of_plain_clients() {
    for (phase, side) in [
        (BothByOld, Side::Old),
        (BothByOld, Side::New),
        (BothByNew, Side::Old),
        (BothByNew, Side::New),
        (New, Side::Old),
        (New, Side::New),
    ] {
        let bed = Bed::new();
        let member = bed.member("one").await.follows();
        let operator = bed.operator().await;
        goes_to(&operator, phase).await;
        assert_eq!(operator.repair().await.expect("all stands"), []);
        forgets(&operator, side).await;
        let came_in = match side {
            Side::Old => bed.plain_on_old("came-in").await,
            Side::New => bed.plain_on_new("came-in").await,
        };
        let came_in = came_in.expect("no marker stands");
        let error = operator.advance(ignored).await.expect_err("its marker is lost");
        assert!(error.to_string().contains("repair"), "{error}");
        let blockers = operator.plan().await.expect("read").blockers;
        let lost = match side {
            Side::Old => MoveBlocker::MarkerLost(side),
            Side::New => MoveBlocker::Contradicts(Contradiction::RecordLost),
        };
        assert!(
            matches!(&blockers[..], [first, MoveBlocker::Outsiders(who)] if *first == lost && who.len() == 1),
            "{blockers:?}"
        );
        // The repair names the client, and the steps name it or the lost record. No other client is admitted.
        for _ in 0..2 {
            for error in [
                operator.repair().await.map(drop).expect_err("a plain client"),
                operator.advance(ignored).await.map(drop).expect_err("a plain client"),
                operator.step_back(ignored).await.map(drop).expect_err("a plain client"),
            ] {
                assert_eq!(error.kind(), ErrorKind::Conflict);
                let names = error.to_string().contains("came-in");
                assert!(names || side == Side::New && error.to_string().contains("repair"), "{error}");
            }
            for refused in [bed.plain_on_old("late").await, bed.plain_on_new("late").await] {
                assert_eq!(refused.map(drop).expect_err("it moves").kind(), ErrorKind::Misconfigured);
            }
        }
        assert_eq!(state(&operator).await, (MoveState::Begun, phase));
        came_in.close().await.expect("closed");
        let restored: &[Side] = if side == Side::New { &[Side::New] } else { &[] };
        assert_eq!(operator.repair().await.expect("nobody is outside"), restored);
        let token_side = phase.token();
        assert!(epoch(&operator, token_side).await >= operator.status().await.expect("read").epoch);
        assert!(operator.plan().await.expect("read").blockers.is_empty());
        operator.run(ignored).await.expect("it goes on");
        let plain = bed.plain_on_new("current").await.expect("it is in use");
        assert_eq!(plain.client().tokens.of(1).expect("fits").epoch(), 1, "{phase} {side:?}");
        plain.close().await.expect("closed");
        member.leaves().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_move_that_is_done_has_its_old_side_shut_again_and_its_new_side_open() {
    let bed = Bed::new();
    let member = bed.member("one").await.follows();
    let operator = bed.operator().await;
    operator.run(ignored).await.expect("made");
    member.leaves().await;
    forgets(&operator, Side::Old).await;
    let error = operator.finish().await.expect_err("its marker is lost");
    assert!(error.to_string().contains("repair"), "{error}");
    let current = bed.plain_on_new("current").await.expect("it is in use");
    let came_in = bed.plain_on_old("came-in").await.expect("no marker stands");
    let error = operator.repair().await.expect_err("a plain client");
    assert!(error.to_string().contains("came-in") && !error.to_string().contains("current"), "{error}");
    came_in.close().await.expect("closed");
    assert_eq!(operator.repair().await.expect("nobody is outside"), []);
    bed.plain_on_old("late").await.expect_err("it has moved");
    bed.plain_on_new("another").await.expect("it is in use").close().await.expect("closed");
    operator.finish().await.expect("shut");
    current.close().await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn a_move_is_not_given_up_below_the_tokens_that_it_gave() {
    let bed = Bed::new();
    let member = bed.member("one").await.follows();
    let operator = bed.operator().await;
    goes_to(&operator, BothByNew).await;
    for phase in [BothByOld, Old] {
        assert_eq!(operator.step_back(ignored).await.expect("a step"), Some(phase));
    }
    forgets(&operator, Side::Old).await;
    // An operator that begins again and finds a plain client does not give the move up.
    let came_in = bed.plain_on_old("came-in").await.expect("no marker stands");
    let staged = operator.stage().await.expect("read").expect("it stands");
    let Err(error) = operator.shut(staged, None).await else { panic!("a plain client is there") };
    assert!(error.to_string().contains("came-in"), "{error}");
    assert_eq!(state(&operator).await, (MoveState::Begun, Old));
    bed.plain_on_old("late").await.expect_err("it is shut");
    came_in.close().await.expect("closed");
    let error = operator.abort(ignored).await.expect_err("its epoch is lost");
    assert!(error.to_string().contains("repair"), "{error}");
    assert_eq!(operator.repair().await.expect("nobody is outside"), []);
    operator.abort(ignored).await.expect("given up");
    let plain = bed.plain_on_old("plain").await.expect("it is open");
    assert_eq!(plain.client().tokens.of(1).expect("fits").epoch(), 2);
    plain.close().await.expect("closed");
    member.leaves().await;
}

#[tokio::test(start_paused = true)]
async fn repair_without_a_move_writes_nothing() {
    let bed = Bed::new();
    let operator = bed.operator().await;
    let error = operator.repair().await.expect_err("no move has begun");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(state(&operator).await, (MoveState::NotBegun, Old));
    bed.plain_on_old("plain").await.expect("it is open").close().await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn gate_is_repaired_if_an_operator_stops_at_any_request() {
    for phase in [BothByOld, New] {
        let lost = async |bed: &Bed| {
            let operator = bed.operator().await;
            goes_to(&operator, phase).await;
            forgets(&operator, Side::Old).await;
            forgets(&operator, Side::New).await;
        };
        let repairs = async |of: &Move| {
            of.repair().await?;
            of.run(ignored).await
        };
        ends_at_each_request(lost, repairs, async |bed, another| {
            assert_eq!(state(another).await, (MoveState::Done, Done));
            assert!(epoch(another, Side::New).await >= another.status().await.expect("read").epoch);
            bed.plain_on_old("forgotten").await.expect_err("it has moved");
            let plain = bed.plain_on_new("current").await.expect("it is in use");
            assert_eq!(plain.client().tokens.of(1).expect("fits").epoch(), 1);
            plain.close().await.expect("closed");
        })
        .await;
    }
}
