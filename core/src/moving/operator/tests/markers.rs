//! The markers, with a stage or without one.

use super::{Bed, ignored, state};
use crate::config::{Config, MoveConfig};
use crate::contracts::{CellLife, CellWrite, Expected};
use crate::decide::moving::MovePhase::{BothByNew, BothByOld, Done, New, Old};
use crate::decide::moving::Side;
use crate::decide::moving::gate::{Course, GateMarker};
use crate::error::ErrorKind;
use crate::moving::operator::{Move, MoveBlocker, MoveState};
use crate::registry::stamp_address;

/// Another operator, whose URLs are these.
async fn spelled(bed: &Bed, from: &str, to: &str) -> Move {
    let at = |url| Config::from_url(url).expect("a good URL");
    Move::connect(&bed.connectors(), &MoveConfig::new(at(from), at(to), "m")).await.expect("connected")
}

#[tokio::test(start_paused = true)]
async fn a_move_whose_operator_ended_before_it_opened_the_new_side_says_so_until_a_run_opens_it() {
    let bed = Bed::new();
    let operator = bed.operator().await;
    operator.run(ignored).await.expect("made");
    let opened = operator.new.stamped().await.expect("read");
    operator.new.mark(&opened, Some(&operator.marker(Side::New))).await.expect("answered").expect("written");
    bed.plain_on_new("early").await.expect_err("it is shut");
    assert_eq!(state(&operator).await, (MoveState::Opening, Done));
    let plan = operator.plan().await.expect("readable");
    assert_eq!((plan.status.state, &plan.blockers[..]), (MoveState::Opening, &[MoveBlocker::NotOpened][..]));
    assert!(plan.blockers[0].next_step().contains("migrate run"));
    // An operator with another URL can neither open the side, nor finish the move and leave the side shut.
    let other = spelled(&bed, "memory://old-one?namespace=a", "memory://new?namespace=b").await;
    let blockers = other.plan().await.expect("readable").blockers;
    assert!(matches!(&blockers[..], [MoveBlocker::MarkedOtherwise { side: Side::New, .. }]), "{blockers:?}");
    for refused in [other.run(ignored).await, other.finish().await] {
        assert_eq!(refused.expect_err("another marker").kind(), ErrorKind::Conflict);
    }
    operator.run(ignored).await.expect("opened");
    assert_eq!(state(&operator).await, (MoveState::Done, Done));
    assert_eq!(operator.plan().await.expect("readable").blockers, []);
    bed.plain_on_new("current").await.expect("it is open").close().await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn a_finish_that_was_begun_says_so_until_it_is_called_again() {
    let bed = Bed::new();
    let operator = bed.operator().await;
    operator.run(ignored).await.expect("made");
    let read = operator.old.stamped().await.expect("read");
    operator.old.mark(&read, Some(&operator.retired())).await.expect("answered").expect("written");
    assert_eq!(state(&operator).await, (MoveState::Finishing, Done));
    let plan = operator.plan().await.expect("readable");
    assert_eq!((plan.status.state, plan.blockers), (MoveState::Finishing, vec![]));
    operator.finish().await.expect("nobody is left");
    assert_eq!(state(&operator).await, (MoveState::Finished, Done));
}

#[tokio::test(start_paused = true)]
async fn an_operator_whose_urls_are_spelled_otherwise_finds_in_the_plan_what_each_step_says() {
    for phase in [BothByOld, BothByNew, New, Done] {
        let bed = Bed::new();
        let operator = bed.operator().await;
        while operator.advance(ignored).await.expect("a step") != phase {}
        assert_eq!(operator.plan().await.expect("readable").blockers, [], "{phase}");
        let other = spelled(&bed, "memory://old?namespace=a", "memory://anew?namespace=b").await;
        let blockers = other.plan().await.expect("readable").blockers;
        let [MoveBlocker::MarkedOtherwise { side: Side::Old, name: Some(name), url }] = &blockers[..] else {
            panic!("{phase}: {blockers:?}");
        };
        assert_eq!((&**name, &**url), ("m", "memory://new?namespace=b"));
        let refused = if phase == Done { other.finish().await } else { other.run(ignored).await };
        assert_eq!(refused.expect_err("another marker").kind(), ErrorKind::Conflict, "{phase}");
    }
}

/// The old side of the next move is the new side of the first.
#[tokio::test(start_paused = true)]
async fn next_move_of_the_same_name_does_not_block_finishing() {
    let bed = Bed::new();
    let operator = bed.operator().await;
    operator.run(ignored).await.expect("made");
    let read = operator.new.stamped().await.expect("read");
    let url = "memory://new?namespace=c".to_owned();
    let next = GateMarker { course: Course::Leaves, name: Some("m".to_owned()), url };
    operator.new.mark(&read, Some(&next)).await.expect("answered").expect("written");
    assert_eq!(operator.plan().await.expect("readable").blockers, []);
    operator.run(ignored).await.expect("it is made");
    operator.finish().await.expect("nobody is left");
    assert_eq!(operator.new.stamped().await.expect("read").marker, Some(next));
}

/// The answer was lost, or a later request failed. The new namespace was in use before.
#[tokio::test(start_paused = true)]
async fn an_operator_who_has_deleted_the_stage_goes_on_giving_the_move_up() {
    let bed = Bed::new();
    let (operator, member) = (bed.operator().await, bed.member("one").await);
    let read = operator.new.stamped().await.expect("read");
    let raised = read.raise_epoch(operator.new.backend(), &operator.new.place, 3).await;
    raised.expect("answered").expect("no other client writes it");
    operator.first_stage().await.expect("made").expect("by this one");
    member.acknowledges().await;
    assert_eq!(operator.start(ignored).await.expect("begun"), BothByOld);
    member.acknowledges().await;
    assert_eq!(operator.step_back(ignored).await.expect("a step"), Some(Old));
    member.acknowledges().await;
    let staged = operator.stage().await.expect("read").expect("it stands");
    assert!(staged.delete(operator.old.backend(), &operator.place).await.expect("answered"));
    let error = operator.give_up(None, false).await.expect_err("the server may have lost it");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(operator.give_up(None, true).await.expect("it was deleted"));
    assert_eq!(state(&operator).await, (MoveState::NotBegun, Old));
}

#[tokio::test(start_paused = true)]
async fn error_for_a_move_from_a_retired_side_names_the_remedy() {
    let bed = Bed::new();
    let there = bed.operator().await;
    there.run(ignored).await.expect("made");
    there.finish().await.expect("finished");
    let other = spelled(&bed, "memory://old?namespace=a", "memory://new?namespace=c").await;
    let error = other.run(ignored).await.expect_err("its clients are elsewhere");
    assert!(error.to_string().contains("--to") && error.to_string().contains("namespace=b"), "{error}");
    // This follows the advice of the error.
    let back = MoveConfig::new(bed.config.to.clone(), bed.config.from.clone(), "back");
    let back = Move::connect(&bed.connectors(), &back).await.expect("connected");
    assert!(back.reopen().await.expect("reopened"));
    other.start(ignored).await.expect("begun");
}

/// Resets the stage and the stamp of the old side to their state before all moves, and removes the members'
/// nodes.
async fn old_side_forgets(of: &Move) {
    let write = |value: Option<&'static [u8]>| CellWrite {
        expected: Expected::Any,
        value: value.map(Into::into),
        life: CellLife::Stays,
    };
    let stamp = stamp_address("a").expect("a good namespace");
    for (cell, value) in [(&of.place.stage, None), (&stamp, Some(&b"layout=1"[..]))] {
        of.old.backend().write_cell(cell, &write(value)).await.expect("an operator's cell");
    }
}

