//! Sides that other clients do not have, and sides that lose data.

use std::time::Duration;

use tokio::time::timeout;

use super::{Bed, LONG, goes_to, ignored, state};
use crate::config::{Config, MoveConfig};
use crate::connect::connect;
use crate::coordinator::Coordinator;
use crate::decide::moving::MovePhase::{BothByNew, BothByOld, Done, New, Old};
use crate::decide::moving::Side;
use crate::decide::moving::evidence::Contradiction;
use crate::error::{Error, ErrorKind, Result};
use crate::moving::operator::{Move, MoveBlocker, MoveState};

impl Bed {
    fn with(&self, change: impl FnOnce(&mut MoveConfig)) -> Bed {
        let mut config = self.config.clone();
        change(&mut config);
        Bed { stores: self.stores.clone(), config }
    }

    async fn tries(&self, label: &str) -> Result<Coordinator> {
        let config = Config { label: Some(label.to_owned()), ..Config::of_move(self.config.clone()) };
        connect(&self.connectors(), &config).await
    }
}

async fn refused(of: &Move) -> [Error; 2] {
    let run = timeout(LONG, of.run(ignored)).await.expect("it ends");
    let abort = timeout(LONG, of.abort(ignored)).await.expect("it ends");
    [run.expect_err("a blocker"), abort.expect_err("a blocker")]
}

async fn locks(of: &Coordinator) -> Result<crate::Token> {
    let hold = of.mutex("a").expect("a good key").acquire().within(Duration::from_secs(60)).await?;
    let token = crate::Fenced::token(&hold);
    hold.release().await?;
    Ok(token)
}

#[tokio::test(start_paused = true)]
async fn participant_with_another_new_side_keeps_a_move_from_beginning() {
    let bed = Bed::new();
    let elsewhere = bed.with(|config| config.to.namespace = "elsewhere".to_owned());
    let (right, wrong) = (bed.participant("right").await, elsewhere.participant("wrong").await);
    let operator = bed.operator().await;
    let blockers = operator.plan().await.expect("read").blockers;
    let [MoveBlocker::Apart(apart)] = &blockers[..] else { panic!("{blockers:?}") };
    assert_eq!((&*apart[0].label, apart[0].lacks()), ("wrong", Some("not connected to the new side")));
    let error = operator.run(ignored).await.expect_err("it is elsewhere");
    assert!(error.to_string().contains("\"wrong\""), "{error}");
    assert_eq!(state(&operator).await, (MoveState::NotBegun, Old), "nothing was written");
    wrong.close().await.expect("closed");
    operator.start(ignored).await.expect("it is gone");
    // During the move it cannot connect.
    let error = elsewhere.tries("wrong").await.expect_err("another new side");
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("`to`"), "{error}");
    operator.run(ignored).await.expect("made");
    locks(&right).await.expect("free");
    right.close().await.expect("closed");
}

