//! Adds and reads, while values move there and back.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use super::operator::Operator;
use super::participant::Participant;
use super::{Fault, TTL, World, read_stage, value};
use crate::address::{Address, Kind};
use crate::contracts::Backend;
use crate::decide::count::request::{CountOutcome, CountRequest};
use crate::decide::count::{Change, Count, Operation};
use crate::decide::moving::values::WholeStage;
use crate::decide::moving::{MovePhase, Stage, Way};
use crate::error::ErrorKind;
use crate::memory::Link;
use crate::moving::values::cells::MovingCells;

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

/// The highest count that was confirmed or read. No later read shows less.
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
            CountRequest { change: Change::Add(1), operation, initial: None, since, in_doubt: false };
        loop {
            match cells.change_count(&cell, &request, None).await {
                Ok(decided) => {
                    since = Some(decided.writes);
                    let CountOutcome::Applied(sum) = decided.outcome else {
                        panic!("{request:?}: {decided:?}")
                    };
                    confirmed.fetch_add(1, Ordering::SeqCst);
                    seen.0.fetch_max(sum, Ordering::SeqCst);
                    break;
                }
                Err(error) => {
                    assert!(error.may_pass(), "{error}");
                    request.in_doubt |= error.kind() == ErrorKind::OutcomeUnknown;
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
            Err(error) => assert!(error.may_pass(), "{error}"),
        }
        random.pause(15).await;
    }
}

/// Lost replies, late requests, cuts longer than a lease, and leases that the server ends.
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

async fn there_and_back(seed: u64, with_troubles: bool, fault: Option<Fault>) {
    let world = World::new().await;
    let (mut memberships, mut adders, mut others) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
    let (seen, confirmed) = (Arc::<Seen>::default(), Arc::<AtomicU64>::default());
    let cell = value(Kind::Counter, "visits/ü {1}");
    let mut links = Vec::new();
    for at in 0..PARTICIPANTS {
        let participant = Participant::new(&world, &mut memberships, fault);
        for link in &participant.links {
            link.delay(Duration::from_millis(1 + (seed + at) % 5));
        }
        if at == 0 {
            // One of its requests to the new side takes longer than a move.
            participant.links[1].delay(Duration::from_millis(400));
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
    let operators = [Operator::new(&world, fault), Operator::new(&world, fault)];
    if with_troubles {
        links.extend(operators.iter().map(Operator::links));
        others.spawn(troubles(links.clone(), seed));
    }
    let mut rounds = 0;
    let last = |phase| {
        let whole = WholeStage::before(0);
        WholeStage { stage: Stage { phase, ..whole.stage }, ..whole }
    };
    let moving = async {
        loop {
            for (way, phase) in [(Way::Forward, MovePhase::New), (Way::Back, MovePhase::Old)] {
                let [one, two] = operators.each_ref().map(|operator| operator.goes(way, last(phase)));
                // One operator is enough; the other one stops at its current step.
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
    let whole = read_stage(&*client.old.0).await.expect("read").whole();
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
        there_and_back(seed, false, None).await;
    }
}

#[tokio::test(start_paused = true)]
async fn so_it_is_with_lost_replies_late_requests_and_lost_leases() {
    for seed in 100..130 {
        there_and_back(seed, true, None).await;
    }
}

#[tokio::test(start_paused = true)]
async fn each_fault_of_the_value_protocol_is_found() {
    for (fault, with_troubles) in [
        (Fault::AcknowledgesAtOnce, false),
        (Fault::CountsAnyAnswer, true),
        (Fault::FreezesNothing, false),
        (Fault::WritesNothing, false),
    ] {
        let mut seeds = 0..60;
        let found = loop {
            let Some(seed) = seeds.next() else { break None };
            // A wrong count may also block an add for ever.
            let run = tokio::spawn(tokio::time::timeout(
                Duration::from_secs(3_600),
                there_and_back(seed, with_troubles, Some(fault)),
            ));
            if !matches!(run.await, Ok(Ok(()))) {
                break Some(seed);
            }
        };
        println!("{fault:?}: found with seed {found:?}");
        assert!(found.is_some(), "{fault:?}");
    }
}
