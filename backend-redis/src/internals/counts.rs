//! The script on a real server and [`Count::decide`] must agree on every answer and every byte of the cell.

use std::fmt::Write;

use latchwork_core::backend::decide::count::request::{CountOutcome, CountRequest, Decided};
use latchwork_core::backend::decide::count::{Change, Count, NotThisCount, Operation};
use latchwork_core::{Address, ErrorKind, Kind};

use super::dice::Dice;
use super::fixture::Fixture;
use crate::layout::CellKey;
use crate::scripts;

/// Numbers at which texts, doubles and 64 bits differ.
const EDGES: &[i64] = &[
    0,
    1,
    -1,
    9,
    -9,
    999_999_999_999_999,
    -999_999_999_999_999,
    9_999_999_999,
    10_000_000_000,
    -10_000_000_001,
    9_007_199_254_740_993,
    -9_007_199_254_740_993,
    i64::MAX,
    i64::MAX - 1,
    i64::MIN,
    i64::MIN + 1,
    4_611_686_018_427_387_904,
    -4_611_686_018_427_387_905,
];

const AROUND_64_BITS: [&str; 4] =
    ["9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809"];

struct VersionedValue<'a> {
    fixture: &'a Fixture,
    key: CellKey,
}

impl<'a> VersionedValue<'a> {
    fn new(fixture: &'a Fixture) -> Self {
        let address: Address = Fixture::queue(Kind::Counter, "count");
        Self { fixture, key: CellKey::of(&address).unwrap() }
    }

    async fn read(&self) -> (Option<Vec<u8>>, Option<String>) {
        self.fixture.raw(redis::cmd("HMGET").arg(self.key.to_string()).arg("v").arg("n")).await.unwrap()
    }

    async fn set(&self, text: &[u8]) {
        let mut set = redis::cmd("HSET");
        set.arg(self.key.to_string()).arg("v").arg(text).arg("n").arg("1-a");
        self.fixture.raw::<()>(&set).await.unwrap();
    }

    /// Server and twin must agree.
    async fn send(&self, request: &CountRequest, nonce: u64) -> Result<Decided, NotThisCount> {
        let (before, version) = self.read().await;
        let twin = Count::in_cell(before.as_deref(), request.initial).map(|count| count.decide(request));
        let reply = self.fixture.run(scripts::change_count(&self.key, request, nonce, None)).await;
        let (answer, _) = scripts::count_changed(reply, request.initial).unwrap();
        let shown = before.as_deref().map(String::from_utf8_lossy);
        assert_eq!(answer, twin.clone().map(|(decided, _)| decided), "{request:?} on {shown:?}");
        let (after, newer) = self.read().await;
        match twin {
            Ok((_, Some(next))) => {
                assert_eq!(after, Some(next.to_string().into_bytes()), "{request:?} on {shown:?}");
                let newer = newer.expect("the cell was written");
                assert!(newer.ends_with(&format!("-{nonce:x}")), "{newer}");
                let number = |version: &str| version.split('-').next().unwrap().parse::<u64>().unwrap();
                assert!(version.is_none_or(|version| number(&version) < number(&newer)));
            }
            _ => assert_eq!((after, newer), (before.clone(), version), "{request:?} on {shown:?}"),
        }
        answer
    }
}

fn add(number: i64) -> CountRequest {
    let (change, operation) = (Change::Add(number), Operation { writer: 1, number: 2 });
    CountRequest { change, operation, initial: None, since: None, in_doubt: false }
}

fn number(dice: &mut Dice) -> i64 {
    match dice.roll(3) {
        0 => *dice.pick(EDGES).unwrap(),
        1 => dice.roll(u64::MAX).cast_signed() >> dice.roll(64),
        _ => dice.roll(7).cast_signed() - 3,
    }
}

#[derive(Default)]
struct Met {
    applied: u32,
    refused: u32,
    untold: u32,
}

/// Requests of some writers, some repeated, some late, and deletions.
async fn history(fixture: &Fixture, seed: u64, met: &mut Met) {
    let mut dice = Dice(seed);
    let cell = VersionedValue::new(fixture);
    let initial = (dice.roll(3) == 0).then(|| u32::try_from(1 + dice.roll(5)).unwrap());
    let writers = [3, 60, 90][usize::try_from(dice.roll(3)).unwrap()];
    let ids: Vec<u64> = (0..writers).map(|_| dice.roll(u64::MAX) >> (4 * dice.roll(16))).collect();
    let (mut last, mut sent): (u64, Vec<CountRequest>) = (0, Vec::new());
    let mut known: Option<u64> = None;
    for step in 0..250 {
        if dice.roll(250) == 0 {
            fixture.raw::<()>(redis::cmd("DEL").arg(cell.key.to_string())).await.unwrap();
        }
        let change = match dice.roll(5) {
            0 => Change::Down(1 + u32::try_from(dice.roll(4)).unwrap()),
            1 => {
                let (text, _) = cell.read().await;
                let now = Count::in_cell(text.as_deref(), initial).map_or(0, |count| count.value());
                Change::Swap {
                    from: if dice.roll(3) > 0 { now } else { number(&mut dice) },
                    to: number(&mut dice),
                }
            }
            _ => Change::Add(number(&mut dice)),
        };
        last += 2;
        let operation = Operation { writer: *dice.pick(&ids).unwrap(), number: last };
        let since =
            if dice.roll(4) == 0 { None } else { known.map(|known| known.saturating_sub(dice.roll(90))) };
        let mut request = CountRequest { change, operation, initial, since, in_doubt: dice.roll(3) == 0 };
        if dice.roll(4) == 0 && !sent.is_empty() {
            request = *dice.pick(&sent[sent.len().saturating_sub(60)..]).unwrap();
            request.in_doubt |= dice.roll(2) == 0;
        }
        sent.push(request);
        let decided = cell.send(&request, 1 + step).await.unwrap();
        known = Some(decided.writes);
        match decided.outcome {
            CountOutcome::Applied(_) => met.applied += 1,
            CountOutcome::Refused => met.refused += 1,
            CountOutcome::Untold => met.untold += 1,
        }
    }
}

