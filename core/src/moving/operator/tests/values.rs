use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{Bed, LONG, ignored, state};
use crate::address::{Address, Kind, Namespace};
use crate::contracts::{CellLife, CellWrite, Expected};
use crate::coordinator::Coordinator;
use crate::decide::moving::MovePhase::{BothByOld, Done, New, Old};
use crate::decide::moving::Side;
use crate::error::ErrorKind;
use crate::moving::operator::{MoveBlocker, MoveProgress, MoveState};
use crate::recipes::Compared;

#[derive(Debug, Default)]
struct Used {
    ids: Vec<u64>,
    set: u64,
}

/// Adds, takes ids, and counts a value up by comparison, until `ends` is set.
async fn uses(of: Coordinator, added: Arc<AtomicI64>, ends: Arc<AtomicBool>) -> Used {
    let (counter, ids) = (of.counter("visits").unwrap(), of.id_generator("orders").unwrap());
    let value = of.shared_value("height").unwrap();
    let mut done = Used::default();
    while !ends.load(Ordering::SeqCst) {
        let before = added.load(Ordering::SeqCst);
        let count = counter.add(1).await.expect("added");
        assert!(count > before, "{count} behind {before}");
        added.fetch_max(count, Ordering::SeqCst);
        done.ids.push(ids.next_id().await.expect("an id"));
        let read = value.read().await.expect("read");
        let height: u64 =
            read.as_ref().map_or(0, |cell| String::from_utf8_lossy(&cell.value).parse().unwrap());
        let expected = read.map_or(Expected::Absent, |cell| Expected::Version(cell.version));
        match value.compare_and_set(expected, (height + 1).to_string()).await.expect("answered") {
            Compared::Stored(_) => done.set += 1,
            Compared::Differs(_) => {}
        }
        sleep(Duration::from_millis(7)).await;
    }
    of.close().await.expect("closed");
    done
}

