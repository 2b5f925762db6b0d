use std::time::{Duration, SystemTime};

use futures_util::future::{join, join_all};
use tokio::time::timeout;

use super::mortal::{Last, Life};
use super::{Bed, ignored, state};
use crate::contracts::{CellLife, CellWrite, Expected};
use crate::decide::moving::MovePhase::{BothByNew, BothByOld, Done, New, Old};
use crate::error::ErrorKind;
use crate::moving::operator::{MoveProgress, MoveState};

#[tokio::test(start_paused = true)]
async fn finished_move_redirects_clients_of_the_old_side() {
    let bed = Bed::new();
    let members = [bed.member("one").await.follows(), bed.member("two").await.follows()];
    let operator = bed.operator().await;
    let mut reached = Vec::new();
    let run = operator.run(|progress| {
        if let MoveProgress::Reached(phase) = progress {
            reached.push(*phase);
        }
    });
    run.await.expect("made");
    assert_eq!(reached, [BothByOld, BothByNew, New, Done]);
    assert_eq!(state(&operator).await, (MoveState::Done, Done));
    operator.run(ignored).await.expect("it is made");
    let error = operator.abort(ignored).await.expect_err("it is final");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let error = operator.finish().await.expect_err("members are connected");
    assert!(error.to_string().contains("\"one\"") && error.to_string().contains("\"two\""), "{error}");
    assert_eq!(state(&operator).await, (MoveState::Done, Done));
    bed.member("three, late").await.leaves().await;
    for member in members {
        member.leaves().await;
    }
    for _ in 0..2 {
        operator.finish().await.expect("they have left");
        assert_eq!(state(&operator).await, (MoveState::Finished, Done));
    }
    let error = bed.plain_on_old("forgotten").await.expect_err("it has moved");
    assert!(error.to_string().contains("memory://new?namespace=b"), "{error}");
    bed.plain_on_new("current").await.expect("it is in use");
    assert_eq!(operator.start(ignored).await.expect("it is made"), Done);
    operator.run(ignored).await.expect("it is made");
    assert_eq!(operator.plan().await.expect("readable").blockers, []);
}

#[tokio::test(start_paused = true)]
async fn a_step_waits_for_the_member_that_is_late_and_goes_on_at_its_acknowledgement() {
    let bed = Bed::new();
    let (willing, late) = (bed.member("willing").await.follows(), bed.member("late").await);
    let operator = bed.operator().await;
    let mut told = Vec::new();
    let start = timeout(
        Duration::from_secs(3600),
        operator.start(|progress| {
            if let MoveProgress::Waits(status) = progress {
                let labels: Vec<_> = status.waits_for.iter().map(|late| late.label.clone()).collect();
                told.push((status.phase, labels));
            }
        }),
    );
    start.await.expect_err("it waits for as long as the member is late");
    assert_eq!(told.last(), Some(&(Old, vec!["late".to_owned()])));
    let status = operator.status().await.expect("readable");
    assert_eq!((status.state, status.phase, status.members), (MoveState::Begun, Old, 2));
    assert_eq!(status.waits_for.len(), 1);
    assert!(!status.waits_for[0].knows_the_move && status.since.is_some());
    // An event wakes it: the next re-check is seconds away.
    let begun = tokio::time::Instant::now();
    let waits = async {
        tokio::task::yield_now().await;
        late.acknowledges().await;
    };
    let (phase, ()) = futures_util::future::join(operator.start(ignored), waits).await;
    assert_eq!(phase.expect("acknowledged"), BothByOld);
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    // The operator waits until a dead member's lease ends.
    late.leaves().await;
    assert_eq!(operator.advance(ignored).await.expect("it has left"), BothByNew);
    willing.leaves().await;
}