#[tokio::test]
async fn random_requests_agree_with_the_twin() {
    let (fixture, mut met) = (Fixture::start().await, Met::default());
    for seed in 0..40 {
        history(&fixture, seed, &mut met).await;
    }
    let Met { applied, refused, untold } = met;
    assert!(applied > 2000 && refused > 500 && untold > 200, "{applied} {refused} {untold}");
}

#[tokio::test]
async fn sums_are_exact_in_64_bits() {
    let fixture = Fixture::start().await;
    let cell = VersionedValue::new(&fixture);
    for one in EDGES {
        for other in EDGES {
            cell.set(format!("{one} 7").as_bytes()).await;
            let outcome = cell.send(&add(*other), 5).await.unwrap().outcome;
            let sum = one.checked_add(*other).map_or(CountOutcome::Refused, CountOutcome::Applied);
            assert_eq!(outcome, sum, "{one} {other}");
        }
    }
}

fn record(writer: u64, number: &str, result: &str) -> String {
    format!(" {writer:016x}:{number}:{result}")
}

/// Valid and almost valid texts.
#[tokio::test]
async fn texts_are_read_as_the_twin_reads_them() {
    let fixture = Fixture::start().await;
    let cell = VersionedValue::new(&fixture);
    let mut texts: Vec<Vec<u8>> = Vec::new();
    let values = ["0", "-0", "5", "05", "+5", "-5", "99999999999999999999999", "", "x", "-", " 5"];
    for value in values.into_iter().chain(AROUND_64_BITS) {
        for writes in ["0", "1", "01", "-1", "18446744073709551615", "18446744073709551616", "", "x"] {
            for of in
                ["", " of 3", " of 0", " of 03", " of 4294967295", " of 4294967296", " of", " of x", "x", " "]
            {
                texts.push(format!("{value} {writes}{of}").into_bytes());
            }
        }
    }
    for number in ["0", "2", "02", "18446744073709551615", "18446744073709551616", "-2", ""] {
        for result in ["0", "-0", "7", "07", "-07", "", "-", "7:7", "7 "].into_iter().chain(AROUND_64_BITS) {
            texts.push(format!("5 1{}", record(1, number, result)).into_bytes());
            texts.push(format!("5 1{}{}", record(2, "4", "4"), record(1, number, result)).into_bytes());
        }
    }
    for text in [
        "5 1 000000000000000A:1:1",
        "5 1 00000000000000001:1:1",
        "5 1 1:1:1",
        "5 1  0000000000000001:1:1",
        "5 1 0000000000000001:1:1\n",
        "5",
        "5 1\0",
        "5 1 \0",
    ] {
        texts.push(text.as_bytes().to_vec());
    }
    texts.push(b"5 1 \xff".to_vec());
    for writers in [47, 48, 49] {
        let mut text = "5 400".to_owned();
        (0..writers).for_each(|writer| write!(text, "{}", record(writer + 2, "2", "3")).unwrap());
        texts.push(text.clone().into_bytes());
        texts.push(format!("{text}{}", record(3, "9", "1")).into_bytes());
        texts.push(format!("{text}{}", record(1, "9", "1")).into_bytes());
    }
    for text in texts {
        for initial in [None, Some(3)] {
            for (writer, number) in [(1, 2), (3, 4)] {
                cell.set(&text).await;
                let (operation, since) = (Operation { writer, number }, Some(350 + 2 * writer));
                let request = CountRequest { operation, initial, since, ..add(1) };
                let _agreed = cell.send(&request, 5).await;
            }
        }
    }
}

#[tokio::test]
async fn another_thing_in_the_place_of_a_count_is_refused_and_stays() {
    let fixture = Fixture::start().await;
    let cell = VersionedValue::new(&fixture);
    let mut set = redis::cmd("SET");
    fixture.raw::<()>(set.arg(cell.key.to_string()).arg("5 1")).await.unwrap();
    let error = fixture.try_run(scripts::change_count(&cell.key, &add(1), 5, None)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let stays: String = fixture.raw(redis::cmd("GET").arg(cell.key.to_string())).await.unwrap();
    assert_eq!(stays, "5 1");
}