/// It is named while it is connected, and acknowledges nothing.
#[tokio::test(start_paused = true)]
async fn step_waits_for_a_participant_that_comes_with_another_new_side() {
    let bed = Bed::new();
    let elsewhere = bed.with(|config| config.to.namespace = "elsewhere".to_owned());
    let (right, late) = (bed.participant("right").await, bed.member("late").await);
    let operator = bed.operator().await;
    timeout(LONG, operator.start(ignored)).await.expect_err("it waits for the late member");
    let wrong = elsewhere.participant("wrong").await;
    late.acknowledges().await;
    let mut told = Vec::new();
    let waits = operator.start(|progress| {
        if let crate::moving::operator::MoveProgress::Waits(status) = progress {
            told = status.waits_for.iter().map(|of| (of.label.clone(), of.lacks)).collect();
        }
    });
    timeout(LONG, waits).await.expect_err("it waits for the wrong one");
    assert!(told.contains(&("wrong".to_owned(), Some("not connected to the new side"))), "{told:?}");
    let leaves = async {
        tokio::task::yield_now().await;
        wrong.close().await.expect("closed");
    };
    let (started, ()) = tokio::join!(operator.start(ignored), leaves);
    assert_eq!(started.expect("it is gone"), BothByOld);
    late.leaves().await;
    right.close().await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn operator_with_other_sides_than_the_services_begins_nothing() {
    let bed = Bed::new();
    let one = bed.participant("one").await;
    one.counter("visits").expect("a good key").add(3).await.expect("added");
    let exchanged = bed.with(|config| std::mem::swap(&mut config.from, &mut config.to));
    let elsewhere = bed.with(|config| config.to.namespace = "elsewhere".to_owned());
    let nowhere = bed.with(|config| {
        config.from.namespace = "nowhere".to_owned();
        config.to.namespace = "elsewhere".to_owned();
    });
    for (of, lacks) in [
        (&exchanged, Some("no member yet")),
        (&elsewhere, Some("not connected to the new side")),
        (&nowhere, None),
    ] {
        let operator = of.operator().await;
        let blockers = operator.plan().await.expect("read").blockers;
        let found = match blockers.first() {
            Some(MoveBlocker::Apart(apart)) => apart[0].lacks(),
            Some(MoveBlocker::NobodyTakesPart) => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(found, lacks);
        let error = operator.run(ignored).await.expect_err("other sides");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert_eq!(state(&operator).await, (MoveState::NotBegun, Old));
    }
    // During the move it finds the other move's markers.
    let operator = bed.operator().await;
    goes_to(&operator, BothByNew).await;
    for of in [&exchanged, &elsewhere] {
        let other = of.operator().await;
        assert_eq!(state(&other).await.0, MoveState::Elsewhere);
        for error in refused(&other).await {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        }
    }
    operator.run(ignored).await.expect("made");
    assert_eq!(one.counter("visits").expect("a good key").get().await.expect("read"), 3);
    one.close().await.expect("closed");
}

/// No client holds on the old side next to holders on the new side.
#[tokio::test(start_paused = true)]
async fn old_side_that_restarts_empty_stops_its_clients_until_a_repair() {
    for phase in [BothByOld, BothByNew, New] {
        let bed = Bed::new();
        let one = bed.participant("one").await;
        goes_to(&bed.operator().await, phase).await;
        let before = locks(&one).await.expect("free");
        bed.stores.old.wipe();
        let error = bed.tries("another").await.expect_err("the stage is lost");
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{phase}: {error}");
        assert!(error.to_string().contains("migrate repair"), "{error}");
        let error = locks(&one).await.expect_err("the stage is lost");
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{phase}: {error}");
        let operator = bed.operator().await;
        assert_eq!(state(&operator).await, (MoveState::Lost, phase));
        let blockers = operator.plan().await.expect("read").blockers;
        assert_eq!(blockers[0], MoveBlocker::Contradicts(Contradiction::StageLost), "{phase}");
        for error in refused(&operator).await {
            assert!(error.to_string().contains("migrate repair"), "{error}");
        }
        assert_eq!(operator.repair().await.expect("restored"), [Side::Old], "{phase}");
        assert_eq!(state(&operator).await, (MoveState::Begun, phase));
        let after = locks(&one).await.expect("restored");
        assert!(phase == BothByOld || after > before, "{phase}: {after} {before}");
        operator.run(ignored).await.expect("it goes on");
        locks(&one).await.expect("free");
        one.close().await.expect("closed");
    }
}

#[tokio::test(start_paused = true)]
async fn clients_of_a_move_that_is_done_need_no_stage() {
    let bed = Bed::new();
    let one = bed.participant("one").await;
    bed.operator().await.run(ignored).await.expect("made");
    let hold = one.mutex("a").expect("a good key").acquire().await.expect("free");
    one.counter("visits").expect("a good key").add(2).await.expect("added");
    bed.stores.old.wipe();
    let another = bed.tries("another").await.expect("it is done");
    assert!(another.mutex("a").expect("a good key").try_acquire().await.expect("answered").is_none());
    assert_eq!(another.counter("visits").expect("a good key").add(2).await.expect("added"), 4);
    let token = crate::Fenced::token(&hold);
    hold.release().await.expect("released");
    assert!(locks(&another).await.expect("free") > token);
    let operator = bed.operator().await;
    assert_eq!(state(&operator).await, (MoveState::Lost, Done));
    assert_eq!(operator.repair().await.expect("restored"), [Side::Old]);
    one.close().await.expect("closed");
    another.close().await.expect("closed");
    operator.finish().await.expect("finished");
    bed.plain_on_old("late").await.expect_err("it is retired");
}

/// No call waits for members that know a later stage than the old side shows.
#[tokio::test(start_paused = true)]
async fn old_side_that_restarts_from_a_copy_stops_its_clients_until_a_repair() {
    for (copied, phase) in [(Old, BothByOld), (BothByOld, BothByNew), (BothByNew, New), (BothByOld, New)] {
        let bed = Bed::new();
        let one = bed.participant("one").await;
        let operator = bed.operator().await;
        if copied == Old {
            // The member has acknowledged the first stage.
            let late = bed.member("late").await;
            timeout(LONG, operator.start(ignored)).await.expect_err("it waits for the late member");
            late.leaves().await;
        } else {
            goes_to(&operator, copied).await;
            operator.status().await.expect("read");
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let copy = bed.stores.old.copy();
        goes_to(&operator, phase).await;
        // A client that does not know the phase yet goes back with the old side.
        while !operator.status().await.expect("read").waits_for.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        locks(&one).await.expect("free");
        bed.stores.old.go_back(&copy);
        // It has lost its membership by then.
        tokio::time::sleep(2 * one.lease().ttl()).await;
        let error = locks(&one).await.expect_err("the stage went back");
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{copied} {phase}: {error}");
        let operator = bed.operator().await;
        for error in refused(&operator).await {
            assert!(error.to_string().contains("migrate repair"), "{copied} {phase}: {error}");
        }
        assert_eq!(operator.repair().await.expect("restored"), [Side::Old], "{copied} {phase}");
        assert_eq!(state(&operator).await, (MoveState::Begun, phase), "{copied}");
        locks(&one).await.expect("restored");
        operator.abort(ignored).await.expect("it goes back");
        locks(&one).await.expect("free");
        one.close().await.expect("closed");
    }
}

#[tokio::test(start_paused = true)]
async fn only_copy_of_values_is_kept_when_the_new_side_restarts_empty() {
    for phase in [BothByNew, New] {
        let bed = Bed::new();
        let one = bed.participant("one").await;
        one.counter("visits").expect("a good key").add(500).await.expect("added");
        goes_to(&bed.operator().await, phase).await;
        bed.stores.new.wipe();
        let error = locks(&one).await.expect_err("the record is lost");
        assert!(matches!(error.kind(), ErrorKind::Misconfigured | ErrorKind::Lost(_)), "{phase}: {error}");
        let operator = bed.operator().await;
        for error in refused(&operator).await {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{phase}: {error}");
        }
        let error = operator.repair().await.expect_err("the only copy");
        assert!(error.to_string().contains("only copy"), "{phase}: {error}");
        let blockers = operator.plan().await.expect("read").blockers;
        assert_eq!(blockers[0], MoveBlocker::OnlyCopy(Contradiction::RecordLost), "{phase}");
        assert_eq!(operator.old.values_in_use().await.expect("listed")[0].keys, ["visits"]);
        one.close_now().await.expect("closed");
    }
}

#[tokio::test(start_paused = true)]
async fn new_side_that_restarts_empty_before_values_moved_is_repaired() {
    let bed = Bed::new();
    let one = bed.participant("one").await;
    one.counter("visits").expect("a good key").add(5).await.expect("added");
    goes_to(&bed.operator().await, BothByOld).await;
    bed.stores.new.wipe();
    let operator = bed.operator().await;
    for error in refused(&operator).await {
        assert!(error.to_string().contains("migrate repair"), "{error}");
    }
    assert_eq!(operator.repair().await.expect("restored"), [Side::New]);
    operator.run(ignored).await.expect("it goes on");
    assert_eq!(one.counter("visits").expect("a good key").get().await.expect("read"), 5);
    one.close().await.expect("closed");
}
