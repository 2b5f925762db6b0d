//! CELL-IDLE: cells that expire without use.

use std::time::Duration;

use futures_util::future::join_all;
use latchwork_core::backend::{CellWrite, CellWritten};
use latchwork_core::{Address, CellLife, Claim, ErrorKind, Expected, Kind, Result, TimeToIdle};
use tokio::time::Instant;

use super::watch::watching;
use crate::actions::{Waiter, admitted, close, leave};
use crate::bounds::{LONG_TTL, SHORT_TTL};
use crate::case::cases;
use crate::cell_actions::{ask, delete, deleted, lasting as put, read, refused, text, write};
use crate::context::Context;
use crate::errors::{fails, fails_for, refuses};
use crate::testbed::Client;
use crate::waits::{soon, within};

/// A machine that is not very busy uses a cell in time.
const IDLE: Duration = SHORT_TTL;

fn used_for(context: &Context, idle: Duration) -> Duration {
    2 * idle + context.fixture.expiry_bound()
}

fn idle() -> CellLife {
    idle_for(IDLE)
}

fn idle_for(time: Duration) -> CellLife {
    CellLife::Idle(TimeToIdle::new(time).expect("within the bounds"))
}

fn cell(context: &Context, key: &str) -> Address {
    context.queue_of(Kind::Value, key)
}

/// Without idle cells a backend must refuse them by name, and write nothing.
async fn has_idle_cells(context: &Context, client: &Client) -> bool {
    if context.testbed.capabilities().idle_cells {
        return true;
    }
    let unsupported = ErrorKind::Unsupported { capability: "idle_cells" };
    let here = cell(context, "refused");
    for expected in [Expected::Any, Expected::Absent] {
        fails(ask(client, &here, &put(expected, "no", idle())).await, unsupported, "refused");
    }
    let value = client.coordinator.shared_value("refused").expect("a good key");
    fails_for(value.with_time_to_idle(10 * client.ttl()), unsupported, "refused", "refused at once");
    assert_eq!(read(client, &here).await, None);
    let deletion = CellWrite { expected: Expected::Any, value: None, life: idle() };
    assert!(!deleted(ask(client, &here, &deletion).await), "no data stays after a deletion");
    false
}

/// On a very busy machine a cell may expire rightly, so the time to idle grows.
async fn stays_while_used(context: &Context, clients: [&Client; 2], cell: &Address) {
    for idle in [IDLE, 2 * IDLE, 4 * IDLE] {
        if stays_for(context, clients, cell, idle).await {
            return;
        }
    }
    panic!(
        "the machine paused: the uses of a cell were further apart than {:?}, so the case has no result",
        4 * IDLE
    )
}

/// Returns `false` if a use was late.
async fn stays_for(context: &Context, clients: [&Client; 2], cell: &Address, idle: Duration) -> bool {
    let life = idle_for(idle);
    // From before the use, so it is not too short.
    let mut used = Instant::now();
    let mut last = write(clients[0], cell, put(Expected::Any, "0", life)).await;
    let until = Instant::now() + used_for(context, idle);
    while Instant::now() < until {
        tokio::time::sleep(idle / 3).await;
        let begun = Instant::now();
        match read(clients[1], cell).await {
            Some(read) => assert_eq!(read.version, last, "a use must not change the version"),
            None if used.elapsed() >= idle => return false,
            None => panic!("the cell is gone, although it was used {:?} ago", used.elapsed()),
        }
        used = begun;
    }
    let until = Instant::now() + used_for(context, idle);
    let mut number = 0_usize;
    while Instant::now() < until {
        number += 1;
        let begun = Instant::now();
        let next = put(Expected::Version(last), number.to_string(), life);
        match ask(clients[number % 2], cell, &next).await {
            Ok(CellWritten::Written(next)) => {
                assert!(last < next);
                last = next;
            }
            _ if used.elapsed() >= idle => return false,
            other => panic!("{other:?}, although the cell was used {:?} ago", used.elapsed()),
        }
        used = begun;
        tokio::time::sleep(idle / 3).await;
    }
    match text(clients[0], cell).await {
        None if used.elapsed() >= idle => false,
        last => {
            assert_eq!(last, Some(number.to_string()));
            true
        }
    }
}

