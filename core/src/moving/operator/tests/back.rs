use super::{Bed, ignored, state};
use crate::config::{Config, MoveConfig};
use crate::connect::connect;
use crate::coordinator::operator::marker_of;
use crate::decide::moving::MovePhase::{Done, Old};
use crate::decide::moving::Side;
use crate::decide::moving::gate::Course;
use crate::error::ErrorKind;
use crate::moving::operator::{Move, MoveBlocker, MoveState};

fn back(bed: &Bed) -> MoveConfig {
    MoveConfig::new(bed.config.to.clone(), bed.config.from.clone(), "back")
}

#[tokio::test(start_paused = true)]
async fn a_side_that_a_finished_move_has_retired_is_reopened_for_the_way_back() {
    let bed = Bed::new();
    let there = bed.operator().await;
    bed.moves(&there).await;
    there.finish().await.expect("finished");
    let operator = Move::connect(&bed.connectors(), &back(&bed)).await.expect("connected");
    let blockers = operator.plan().await.expect("readable").blockers;
    assert!(
        matches!(&blockers[..], [MoveBlocker::MarkedOtherwise { side: Side::New, name: None, .. }, ..]),
        "{blockers:?}"
    );
    assert!(blockers[0].next_step().contains("migrate reopen"));
    // The old side was retired in favour of the side with the locks, and only that side can reopen it.
    let elsewhere = Config { namespace: "elsewhere".to_owned(), ..bed.config.to.clone() };
    let other = MoveConfig::new(elsewhere, bed.config.from.clone(), "back");
    let other = Move::connect(&bed.connectors(), &other).await.expect("connected");
    let error = other.reopen().await.expect_err("retired in favour of another");
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Conflict, Some("reopen")), "{error}");
    assert!(operator.reopen().await.expect("reopened"));
    assert!(!operator.reopen().await.expect("it is open"));
    let participant = connect(&bed.connectors(), &Config::of_move(back(&bed))).await.expect("it takes part");
    operator.run(ignored).await.expect("made");
    assert_eq!(state(&operator).await, (MoveState::Done, Done));
    let token = participant.mutex("a").expect("a good key").acquire().await.expect("acquired").token();
    assert_eq!(token.epoch(), 2);
    participant.close().await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn side_of_a_move_under_way_is_not_reopened() {
    let bed = Bed::new();
    let there = bed.operator().await;
    let one = bed.member("one").await.follows();
    there.start(ignored).await.expect("begun");
    let operator = Move::connect(&bed.connectors(), &back(&bed)).await.expect("connected");
    let error = operator.reopen().await.expect_err("it moves");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    one.leaves().await;
}

#[tokio::test(start_paused = true)]
async fn a_plan_of_a_move_that_is_done_names_who_is_on_the_old_side_still() {
    let bed = Bed::new();
    let (operator, member) = (bed.operator().await, bed.participant("one").await);
    operator.run(ignored).await.expect("made");
    let plain = bed.plain_on_new("current").await.expect("it is in use");
    let plan = operator.plan().await.expect("readable");
    assert_eq!((&plan.outsiders[..], &plan.status.waits_for[..]), (&[][..], &[][..]));
    let [MoveBlocker::StillConnected(left)] = &plan.blockers[..] else { panic!("{:?}", plan.blockers) };
    assert_eq!(left.iter().map(|left| &*left.client.label).collect::<Vec<_>>(), ["one"]);
    member.close().await.expect("closed");
    assert_eq!(operator.plan().await.expect("readable").blockers, []);
    operator.finish().await.expect("finished");
    plain.close().await.expect("closed");
}

/// Otherwise the first side would list it until its lease ends, and a plan would name it.
#[tokio::test(start_paused = true)]
async fn a_client_of_both_sides_that_one_side_refuses_leaves_the_other_at_once() {
    let bed = Bed::new();
    let operator = bed.operator().await;
    bed.moves(&operator).await;
    operator.finish().await.expect("finished");
    let config = Config::of_move(bed.config.clone());
    let error = connect(&bed.connectors(), &config).await.expect_err("the old side is retired");
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    let listed = operator.new.clients().await.expect("listed");
    assert_eq!(listed.len(), 1, "{listed:?}");
}

#[tokio::test(start_paused = true)]
async fn refused_client_learns_both_urls_and_member_reads_the_mark_of_the_old_side() {
    let bed = Bed::new();
    let (operator, member) = (bed.operator().await, bed.participant("one").await);
    assert_eq!(marker_of(&member).await.expect("readable"), None);
    operator.start(ignored).await.expect("begun");
    let marker = marker_of(&member).await.expect("readable").expect("it moves");
    assert_eq!((marker.course, marker.name.as_deref()), (Course::Leaves, Some("m")));
    for (refused, parts) in [
        (bed.plain_on_old("late").await, ["from=<this one>&to=memory://new?namespace=b", "&move=m"]),
        (bed.plain_on_new("early").await, ["from=memory://old?namespace=a", "&to=<this one>&move=m"]),
    ] {
        let text = refused.expect_err("it takes no part").to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
    member.close().await.expect("closed");
    operator.abort(ignored).await.expect("given up");
    assert_eq!(state(&operator).await, (MoveState::NotBegun, Old));
}

/// Two operators finish the move. The first made its check before the second found a plain client.
#[tokio::test(start_paused = true)]
async fn one_who_may_not_finish_takes_the_stage_from_one_who_has_looked_before() {
    let bed = Bed::new();
    let (first, second) = (bed.operator().await, bed.operator().await);
    bed.moves(&first).await;
    let seen = first.stage().await.expect("read").expect("it is done");
    let read = first.old.stamped().await.expect("read");
    let late = bed.participant("late").await;
    first
        .old
        .mark(&read, Some(&first.retired()))
        .await
        .expect("answered")
        .expect("no other client writes it");
    let error = second.finish().await.expect_err("somebody is there");
    assert!(error.to_string().contains("late"), "{error}");
    assert!(!seen.delete(first.old.backend(), &first.place).await.expect("answered"), "it stands, anew");
    assert_eq!(state(&second).await, (MoveState::Done, Done));
    late.close().await.expect("closed");
    first.finish().await.expect("nobody is there");
}