#[tokio::test(start_paused = true)]
async fn operator_that_waits_for_many_members_lists_all_clients_for_none_of_them() {
    let bed = Bed::new();
    let life = Life::new(Last::Lost);
    let operator = bed.mortal(&life, i64::MAX).await;
    let members = join_all((0..20).map(|of| {
        let (bed, label) = (&bed, format!("member-{of}"));
        async move { bed.member(&label).await }
    }));
    let members = members.await;
    let acknowledges = async {
        for member in &members {
            tokio::time::sleep(Duration::from_millis(50)).await;
            member.acknowledges().await;
        }
    };
    let (phase, ()) = join(operator.advance(ignored), acknowledges).await;
    assert_eq!(phase.expect("acknowledged"), BothByOld);
    // A look at all clients costs five more requests.
    assert!(life.spent() < 4 * 20 + 50, "{}", life.spent());
    for member in members {
        member.leaves().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_move_is_taken_back_step_by_step_and_plain_clients_give_tokens_above_all_of_it() {
    let bed = Bed::new();
    let before = bed.plain_on_old("before").await.expect("connected");
    let token = |of: &crate::Coordinator| {
        let mutex = of.mutex("a").expect("a good key");
        async move {
            let hold = mutex.acquire().await.expect("free");
            let token = crate::Fenced::token(&hold);
            hold.release().await.expect("released");
            token
        }
    };
    let first = token(&before).await;
    before.close().await.expect("closed");
    let (member, operator) = (bed.member("one").await.follows(), bed.operator().await);
    for (phase, epoch) in [(BothByOld, 0), (BothByNew, 1), (New, 1)] {
        assert_eq!(operator.advance(ignored).await.expect("a step"), phase);
        assert_eq!(operator.status().await.expect("readable").epoch, epoch);
        for refused in [bed.plain_on_old("plain").await, bed.plain_on_new("plain").await] {
            assert_eq!(refused.map(drop).expect_err("it moves").kind(), ErrorKind::Misconfigured);
        }
    }
    for (phase, epoch) in [(BothByNew, 1), (BothByOld, 2), (Old, 2)] {
        assert_eq!(operator.step_back(ignored).await.expect("a step"), Some(phase));
        assert_eq!(operator.status().await.expect("readable").epoch, epoch);
    }
    assert_eq!(operator.step_back(ignored).await.expect("given up"), None);
    assert_eq!(state(&operator).await, (MoveState::NotBegun, Old));
    operator.abort(ignored).await.expect("nothing is left");
    let (old, new) = (bed.plain_on_old("plain").await, bed.plain_on_new("plain").await);
    let (old, new) = (old.expect("it is open"), new.expect("it is open"));
    let behind = token(&old).await;
    assert!(behind > first && behind.epoch() == 2, "{behind} behind {first}");
    // Tokens of another move of this name, and of plain clients, are above that epoch.
    for client in [old, new] {
        client.close().await.expect("closed");
    }
    operator.run(ignored).await.expect("made");
    let new = bed.plain_on_new("plain").await.expect("it is in use");
    let last = token(&new).await;
    assert!(last > behind && last.epoch() == 3, "{last} behind {behind}");
    member.leaves().await;
}

#[tokio::test(start_paused = true)]
async fn two_operators_at_once_make_one_move() {
    let bed = Bed::new();
    let member = bed.member("one").await.follows();
    let (one, other) = (bed.operator().await, bed.operator().await);
    let (first, second) = futures_util::future::join(one.run(ignored), other.run(ignored)).await;
    first.and(second).expect("both are answered when it is made");
    let status = one.status().await.expect("readable");
    assert_eq!((status.phase, status.epoch), (Done, 1));
    member.leaves().await;
    let (first, second) = futures_util::future::join(one.finish(), other.finish()).await;
    first.and(second).expect("both");
}

#[tokio::test(start_paused = true)]
async fn rewritten_phase_keeps_its_start_time() {
    let (bed, long_ago) = (Bed::new(), SystemTime::UNIX_EPOCH + Duration::from_secs(5));
    let one = bed.member("one").await.follows();
    let operator = bed.operator().await;
    operator.start(ignored).await.expect("begun");
    let staged = operator.stage().await.expect("read").expect("it stands");
    let (backend, cell) = (operator.old.backend(), &operator.place.stage);
    let text = backend.read_cell(cell).await.expect("read").expect("it stands").value;
    let text = String::from_utf8(text.to_vec()).expect("text");
    let (since, rest) =
        (text.find("since=").expect("it says so"), text.rfind(|of: char| !of.is_ascii_digit()));
    assert_eq!(rest, Some(since + 5), "the last field: {text}");
    let value = Some(format!("{}since=5", &text[..since]).into_bytes().into());
    let write = CellWrite { expected: Expected::Version(staged.version), value, life: CellLife::Stays };
    backend.write_cell(cell, &write).await.expect("written");
    let read = operator.stage().await.expect("read").expect("it stands");
    operator.write_anew(&read).await.expect("answered").expect("no other client writes it");
    assert_eq!(operator.status().await.expect("readable").since, Some(long_ago));
    operator.advance(ignored).await.expect("a step");
    assert!(operator.status().await.expect("readable").since > Some(long_ago));
    one.leaves().await;
}
