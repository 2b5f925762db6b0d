//! Processes of Curator and of this library on one read/write lock: nobody holds beside a writer,
//! and both sides are served all the time. Each process reports when it held, on the machine's
//! clock. The log is judged afterwards, by neither library.

use std::cell::Cell;
use std::ops::Range;
use std::process::Stdio;
use std::time::Duration;

use crate::common::{beside_others, config, server};
use crate::curator::java;
use futures_util::future::join_all;
use latchwork_conformance::Adapter;
use latchwork_conformance::cases::is_long;
use latchwork_conformance::hold_record::{HoldRecord, in_order_of_tokens, none_overlap};
use latchwork_conformance::order::{Event, Order, Soak, SoakKind};
use latchwork_core::Config;
use latchwork_core::decide::Claim;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};
use tokio::sync::{Mutex, Notify};

/// Tasks or threads of a process.
const EACH: usize = 3;

/// So much longer a process goes on by itself. It is killed when all were there together for long enough, and
/// Java takes its time to begin.
const SPARE: u64 = 30;

/// The size of a soak.
#[derive(Clone, Copy)]
struct Size {
    /// Processes of each side.
    processes: usize,
    /// For so long all are there together.
    seconds: u64,
}

/// Each has many processes of its own.
static ONE_BY_ONE: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread")]
async fn processes_of_curator_and_ours_share_a_read_write_lock() {
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
    // Curator has no tokens.
    if let Err(why) = in_order_of_tokens(&sides.ours.concat()) {
        panic!("{why}");
    }
    sides.assert_all_progress(size);
}

/// The control: the same judgement of the same log finds processes that do not exclude the other
/// side.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_processes_on_two_locks_is_found_bad() {
    let sides = contend(Size { processes: 1, seconds: 2 }, "/ledger", "/another").await;
    for side in [&sides.curators, &sides.ours] {
        assert_eq!(none_overlap(&side.concat(), u32::MAX), Ok(()), "each side is right by itself");
    }
    assert!(none_overlap(&sides.all(), u32::MAX).is_err(), "nobody was beside a writer, on two locks");
}

/// The records of each process.
struct Sides {
    curators: Vec<Vec<HoldRecord>>,
    ours: Vec<Vec<HoldRecord>>,
    /// When all were there.
    together: Range<u64>,
}

impl Sides {
    fn all(&self) -> Vec<HoldRecord> {
        [self.curators.concat(), self.ours.concat()].concat()
    }

    /// While all were there, every process was served, and each side as reader and as writer, in
    /// each part of the time that is too long to be noise of the machine.
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

/// Processes of both sides contend for the locks at these paths.
async fn contend(size: Size, curators: &str, ours: &str) -> Sides {
    let _beside = beside_others().await;
    let _alone = ONE_BY_ONE.lock().await;
    let server = server().await;
    let config = config(server.addr());
    let path = |name: &str| format!("/{}-app{name}", config.namespace);
    let (threads, seconds) = (EACH.to_string(), (size.seconds + SPARE).to_string());
    let mut waiting: Vec<_> = (0..size.processes)
        .map(|_| Process::of(java::start("Soak.java", &[server.addr(), &path(curators), &threads, &seconds])))
        .collect();
    for process in &mut waiting {
        assert_eq!(process.says().await, "ready");
    }
    let mut running: Vec<_> = (0..size.processes).map(|_| ours_on(&config, path(ours), size)).collect();
    for process in &mut running {
        process.record().await.expect("it is served at once");
    }
    for process in &mut waiting {
        process.order("go").await;
    }
    let mut all: Vec<_> = waiting.into_iter().chain(running).collect();
    let spans: Vec<_> = all.iter().map(|process| Cell::new(process.span)).collect();
    let (together, over) = (&|| joint(&spans, size), &Notify::new());
    // All are read at once, since a process that is not read would stand still.
    let reading = all.iter_mut().zip(&spans).map(|(process, span)| async move {
        while process.record().await.is_some() {
            span.set(process.span);
            if together().is_some() {
                over.notify_one();
            }
        }
    });
    tokio::select! {
        () = over.notified() => {}
        _ = join_all(reading) => {}
    }
    let together = together().expect("they end by themselves before all were there for long enough");
    let mut curators: Vec<_> = all.iter_mut().map(|process| std::mem::take(&mut process.records)).collect();
    let ours = curators.split_off(size.processes);
    // They are killed as they are dropped.
    drop(all);
    Sides { curators, ours, together }
}

/// So many seconds from when the last of them held first, once each has held after them. `spans`: when each
/// held first, and last.
fn joint(spans: &[Cell<Option<(u64, u64)>>], size: Size) -> Option<Range<u64>> {
    let spans: Vec<_> = spans.iter().map(Cell::get).collect::<Option<_>>()?;
    let begin = spans.iter().map(|(first, _)| *first).max()?;
    let end = begin + size.seconds * 1_000_000_000;
    spans.iter().all(|(_, last)| *last >= end).then_some(begin..end)
}

fn ours_on(config: &Config, path: String, size: Size) -> Process {
    let soak = Soak {
        tasks: EACH,
        seconds: size.seconds + SPARE,
        kind: SoakKind::ReadWrite,
        pairs_of: None,
        outlasts: false,
    };
    let to_hold = Order::to_hold(config, &path, Adapter::Mutex);
    let order = Order { exact: true, soak: Some(soak), ..to_hold };
    let mut command = order.command().expect("the own executable is known");
    Process::of(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs"))
}

/// A process of either side.
struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    records: Vec<HoldRecord>,
    /// When it held first, and last.
    span: Option<(u64, u64)>,
}

/// No process is silent for longer.
const PATIENCE: Duration = Duration::from_secs(60);

impl Process {
    fn of(mut child: Child) -> Self {
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { child, lines, records: Vec::new(), span: None }
    }

    async fn order(&mut self, order: &str) {
        let orders = self.child.stdin.as_mut().expect("piped");
        orders.write_all(format!("{order}\n").as_bytes()).await.expect("sent");
        orders.flush().await.expect("sent");
    }

    async fn says(&mut self) -> String {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await.expect("it says something");
        line.expect("read").expect("it lives")
    }

    /// The next time that it tells of; none when it has ended.
    async fn record(&mut self) -> Option<HoldRecord> {
        let event = loop {
            let line = self.says().await;
            if let Some(event) = Event::of_line(&line) {
                break event.unwrap_or_else(|error| panic!("{line:?}: {error}"));
            }
        };
        match event {
            Event::HoldRecord(record) => {
                self.records.push(record);
                let (first, last) = self.span.unwrap_or((record.from, record.from));
                self.span = Some((first.min(record.from), last.max(record.from)));
                Some(record)
            }
            Event::Released => None,
            other => panic!("unexpected in a soak: {other:?}"),
        }
    }
}
