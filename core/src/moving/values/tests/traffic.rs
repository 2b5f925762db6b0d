//! Adds and reads, while values move there and back.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use super::operator::Operator;
use super::participant::Participant;
use super::{TTL, World, read_stage, value};
use crate::address::{Address, Kind};
use crate::contracts::{Backend, CellLife, CellWrite, CellWritten, Expected, TimeToIdle};
use crate::decide::count::request::{Outcome, Request};
use crate::decide::count::{Change, Count, Operation};
use crate::decide::moving::values::{ValuesAt, WholeStage};
use crate::decide::moving::{MovePhase, Side, Way};
use crate::error::ErrorKind;
use crate::memory::Link;
use crate::moving::values::cells::MovingCells;
use crate::moving::values::mirror::Progress;

const PARTICIPANTS: u64 = 4;
const ADDS: u64 = 60;

/// SplitMix64: each seed is one order of events.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % bound
    }

    async fn pause(&mut self, most: u64) {
        tokio::time::sleep(Duration::from_millis(self.below(most))).await;
    }
}

/// What was confirmed or read: no read that begins later shows less.
#[derive(Default)]
struct Seen(AtomicI64);

async fn adds(
    cells: Arc<MovingCells>,
    cell: Address,
    writer: u64,
    seen: Arc<Seen>,
    confirmed: Arc<AtomicU64>,
) {
    let mut random = Random(writer);
    let mut since = None;
    for number in 1..=ADDS {
        let operation = Operation { writer, number: 2 * number };
        let mut request =
            Request { change: Change::Add(1), operation, initial: None, since, in_doubt: false };
        loop {
            match cells.change_count(&cell, &request, None).await {
                Ok(decided) => {
                    since = Some(decided.writes);
                    let Outcome::Applied(sum) = decided.outcome else { panic!("{request:?}: {decided:?}") };
                    confirmed.fetch_add(1, Ordering::SeqCst);
                    seen.0.fetch_max(sum, Ordering::SeqCst);
                    break;
                }
                Err(error) => {
                    assert!(error.is_retryable() || *error.kind() == ErrorKind::Unknown, "{error}");
                    request.in_doubt |= *error.kind() == ErrorKind::Unknown;
                    random.pause(20).await;
                }
            }
        }
        random.pause(40).await;
    }
}