cases! {
    "CELL-IDLE" clock =>
    /// a cell expires after its idle time, not earlier and not later, also after the death of its writer: watches are
    /// notified, and no earlier version is used again
    async fn cell_idle_expires_without_use(context) {
        let (dies, other, cell) = (context.patient(SHORT_TTL).await, context.patient(LONG_TTL).await, cell(context, "a"));
        if !has_idle_cells(context, &other).await {
            return;
        }
        let begun = Instant::now();
        let first = write(&dies, &cell, put(Expected::Absent, "here", idle())).await;
        let written = Instant::now();
        latchwork_core::crash(&dies.coordinator).await;
        let mut watch = watching(&other, &cell).await;
        let late = written + context.idle_bound(IDLE);
        let again = within(late - Instant::now(), "the watch reports the end of the cell", async {
            loop {
                watch.changed().await.expect("watched");
                // A watch may answer without a change. A read would be a use.
                if begun.elapsed() < IDLE {
                    continue;
                }
                match ask(&other, &cell, &put(Expected::Absent, "again", CellLife::Stays)).await {
                    Ok(CellWritten::Written(version)) => return version,
                    other => assert!(matches!(other, Ok(CellWritten::Refused(Some(_)))), "{other:?}"),
                }
            }
        })
        .await;
        assert!(first < again, "{first} {again}");
        let late = put(Expected::Version(first), "late", idle());
        assert!(refused(ask(&other, &cell, &late).await).is_some());
        assert!(delete(&other, &cell).await);
    }

    "CELL-IDLE" =>
    /// a cell stays as long as any client reads or writes it, with the version of its last write
    async fn cell_idle_stays_while_it_is_used(context) {
        let (one, two, cell) = (context.patient(LONG_TTL).await, context.patient(LONG_TTL).await, cell(context, "a"));
        if !has_idle_cells(context, &one).await {
            return;
        }
        stays_while_used(context, [&one, &two], &cell).await;
        assert!(delete(&two, &cell).await);
        assert_eq!(read(&one, &cell).await, None);
    }

    "CELL-IDLE" =>
    /// the last write decides: a lasting cell stays, a cell with an idle time expires, and the close of a client ends
    /// only cells of its lease
    async fn cell_idle_is_decided_by_the_last_write(context) {
        let (closes, other) = (context.patient(LONG_TTL).await, context.patient(LONG_TTL).await);
        if !has_idle_cells(context, &other).await {
            return;
        }
        let time = 2 * IDLE;
        let lives = [idle_for(time), CellLife::Stays, CellLife::Lease];
        let mut cells = Vec::new();
        for (from, before) in lives.into_iter().enumerate() {
            for (to, after) in lives.into_iter().enumerate() {
                for is_any in [true, false] {
                    cells.push((cell(context, &format!("{from}-{to}-{is_any}")), before, after, is_any));
                }
            }
        }
        join_all(cells.iter().map(async |(cell, before, after, is_any)| {
            let first = write(&closes, cell, put(Expected::Any, "before", *before)).await;
            let expected = if *is_any { Expected::Any } else { Expected::Version(first) };
            let second = write(&closes, cell, put(expected, "after", *after)).await;
            assert!(first < second, "{before:?} {after:?}");
        }))
        .await;
        close(&closes).await;
        let shown = join_all(cells.iter().map(|(cell, ..)| text(&other, cell))).await;
        for ((cell, _, life, _), shown) in cells.iter().zip(shown) {
            let there = (*life != CellLife::Lease).then_some("after");
            assert_eq!(shown.as_deref(), there, "{cell} {life:?}");
        }
        tokio::time::sleep(context.idle_bound(time)).await;
        for (cell, _, life, _) in &cells {
            assert_eq!(delete(&other, cell).await, *life == CellLife::Stays, "{cell} {life:?}");
        }
    }

    "CELL-IDLE" =>
    /// a write under a hold may set an idle time: the cell outlives the hold, and expires when it is not used
    async fn cell_idle_under_a_hold_outlives_it(context) {
        let (one, two, cell) = (context.patient(LONG_TTL).await, context.patient(LONG_TTL).await, cell(context, "a"));
        let time = 2 * IDLE;
        // Of the cell's key: a hold on a Redis Cluster writes only on its server.
        let queue = context.queue_of(Kind::Mutex, "a");
        let node = admitted(&one, &queue, Claim::Exclusive).await;
        let held = soon("write", node.write_cell(&cell, &put(Expected::Absent, "held", idle_for(time)))).await;
        leave(&node).await;
        if !has_idle_cells(context, &one).await {
            fails(held, ErrorKind::Unsupported { capability: "idle_cells" }, "refused");
            return;
        }
        assert!(matches!(held, Ok(CellWritten::Written(_))), "{held:?}");
        assert_eq!(text(&two, &cell).await.as_deref(), Some("held"));
        close(&one).await;
        assert_eq!(text(&two, &cell).await.as_deref(), Some("held"));
        tokio::time::sleep(context.idle_bound(time)).await;
        assert_eq!(read(&two, &cell).await, None);
    }

    "CELL-IDLE" =>
    /// values, counters, latches and generators expire when they are not used; a watch is a use, also by a client
    /// with a longer TTL, and no id of a block is given out after its generator has expired
    async fn cell_idle_is_an_option_of_recipes(context) {
        let (client, watcher) = (context.patient(SHORT_TTL).await, context.patient(LONG_TTL).await);
        let of = &client.coordinator;
        let time = 2 * client.ttl();
        let value = |key| of.shared_value(key).expect("a good key");
        if !has_idle_cells(context, &client).await {
            return;
        }
        for bad in [Duration::ZERO, 2 * client.ttl() - Duration::from_millis(1), Duration::MAX] {
            refuses(value("v").with_time_to_idle(bad), "time_to_idle");
            refuses(of.counter("c").and_then(|it| it.with_time_to_idle(bad)), "time_to_idle");
            refuses(of.id_generator("i").and_then(|it| it.with_time_to_idle(bad)), "time_to_idle");
            refuses(of.count_down_latch("l", 2).and_then(|it| it.with_time_to_idle(bad)), "time_to_idle");
        }
        let good = "a good key and time";
        let goes = value("v").with_time_to_idle(time).expect(good);
        let counter = of.counter("c").and_then(|it| it.with_time_to_idle(time)).expect(good);
        let ids = of.id_generator("i").and_then(|it| it.with_time_to_idle(time)).expect(good);
        let latch = of.count_down_latch("l", 2).and_then(|it| it.with_time_to_idle(time)).expect(good);
        let watched = value("w").with_time_to_idle(time).expect(good);
        let awaited = of.count_down_latch("w", 2).and_then(|it| it.with_time_to_idle(time)).expect(good);
        let waits = watcher.coordinator.count_down_latch("w", 2).expect("a good key and count");
        let stays = value("s");
        let all = async {
            goes.write("goes").await?;
            watched.write("watched").await?;
            stays.clone().with_time_to_idle(time)?.write("goes").await?;
            stays.write("stays").await?;
            assert_eq!((counter.add(3).await?, ids.next_id().await?, ids.next_id().await?), (3, 1, 2));
            assert_eq!((latch.count_down().await?, latch.count_down().await?), (1, 0));
            let mut watch = watcher.coordinator.shared_value("w")?.watch().await?;
            assert!(watch.changed().await?.is_some());
            assert_eq!(awaited.count_down().await?, 1);
            Result::Ok(watch)
        };
        let watch = soon("all are written", all).await.expect("written");
        let waiting = Waiter::of(async move { waits.wait().await });
        tokio::time::sleep(context.idle_bound(time)).await;
        let all = async {
            assert!(watch.latest()?.is_some(), "a watch is a use: a watched value must stay");
            assert_eq!(goes.read().await?, None);
            assert!(stays.read().await?.is_some());
            assert_eq!((counter.get().await?, latch.count().await?), (0, 2));
            assert_eq!((counter.add(4).await?, latch.count_down().await?), (4, 1));
            assert_eq!(ids.next_id().await?, 1, "an id of a block of the expired generator was given out");
            assert_eq!(awaited.count_down().await?, 0, "a wait is a use: an awaited latch must stay");
            drop(watch);
            let deleted = (watched.delete().await?, stays.delete().await?, counter.delete().await?);
            assert_eq!(deleted, (true, true, true));
            assert!(latch.delete().await? && ids.delete().await?);
            Result::Ok(())
        };
        soon("all are asked", all).await.expect("answered");
        waiting.outcome().await.expect("open");
        assert!(soon("delete", awaited.delete()).await.expect("deleted"));
    }
}
