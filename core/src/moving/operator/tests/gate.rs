use super::{Bed, ignored, state};
use crate::decide::moving::MovePhase::{BothByOld, New, Old};
use crate::decide::moving::evidence::MoveId;
use crate::decide::moving::values::WholeStage;
use crate::error::ErrorKind;
use crate::moving::operator::look::ListValues;
use crate::moving::operator::{Move, MoveBlocker, MoveState};
use crate::moving::staged::Staged;

#[tokio::test(start_paused = true)]
async fn a_forgotten_client_keeps_a_move_from_beginning_and_is_named_and_works_on() {
    let bed = Bed::new();
    let one = bed.member("one").await.follows();
    let (operator, another) = (bed.operator().await, bed.operator().await);
    for forgotten in [bed.plain_on_old("the-old-one").await, bed.plain_on_new("the-early-one").await] {
        let forgotten = forgotten.expect("connected");
        let error = operator.start(ignored).await.expect_err("a plain client");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().contains(forgotten.label()), "{error}");
        assert_eq!(state(&another).await, (MoveState::NotBegun, Old), "nothing was written");
        bed.plain_on_old("more").await.expect("as before").close().await.expect("closed");
        forgotten.close().await.expect("closed");
    }
    assert_eq!(operator.start(ignored).await.expect("they are gone"), BothByOld);
    assert_eq!(another.start(ignored).await.expect("it was begun"), BothByOld);
    one.leaves().await;
}

#[tokio::test(start_paused = true)]
async fn start_is_undone_if_a_client_connected_before_the_marker() {
    let bed = Bed::new();
    let operator = bed.operator().await;
    let staged = first_stage(&operator).await;
    let forgotten = bed.plain_on_old("just-in-time").await.expect("no marker exists yet");
    let made = Some(staged.version);
    let Err(error) = operator.shut(staged, made).await else { panic!("a plain client is there") };
    assert!(error.to_string().contains("just-in-time"), "{error}");
    assert_eq!(state(&operator).await, (MoveState::NotBegun, Old));
    bed.plain_on_new("another").await.expect("it is open").close().await.expect("closed");
    // A start that is refused before its first write leaves a dead operator's marker to an abort.
    first_stage(&operator).await;
    let marker = operator.marker(crate::decide::moving::Side::New);
    let read = operator.new.stamped().await.expect("read");
    read.mark(operator.new.backend(), &operator.new.place, Some(&marker))
        .await
        .expect("marked")
        .expect("first");
    operator.start(ignored).await.expect_err("a plain client is there");
    assert_eq!(state(&operator).await, (MoveState::Begun, Old));
    forgotten.close().await.expect("closed");
    operator.abort(ignored).await.expect("given up");
    assert_eq!(state(&operator).await, (MoveState::NotBegun, Old));
}

#[tokio::test(start_paused = true)]
async fn another_operator_who_has_gone_on_is_not_taken_back() {
    let bed = Bed::new();
    let one = bed.member("one").await.follows();
    let (operator, another) = (bed.operator().await, bed.operator().await);
    let staged = first_stage(&operator).await;
    another.start(ignored).await.expect("nobody is outside");
    assert!(!staged.delete(operator.old.backend(), &operator.place).await.expect("answered"));
    assert!(!operator.give_up(Some(&staged)).await.expect("answered"), "it is on both sides");
    assert_eq!(state(&operator).await, (MoveState::Begun, BothByOld));
    one.leaves().await;
}

#[tokio::test(start_paused = true)]
async fn what_another_has_begun_since_it_was_looked_at_is_not_given_up() {
    let bed = Bed::new();
    let one = bed.member("one").await.follows();
    let (operator, another) = (bed.operator().await, bed.operator().await);
    let there_and_back = async || {
        another.start(ignored).await.expect("nobody is outside");
        another.step_back(ignored).await.expect("a step");
    };
    there_and_back().await;
    let checked = operator.stage().await.expect("read").expect("it stands");
    // Members may not have acknowledged this stage.
    there_and_back().await;
    assert!(!operator.give_up(Some(&checked)).await.expect("answered"));
    assert!(!operator.give_up(None).await.expect("answered"));
    assert_eq!(state(&operator).await, (MoveState::Begun, Old));
    let now = operator.stage().await.expect("read").expect("it stands");
    assert!(operator.give_up(Some(&now)).await.expect("answered"));
    assert_eq!(state(&operator).await, (MoveState::NotBegun, Old));
    one.leaves().await;
}

