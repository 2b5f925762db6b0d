use super::{Bed, ignored, state};
use crate::config::{Config, MoveConfig};
use crate::decide::moving::MovePhase::{BothByNew, BothByOld, Done, New, Old};
use crate::decide::moving::Side;
use crate::decide::moving::gate::{Course, GateMarker};
use crate::error::ErrorKind;
use crate::moving::operator::{Move, MoveBlocker, MoveState};

async fn spelled(bed: &Bed, from: &str, to: &str) -> Move {
    let at = |url| Config::from_url(url).expect("a good URL");
    Move::connect(&bed.connectors(), &MoveConfig::new(at(from), at(to), "m")).await.expect("connected")
}

#[tokio::test(start_paused = true)]
async fn a_move_whose_operator_ended_before_it_opened_the_new_side_says_so_until_a_run_opens_it() {
    let bed = Bed::new();
    let operator = bed.operator().await;
    bed.moves(&operator).await;
    let opened = operator.new.stamped().await.expect("read");
    operator.new.mark(&opened, Some(&operator.marker(Side::New))).await.expect("answered").expect("written");
    bed.plain_on_new("early").await.expect_err("it is shut");
    assert_eq!(state(&operator).await, (MoveState::Opening, Done));
    let plan = operator.plan().await.expect("readable");
    assert_eq!((plan.status.state, &plan.blockers[..]), (MoveState::Opening, &[MoveBlocker::NotOpened][..]));
    assert!(plan.blockers[0].next_step().contains("migrate run"));
    // An operator with another URL can neither open the side nor finish the move.
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
    bed.moves(&operator).await;
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
        let one = bed.member("one").await.follows();
        while operator.advance(ignored).await.expect("a step") != phase {}
        if phase == Done {
            one.leaves().await;
        }
        assert_eq!(operator.plan().await.expect("readable").blockers, [], "{phase}");
        let other = spelled(&bed, "memory://old?namespace=a", "memory://anew?namespace=b").await;
        let blockers = other.plan().await.expect("readable").blockers;
        let Some(MoveBlocker::MarkedOtherwise { side: Side::Old, name: Some(name), url }) = blockers.first()
        else {
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
    bed.moves(&operator).await;
    let read = operator.new.stamped().await.expect("read");
    let url = "memory://new?namespace=c".to_owned();
    let next = GateMarker { course: Course::Leaves, name: Some("m".to_owned()), url };
    operator.new.mark(&read, Some(&next)).await.expect("answered").expect("written");
    assert_eq!(operator.plan().await.expect("readable").blockers, []);
    operator.run(ignored).await.expect("it is made");
    operator.finish().await.expect("nobody is left");
    assert_eq!(operator.new.stamped().await.expect("read").marker, Some(next));
}

#[tokio::test(start_paused = true)]
async fn error_for_a_move_from_a_retired_side_names_the_remedy() {
    let bed = Bed::new();
    let there = bed.operator().await;
    bed.moves(&there).await;
    there.finish().await.expect("finished");
    let other = spelled(&bed, "memory://old?namespace=a", "memory://new?namespace=c").await;
    let error = other.run(ignored).await.expect_err("its clients are elsewhere");
    assert!(error.to_string().contains("--to") && error.to_string().contains("namespace=b"), "{error}");
    // This follows the error's advice.
    let back = MoveConfig::new(bed.config.to.clone(), bed.config.from.clone(), "back");
    let back = Move::connect(&bed.connectors(), &back).await.expect("connected");
    assert!(back.reopen().await.expect("reopened"));
    let sides = Bed { stores: bed.stores.clone(), config: other_config() };
    let one = sides.member("one").await.follows();
    other.start(ignored).await.expect("begun");
    one.leaves().await;
}

fn other_config() -> MoveConfig {
    let at = |url| Config::from_url(url).expect("a good URL");
    MoveConfig::new(at("memory://old?namespace=a"), at("memory://new?namespace=c"), "m")
}

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