#[tokio::test(start_paused = true)]
async fn lost_stage_blocks_an_abort_until_participants_leave() {
    let bed = Bed::new();
    let (operator, one) = (bed.operator().await, bed.participant("one").await);
    while operator.advance(ignored).await.expect("a step") != New {}
    old_side_forgets(&operator).await;
    assert_eq!(state(&operator).await, (MoveState::GivenUpOrLost, Old));
    let blockers = operator.plan().await.expect("readable").blockers;
    let [MoveBlocker::StageLost(clients)] = &blockers[..] else { panic!("{blockers:?}") };
    assert_eq!(clients.iter().map(|of| &*of.label).collect::<Vec<_>>(), ["one"]);
    for refused in [operator.abort(ignored).await, operator.step_back(ignored).await.map(drop)] {
        let error = refused.expect_err("it may be in a later phase");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert!(error.to_string().contains("\"one\""), "{error}");
    }
    bed.plain_on_new("early").await.expect_err("it is shut still");
    one.close().await.expect("closed");
    operator.abort(ignored).await.expect("nobody takes part");
    assert_eq!(state(&operator).await, (MoveState::NotBegun, Old));
}

/// An operator that takes a move back leaves the higher epoch on the old side.
#[tokio::test(start_paused = true)]
async fn abort_lifts_a_leftover_marker_while_participants_remain() {
    let bed = Bed::new();
    let (operator, one) = (bed.operator().await, bed.participant("one").await);
    while operator.advance(ignored).await.expect("a step") != New {}
    operator.abort(ignored).await.expect("given up");
    let read = operator.new.stamped().await.expect("read");
    operator.new.mark(&read, Some(&operator.marker(Side::New))).await.expect("answered").expect("written");
    assert_eq!(state(&operator).await, (MoveState::GivenUp, Old));
    operator.abort(ignored).await.expect("lifted");
    assert_eq!(state(&operator).await, (MoveState::NotBegun, Old));
    one.close().await.expect("closed");
}