#[tokio::test(start_paused = true)]
async fn refused_restart_keeps_the_stage_whether_the_member_knows_it_or_not() {
    let bed = Bed::new();
    let (operator, member) = (bed.operator().await, bed.member("one").await);
    first_stage(&operator).await;
    member.acknowledges().await;
    assert_eq!(operator.start(ignored).await.expect("begun"), BothByOld);
    member.acknowledges().await;
    assert_eq!(operator.step_back(ignored).await.expect("a step"), Some(Old));
    let read = operator.old.stamped().await.expect("read");
    operator.old.mark(&read, None).await.expect("answered").expect("no other client writes it");
    let forgotten = bed.plain_on_old("forgotten").await.expect("it is open");
    for knows in [false, true] {
        if knows {
            member.acknowledges().await;
        }
        let error = operator.start(ignored).await.expect_err("a plain client is there");
        assert!(error.to_string().contains("forgotten"), "{error}");
        assert_eq!(state(&operator).await, (MoveState::Begun, Old));
    }
    forgotten.close().await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn a_move_of_another_name_or_url_is_named_and_left_alone() {
    let bed = Bed::new();
    let operator = bed.operator().await;
    let one = bed.member("one").await.follows();
    operator.start(ignored).await.expect("begun");
    let mut other = Bed { stores: bed.stores.clone(), config: bed.config.clone() };
    other.config.name = "n".to_owned();
    let second = other.operator().await;
    let plan = second.plan().await.expect("read");
    assert!(
        matches!(&plan.blockers[..], [
        MoveBlocker::MarkedOtherwise { name: Some(one), .. },
        MoveBlocker::MarkedOtherwise { .. },
        ..
    ] if one == "m"),
        "{:?}",
        plan.blockers
    );
    let error = second.start(ignored).await.expect_err("another move");
    assert!(error.to_string().contains("\"m\""), "{error}");
    assert_eq!(state(&second).await, (MoveState::Elsewhere, Old));
    let error = second.abort(ignored).await.expect_err("another move");
    assert!(error.to_string().contains("\"m\""), "{error}");
    // The same name with another new side belongs to another operator.
    other.config.name = "m".to_owned();
    other.config.to.namespace = "elsewhere".to_owned();
    let third = other.operator().await;
    let error = third.advance(ignored).await.expect_err("another new side");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(state(&operator).await, (MoveState::Begun, BothByOld));
    // Also if it would only remove existing markers.
    assert_eq!(operator.step_back(ignored).await.expect("a step"), Some(Old));
    let error = third.abort(ignored).await.expect_err("another new side");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(state(&operator).await, (MoveState::Begun, Old));
    one.leaves().await;
}

#[tokio::test(start_paused = true)]
async fn an_operator_writes_stages_and_stamps_and_nothing_else() {
    let bed = Bed::new();
    let operator = bed.operator().await;
    let made = operator.write_stage(None, MoveId::new(1), WholeStage::before(0), false);
    made.await.expect("an operator's cell").expect("the first");
    let value = operator.old.coordinator.shared_value("v").expect("a good key");
    let error = value.write(b"x").await.expect_err("no operator's");
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
}

/// Without the cell no client could know that the new side's values are copies.
#[tokio::test(start_paused = true)]
async fn failed_restart_keeps_a_cell_that_records_copies() {
    let bed = Bed::new();
    let operator = bed.operator().await;
    let plain = bed.plain_on_old("before").await.expect("no move yet");
    plain.counter("visits").expect("a good key").add(3).await.expect("added");
    plain.close().await.expect("closed");
    let one = bed.member("one").await.follows();
    while operator.advance(ignored).await.expect("a step") != New {}
    while state(&operator).await.1 != Old {
        operator.step_back(ignored).await.expect("a step back");
    }
    // A client that will be refused is registered for an instant, before it reads the marker.
    let read = operator.old.stamped().await.expect("read");
    operator.old.mark(&read, None).await.expect("answered").expect("no other client writes it");
    let forgotten = bed.plain_on_old("forgotten").await.expect("it is open");
    let error = operator.start(ignored).await.expect_err("a plain client is there");
    assert!(error.to_string().contains("forgotten"), "{error}");
    forgotten.close().await.expect("closed");
    assert_eq!(state(&operator).await, (MoveState::Begun, Old));
    operator.abort(ignored).await.expect("taken back");
    let behind = bed.plain_on_new("behind").await.expect("it is open");
    assert_eq!(behind.counter("visits").expect("a good key").get().await.expect("read"), 0, "no copy stays");
    one.leaves().await;
}

async fn first_stage(operator: &Move) -> Staged {
    let looked = operator.look(None, ListValues::Never).await.expect("read");
    operator.first_stage(&looked).await.expect("made").expect("by this one")
}