#[tokio::test(start_paused = true)]
async fn values_are_used_throughout_while_they_move_there_and_back() {
    let bed = Bed::new();
    let (added, ends) = (Arc::<AtomicI64>::default(), Arc::<AtomicBool>::default());
    let mut users = JoinSet::new();
    for at in 0..3 {
        let participant = bed.participant(&format!("user {at}")).await;
        users.spawn(uses(participant, Arc::clone(&added), Arc::clone(&ends)));
    }
    let waits = bed.participant("waits").await;
    let latch = waits.count_down_latch("gate", 2).unwrap();
    let counts = waits.count_down_latch("gate", 2).unwrap();
    let opened = tokio::spawn(async move { latch.wait().await });
    let operator = bed.operator().await;
    let mut moved = 0;
    for round in 0..3 {
        while operator
            .advance(|of| moved += usize::from(matches!(of, MoveProgress::ValuesMoved(_))))
            .await
            .unwrap()
            != New
        {
            sleep(Duration::from_millis(100)).await;
        }
        if round < 2 {
            assert_eq!(counts.count_down().await.unwrap(), 1 - round);
        }
        while operator.step_back(ignored).await.unwrap() != Some(Old) {
            sleep(Duration::from_millis(100)).await;
        }
    }
    timeout(LONG, opened).await.expect("it has opened").unwrap().unwrap();
    operator.run(ignored).await.unwrap();
    ends.store(true, Ordering::SeqCst);
    let (mut ids, mut set, mut all) = (Vec::new(), 0, 0);
    while let Some(done) = users.join_next().await {
        let done = done.expect("no panic");
        all += done.ids.len();
        ids.extend(done.ids);
        set += done.set;
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((moved, ids.len()), (3, all), "each id once");
    waits.close().await.unwrap();
    operator.finish().await.unwrap();
    let plain = bed.plain_on_new("behind").await.unwrap();
    assert!(all > 100);
    assert_eq!(plain.counter("visits").unwrap().get().await.unwrap(), i64::try_from(all).unwrap());
    let height = plain.shared_value("height").unwrap().read().await.unwrap().expect("it stands");
    assert_eq!(*height.value, *set.to_string().as_bytes());
    assert!(operator.old.values_in_use().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn requests_wait_while_values_are_copied_and_an_operator_who_stays_away_is_named() {
    let bed = Bed::new();
    let one = bed.participant("one").await;
    let counter = one.counter("visits").unwrap();
    assert_eq!(counter.add(1).await.unwrap(), 1);
    let operator = bed.operator().await;
    operator.start(ignored).await.unwrap();
    // The operator dies after it has frozen the values.
    let frozen = operator.advance(|of| assert!(!matches!(of, MoveProgress::ValuesWait), "frozen"));
    let frozen = std::panic::AssertUnwindSafe(frozen);
    let died = futures_util::FutureExt::catch_unwind(frozen).await;
    assert!(died.is_err());
    assert_eq!(operator.status().await.unwrap().values.as_str(), "leaving-old");
    sleep(Duration::from_secs(1)).await;
    let error = counter.add(1).await.expect_err("they are to be copied");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("moved"), "{error}");
    // Frozen values do not affect locks.
    let hold = one.mutex("a").unwrap().acquire().await.unwrap();
    hold.release().await.unwrap();
    // Participants use the values on their side.
    operator.step_back(ignored).await.unwrap();
    assert_eq!(counter.add(1).await.unwrap(), 2);
    let another = bed.operator().await;
    let waiting = tokio::spawn({
        let counter = one.counter("visits").unwrap();
        async move { counter.add(1).await }
    });
    another.run(ignored).await.unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(counter.get().await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_move_onto_values_does_not_begin_and_one_that_was_given_up_leaves_none() {
    let bed = Bed::new();
    let plain = bed.plain_on_new("owner").await.unwrap();
    plain.counter("visits").unwrap().add(5).await.unwrap();
    plain.close().await.unwrap();
    let operator = bed.operator().await;
    let member = bed.member("member").await.follows();
    let plan = operator.plan().await.unwrap();
    assert!(matches!(&plan.blockers[..], [MoveBlocker::ValuesThere(of)] if of[0].keys == ["visits"]));
    assert_eq!((plan.values[0].side, plan.values[0].kind), ("new", "counter"));
    let error = operator.start(ignored).await.expect_err("they would be lost");
    assert!(error.to_string().contains("counter \"visits\""), "{error}");
    assert_eq!(state(&operator).await, (MoveState::NotBegun, Old));
    let plain = bed.plain_on_new("owner").await.unwrap();
    assert!(plain.counter("visits").unwrap().delete().await.unwrap());
    plain.close().await.unwrap();
    member.leaves().await;
    // The move's own copies do not block the second way there.
    let one = bed.participant("one").await;
    let counter = one.counter("visits").unwrap();
    counter.add(2).await.unwrap();
    while operator.advance(ignored).await.unwrap() != New {}
    while operator.step_back(ignored).await.unwrap() != Some(Old) {}
    assert!(operator.plan().await.unwrap().blockers.is_empty());
    assert_eq!(operator.start(ignored).await.unwrap(), BothByOld);
    assert_eq!(counter.add(2).await.unwrap(), 4);
    while operator.advance(ignored).await.unwrap() != New {}
    operator.abort(ignored).await.unwrap();
    assert_eq!(state(&operator).await, (MoveState::NotBegun, Old));
    assert!(operator.new.values_in_use().await.unwrap().is_empty());
    assert_eq!(counter.add(2).await.unwrap(), 6);
}

/// The error names no other operator, also after several tries.
#[tokio::test(start_paused = true)]
async fn uncopyable_value_is_named_and_others_work_after_an_abort() {
    let bed = Bed::new();
    let (foreign, _link) = bed.stores.old.client(&bed.config.from).unwrap();
    let leased = Address::new(&Namespace::new("a").text, Kind::Value, "leased").unwrap();
    let write = CellWrite { expected: Expected::Any, value: Some(b"x"[..].into()), life: CellLife::Lease };
    foreign.write_cell(&leased, &write).await.unwrap();
    let one = bed.participant("one").await;
    let counter = one.counter("visits").unwrap();
    let operator = bed.operator().await;
    let ran = timeout(LONG, operator.run(ignored)).await.expect("it ends");
    let error = ran.expect_err("it cannot be copied");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("leased") && error.to_string().contains("abort"), "{error}");
    operator.abort(ignored).await.unwrap();
    assert_eq!(state(&operator).await, (MoveState::NotBegun, Old));
    assert_eq!(counter.add(1).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_listing_of_values_is_of_the_side_that_has_them_under_the_old_names() {
    let bed = Bed::new();
    let one = bed.participant("one").await;
    for key in ["a", "b", "c"] {
        one.shared_value(key).unwrap().write(key).await.unwrap();
    }
    let operator = bed.operator().await;
    let names = async || -> Vec<String> {
        let listed = one.list(Kind::Value, "").unwrap().all().await.unwrap();
        let mut names: Vec<_> = listed.into_iter().map(|of| of.address.to_string()).collect();
        names.sort();
        names
    };
    let before = names().await;
    assert_eq!(before.len(), 3);
    operator.run(ignored).await.unwrap();
    assert_eq!(names().await, before);
    assert_eq!(state(&operator).await, (MoveState::Done, Done));
    assert_eq!(operator.side(Side::New).values_in_use().await.unwrap()[0].keys.len(), 3);
}
