//! Processes of Curator and of this library on one read/write lock. Each reports when it held, by the
//! machine's clock.

use std::ops::Range;
use std::time::Duration;

use crate::common::{beside_others, config, server};
use crate::curator::java;
use latchwork_conformance::cases::is_long;
use latchwork_conformance::child::{Child, Contested, Soak, SoakKind};
use latchwork_conformance::hold_record::{HoldRecord, in_order_of_tokens, none_overlap};
use latchwork_core::Claim;
use tokio::sync::Mutex;

const EACH: usize = 3;

/// A process is killed after this number of seconds together.
const SPARE: u64 = 30;

#[derive(Clone, Copy)]
struct Size {
    /// On each side.
    processes: usize,
    seconds: u64,
}

/// Each test has many processes.
static ONE_BY_ONE: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread")]
async fn curator_and_our_processes_share_a_read_write_lock() {
    let size = if is_long() { Size { processes: 4, seconds: 30 } } else { Size { processes: 2, seconds: 5 } };
    let sides = contend(size, "/ledger", "/ledger").await;
    for (name, processes) in [("Curator", &sides.curators), ("Latchwork", &sides.ours)] {
        let grants = |claim| {
            let while_all = |record: &&HoldRecord| sides.together.contains(&record.from);
            processes.iter().flatten().filter(while_all).filter(|record| record.claim == claim).count()
        };
        eprintln!(
            "{name}: {} writers and {} readers admitted in {} s, in {} processes",
            grants(Claim::Exclusive),
            grants(Claim::Shared),
            size.seconds,
            size.processes
        );
    }
    if let Err(why) = none_overlap(&sides.all(), u32::MAX) {
        panic!("{why}");
    }
    if let Err(why) = in_order_of_tokens(&sides.ours.concat()) {
        panic!("{why}");
    }
    sides.assert_all_progress(size);
}

/// The control.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_processes_on_two_locks_is_found_bad() {
    let sides = contend(Size { processes: 1, seconds: 2 }, "/ledger", "/another").await;
    for side in [&sides.curators, &sides.ours] {
        assert_eq!(none_overlap(&side.concat(), u32::MAX), Ok(()), "each side alone is correct");
    }
    assert!(none_overlap(&sides.all(), u32::MAX).is_err(), "holders of two locks never overlapped");
}

struct Sides {
    curators: Vec<Vec<HoldRecord>>,
    ours: Vec<Vec<HoldRecord>>,
    together: Range<u64>,
}

impl Sides {
    fn all(&self) -> Vec<HoldRecord> {
        [self.curators.concat(), self.ours.concat()].concat()
    }

    /// Every process was served, and each side as reader and as writer, in each part of the time that is too
    /// long for noise.
    fn assert_all_progress(&self, size: Size) {
        let processes = || self.curators.iter().chain(&self.ours);
        let (begin, whole) = (self.together.start, self.together.end - self.together.start);
        let parts = (size.seconds / 5).max(1);
        for number in 0..parts {
            let part = begin + whole * number / parts..begin + whole * (number + 1) / parts;
            let served = |records: &[HoldRecord]| {
                records.iter().filter(|record| part.contains(&record.from)).count() > 0
            };
            assert!(
                processes().all(|records| served(records)),
                "a process was not served in part {number} of {parts}"
            );
            for side in [&self.curators, &self.ours] {
                for claim in [Claim::Exclusive, Claim::Shared] {
                    let mut records = side.concat();
                    records.retain(|record| record.claim == claim);
                    assert!(
                        served(&records),
                        "a side was never served as {claim:?} in part {number} of {parts}"
                    );
                }
            }
        }
    }
}

async fn contend(size: Size, curators: &str, ours: &str) -> Sides {
    let _beside = beside_others().await;
    let _alone = ONE_BY_ONE.lock().await;
    let server = server().await;
    let config = config(server.addr());
    let path = |name: &str| format!("/{}-app{name}", config.namespace);
    let (threads, seconds) = (EACH.to_string(), (size.seconds + SPARE).to_string());
    let soak = Soak {
        contested: Contested::exact(path(ours)),
        tasks: EACH,
        seconds: size.seconds + SPARE,
        kind: SoakKind::ReadWrite,
        pairs_of: None,
        outlasts: false,
    };
    let java = ["Soak.java", server.addr(), &path(curators), &threads, &seconds];
    let curators = (0..size.processes).map(|_| Child::of(java::command(java[0], &java[1..])));
    let mut curators = begun(curators.collect()).await;
    let mut ours = begun((0..size.processes).map(|_| Child::start(&config, &soak)).collect()).await;
    let begin = curators.iter().chain(&ours).map(|(_, records)| records[0].from).max().expect("processes");
    let together = begin..begin + size.seconds * 1_000_000_000;
    for (process, records) in curators.iter_mut().chain(&mut ours) {
        while records.last().is_none_or(|record| record.from < together.end) {
            records.push(process.next_within(PATIENCE).await);
        }
    }
    let records_of = |side: Vec<Running>| side.into_iter().map(|(_, records)| records).collect();
    Sides { curators: records_of(curators), ours: records_of(ours), together }
}

type Running = (Child<HoldRecord>, Vec<HoldRecord>);

const PATIENCE: Duration = Duration::from_secs(60);

async fn begun(processes: Vec<Child<HoldRecord>>) -> Vec<Running> {
    let mut running = Vec::new();
    for mut process in processes {
        let first = process.next_within(PATIENCE).await;
        running.push((process, vec![first]));
    }
    running
}