async fn reads(cells: Arc<MovingCells>, cell: Address, seed: u64, seen: Arc<Seen>) {
    let mut random = Random(seed);
    loop {
        let before = seen.0.load(Ordering::SeqCst);
        match cells.read_cell(&cell).await {
            Ok(found) => {
                let value = found.map(|cell| cell.value);
                let shown = Count::in_cell(value.as_deref(), None).expect("a count").value();
                assert!(shown >= before, "a read shows {shown}, and {before} was known before it");
                seen.0.fetch_max(shown, Ordering::SeqCst);
            }
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
        random.pause(15).await;
    }
}

/// Lost replies, requests that arrive late, cuts that outlive a lease, leases that are ended.
async fn troubles(links: Vec<[Link; 2]>, seed: u64) {
    let mut random = Random(seed);
    loop {
        random.pause(120).await;
        let link = &links[usize::try_from(random.below(links.len() as u64)).expect("few")]
            [usize::try_from(random.below(2)).expect("few")];
        match random.below(12) {
            0..=3 => link.drop_next_reply(),
            4..=7 => {
                link.park_next_request();
                let late = link.clone();
                let after = Duration::from_millis(random.below(3_000));
                tokio::spawn(async move {
                    tokio::time::sleep(after).await;
                    late.deliver_parked();
                });
            }
            8 => link.lose_lease(),
            9 => {
                link.cut();
                random.pause(2 * u64::try_from(TTL.as_millis()).expect("short")).await;
                link.heal();
            }
            _ => link.delay(Duration::from_millis(random.below(8))),
        }
    }
}

async fn count_on(backend: &dyn Backend, cell: &Address) -> i64 {
    let value = backend.read_cell(cell).await.expect("read").map(|cell| cell.value);
    Count::in_cell(value.as_deref(), None).expect("a count").value()
}

async fn there_and_back(seed: u64, with_troubles: bool) {
    let world = World::new().await;
    let (mut memberships, mut adders, mut others) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
    let (seen, confirmed) = (Arc::<Seen>::default(), Arc::<AtomicU64>::default());
    let cell = value(Kind::Counter, "visits/ü {1}");
    let mut links = Vec::new();
    for at in 0..PARTICIPANTS {
        let participant = Participant::new(&world, &mut memberships);
        for link in &participant.links {
            link.delay(Duration::from_millis(1 + (seed + at) % 5));
        }
        let cells = &participant.cells;
        let writer = seed.wrapping_mul(100) + at;
        adders.spawn(adds(
            Arc::clone(cells),
            cell.clone(),
            writer,
            Arc::clone(&seen),
            Arc::clone(&confirmed),
        ));
        others.spawn(reads(Arc::clone(cells), cell.clone(), writer + 50, Arc::clone(&seen)));
        links.push(participant.links);
    }
    let operators = [Operator::new(&world), Operator::new(&world)];
    if with_troubles {
        links.extend(operators.iter().map(Operator::links));
        others.spawn(troubles(links.clone(), seed));
    }
    let mut rounds = 0;
    let last = |phase| {
        let whole = WholeStage::before(0);
        WholeStage { stage: crate::decide::moving::Stage { phase, ..whole.stage }, ..whole }
    };
    let moving = async {
        loop {
            for (way, phase) in [(Way::Forward, MovePhase::New), (Way::Back, MovePhase::Old)] {
                let [one, two] = operators.each_ref().map(|operator| operator.goes(way, last(phase)));
                // Either of them is enough; the other one is left where it stands.
                tokio::select! { () = one => {}, () = two => {} }
                rounds += 1;
            }
        }
    };
    let added = async { while adders.join_next().await.transpose().expect("no panic").is_some() {} };
    tokio::select! {
        never = moving => never,
        () = added => {}
        failed = others.join_next() => panic!("{failed:?}"),
    }
    others.abort_all();
    for link in links.iter().flatten() {
        link.heal();
    }
    let client = world.client();
    let (_, whole) = read_stage(&*client.old.0).await.expect("read");
    let place = client.place(whole.values.side());
    let there = Address::new(&place.namespace.text, cell.kind(), cell.name()).expect("a good key");
    let total = i64::try_from(PARTICIPANTS * ADDS).expect("few");
    println!("seed {seed}: {rounds} rounds, at {whole:?}");
    assert_eq!(confirmed.load(Ordering::SeqCst), PARTICIPANTS * ADDS);
    assert_eq!(count_on(&*place.backend, &there).await, total, "seed {seed}, at {whole:?}");
    assert!(rounds > 1, "seed {seed}: nothing has moved");
}

#[tokio::test(start_paused = true)]
async fn each_add_is_made_once_and_no_read_goes_back_while_values_move_there_and_back() {
    for seed in 0..8 {
        there_and_back(seed, false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn so_it_is_with_lost_replies_late_requests_and_lost_leases() {
    for seed in 100..130 {
        there_and_back(seed, true).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_has_each_value_with_its_time_and_nothing_else() {
    let world = World::new().await;
    let operator = Operator::new(&world);
    let copying = operator.copying(Side::Old);
    let idle = CellLife::Idle(TimeToIdle::new(Duration::from_secs(3600)).expect("a good time"));
    let write = |life| CellWrite { expected: Expected::Any, value: Some(b"\0value"[..].into()), life };
    let on = |namespace: &str, kind, key: &str| Address::new(namespace, kind, key).expect("a good key");
    for (kind, key, life) in [
        (Kind::Value, "a", CellLife::Stays),
        (Kind::Value, "b/{c}%", idle),
        (Kind::Ids, "a", idle),
        (Kind::Latch, "a", CellLife::Stays),
    ] {
        let written = copying.source.backend.write_cell(&on("from", kind, key), &write(life)).await;
        assert!(matches!(written.expect("written"), CellWritten::Written(_)));
    }
    let extra = on("to", Kind::Counter, "extra");
    copying.target.backend.write_cell(&extra, &write(CellLife::Stays)).await.expect("written");
    let beside = on("other", Kind::Counter, "beside");
    copying.target.backend.write_cell(&beside, &write(CellLife::Stays)).await.expect("written");
    let progress = Progress::default();
    assert!(copying.difference(&progress).await.expect("compared").is_some());
    let node = super::join(&*copying.target.backend, super::alone(), crate::decide::Claim::Exclusive).await;
    let node = node.expect("joined");
    copying.write_all(&*node, &progress).await.expect("copied");
    assert_eq!(copying.difference(&progress).await.expect("compared"), None);
    assert_eq!((progress.copied(), progress.deleted(), progress.compared()), (4, 1, 4));
    assert_eq!(copying.target.backend.read_cell(&extra).await.expect("read"), None);
    assert!(copying.target.backend.read_cell(&beside).await.expect("read").is_some());
    // The same value with another time is another one.
    let other = on("to", Kind::Value, "b/{c}%");
    copying.target.backend.write_cell(&other, &write(CellLife::Stays)).await.expect("written");
    let found = copying.difference(&progress).await.expect("compared");
    assert_eq!(found.as_ref().map(|(kind, key)| (*kind, &**key)), Some((Kind::Value, "b/{c}%")));
    // Its node is gone: nothing is written.
    node.leave().await.expect("left");
    let error = copying.write_all(&*node, &progress).await.expect_err("not held");
    assert!(matches!(error.kind(), ErrorKind::Lost { .. }), "{error}");
    assert!(copying.difference(&progress).await.expect("compared").is_some());
}

#[tokio::test(start_paused = true)]
async fn requests_wait_while_values_are_copied_and_a_version_of_before_is_refused() {
    let world = World::new().await;
    let mut tasks = JoinSet::new();
    let cells = Participant::new(&world, &mut tasks).cells;
    let cell = value(Kind::Value, "a");
    let write = |expected, text: &str| CellWrite {
        expected,
        value: Some(text.as_bytes().into()),
        life: CellLife::Stays,
    };
    let CellWritten::Written(before) =
        cells.write_cell(&cell, &write(Expected::Any, "one")).await.expect("written")
    else {
        panic!("it is written whatever is there");
    };
    let mut watch = cells.watch_cell(&cell);
    watch.changed().await.expect("watched");
    let operator = Operator::new(&world);
    let frozen = WholeStage { values: ValuesAt::LeavingOld, ..WholeStage::before(0) };
    let both = WholeStage {
        stage: crate::decide::moving::Stage { phase: MovePhase::BothByOld, epoch: 0 },
        ..frozen
    };
    let (version, _) = read_stage(&*world.client().old.0).await.expect("read");
    use crate::moving::values::carry::Operates as _;
    operator.write_stage(version, both).await.expect("written").expect("nobody else");
    // The participant hears of it.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let error = cells.read_cell(&cell).await.expect_err("they are copied");
    assert_eq!(error.kind(), &ErrorKind::Unavailable);
    let waiting = tokio::spawn({
        let (cells, cell) = (Arc::clone(&cells), cell.clone());
        async move { cells.read_cell(&cell).await }
    });
    let done = WholeStage { stage: crate::decide::moving::Stage { phase: MovePhase::New, epoch: 1 }, ..both };
    operator.goes(Way::Forward, done).await;
    let read = waiting.await.expect("no panic").expect("read").expect("it has moved");
    assert_eq!(&*read.value, b"one");
    assert!(read.version > before);
    watch.changed().await.expect("it has moved");
    let refused = cells.write_cell(&cell, &write(Expected::Version(before), "two")).await.expect("answered");
    assert_eq!(refused, CellWritten::Refused(Some(read.clone())));
    let written = cells.write_cell(&cell, &write(Expected::Version(read.version), "two")).await;
    assert!(matches!(written.expect("answered"), CellWritten::Written(version) if version > read.version));
}
