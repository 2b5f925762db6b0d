//! LAYOUT-RAISE over processes: a fleet is rolled to a newer build and back, and goes on. Under `./test --long` there
//! are two builds; else this one says that it is the newer one.

use latchwork_core::registry::LAYOUT;
use latchwork_core::{Config, Error, ErrorKind};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::process::processes;
use super::soak::judged;
use crate::bounds::LONG_TTL;
use crate::case::cases;
use crate::contender::Contender;
use crate::context::Context;
use crate::hold_record::{HoldRecord, in_order_of_tokens, none_overlap};
use crate::order::Event;
use crate::testbed::Client;
use crate::waits::soon;

/// What everybody contends for.
const KEY: &str = "rolled";
/// The layout of the newer build.
const NEWER: u32 = LAYOUT + 1;

cases! {
    "LAYOUT-RAISE" =>
    /// a fleet of processes that contend for one lock is rolled to a newer build, back, and forward
    /// again, and its layout is raised, refused as long as an older process is there: all go on at
    /// each step, nobody overlaps, tokens rise from build to build, and none of the older comes back
    async fn layout_raise_in_a_rolling_upgrade(context) {
        let Some(config) = processes(context, LONG_TTL) else { return };
        let begin = async |layout| Member::start(context, &config, layout).await;
        let mut fleet = vec![begin(LAYOUT).await, begin(LAYOUT).await];
        all_go_on(&mut fleet).await;
        let newer = config.clone().as_of_layout(NEWER);
        let operator = soon("connect", context.fixture.client(&newer)).await;
        let operator = operator.expect("a newer build works on the older layout");
        let mut records = Vec::new();
        // Forward one by one, back before the second one, and forward again.
        for (newer, older) in [(NEWER, LAYOUT), (LAYOUT, NEWER), (NEWER, LAYOUT), (NEWER, LAYOUT)] {
            fleet.push(begin(newer).await);
            all_go_on(&mut fleet).await;
            refused(&operator).await;
            let place = fleet.iter().position(|member| member.layout == older).expect("one is there");
            records.extend(fleet.remove(place).end().await);
            all_go_on(&mut fleet).await;
        }
        assert_eq!(soon("raise", operator.coordinator.raise_layout()).await.expect("raised"), NEWER);
        all_go_on(&mut fleet).await;
        let back = Contender::of_layout(context, &config, KEY, LAYOUT).await;
        assert!(back.fails().await, "an older process has begun under the newer layout");
        all_go_on(&mut fleet).await;
        for member in fleet {
            records.extend(member.end().await);
        }
        judged(in_order_of_tokens(&records));
        judged(none_overlap(&records, 1));
    }
}

/// A raise, while one of the fleet is too old.
async fn refused(operator: &Client) {
    let error: Error =
        soon("raise", operator.coordinator.raise_layout()).await.expect_err("an older process");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
}

/// Waits until each has held twice more, of which one began after this call.
async fn all_go_on(fleet: &mut [Member]) {
    for member in fleet {
        let before = *member.held.borrow();
        let goes_on = soon("it goes on", member.held.wait_for(|held| *held >= before + 2)).await;
        goes_on.expect("it has not ended");
    }
}

/// A process of the fleet. What it says is read all the time, since a full pipe would stop it.
struct Member {
    layout: u32,
    held: watch::Receiver<usize>,
    end: oneshot::Sender<()>,
    records: JoinHandle<Vec<HoldRecord>>,
}

impl Member {
    async fn start(context: &Context, config: &Config, layout: u32) -> Self {
        let process = Contender::of_layout(context, config, KEY, layout).await;
        let ((count, held), (end, ended)) = (watch::channel(0), oneshot::channel());
        let records = tokio::spawn(read(process, count, ended));
        Self { layout, held, end, records }
    }

    /// Ends it in order, and answers when it held.
    async fn end(self) -> Vec<HoldRecord> {
        self.end.send(()).expect("it has not ended");
        soon("its end", self.records).await.expect("no panic")
    }
}

async fn read(
    mut process: Contender,
    count: watch::Sender<usize>,
    mut ended: oneshot::Receiver<()>,
) -> Vec<HoldRecord> {
    let mut records = Vec::new();
    loop {
        let event = tokio::select! {
            biased;
            _ = &mut ended => break,
            event = process.next_in_time() => event,
        };
        records.push(record(event));
        count.send_replace(records.len());
    }
    records.extend(process.release_and_hear().await.into_iter().map(record));
    records
}

fn record(event: Event) -> HoldRecord {
    match event {
        Event::HoldRecord(record) => record,
        other => panic!("unexpected of one that takes turns: {other:?}"),
    }
}
