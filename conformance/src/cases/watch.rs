//! WATCH-: reports of a cell's changes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use latchwork_core::backend::{ChangeWatch, VersionedValue};
use latchwork_core::recipes::Watch;
use latchwork_core::{Address, Claim, ErrorKind, Expected, Kind, Version};

use super::cell::{delete, read, rise, until_it_shows, value, write};
use super::observed;
use crate::actions::{admitted, close, enters, is_quiet, leave, until_quiet};
use crate::bounds::PATIENCE;
use crate::case::cases;
use crate::cell_actions::{self, as_text, ask, deletion, put};
use crate::errors::{fails, fails_for};
use crate::testbed::{Client, Fault};
use crate::waits::{soon, within};

async fn next(watch: &mut Watch<Option<VersionedValue>>) -> Option<String> {
    soon("news", watch.changed()).await.expect("watched").map(as_text)
}

pub(super) async fn watching(client: &Client, cell: &Address) -> Box<dyn ChangeWatch> {
    let mut watch = client.coordinator.backend().watch_cell(cell);
    news(&mut *watch).await;
    watch
}

pub(super) async fn news(watch: &mut dyn ChangeWatch) {
    soon("the news", watch.changed()).await.expect("watched");
}

/// Retries, as core does.
pub(super) async fn news_in_the_end(watch: &mut dyn ChangeWatch) {
    soon("the news", async {
        while let Err(error) = watch.changed().await {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Before its end it may answer without a change.
pub(super) async fn end_of(watch: &mut dyn ChangeWatch) -> ErrorKind {
    soon("the end", async { while watch.changed().await.is_ok() {} }).await;
    soon("the end", watch.changed()).await.expect_err("ended").kind()
}

cases! {
    "WATCH-ORDER" =>
    /// directly at the backend, each watch reports each change, also right after an answer and during a dropped call:
    /// creation, write, the same value again, write under a hold, deletion; it reports no refused write and no other
    /// cell
    async fn watch_order_reports_each_change(context) {
        let (one, two) = (context.client().await, context.quiet().await);
        let (cell, beside) = (context.queue_of(Kind::Value, "a"), context.queue_of(Kind::Value, "ab"));
        let node = admitted(&one, &context.queue_of(Kind::Mutex, "a"), Claim::Exclusive).await;
        let (mut watch, mut second) = (watching(&two, &cell).await, watching(&two, &cell).await);
        let writes = [
            (put(Expected::Any, "made"), false),
            (put(Expected::Any, "over it"), false),
            (put(Expected::Any, "over it"), false),
            (put(Expected::Any, "held"), true),
            (deletion(Expected::Any), false),
            (put(Expected::Absent, "anew"), true),
        ];
        for (write, is_held) in writes {
            until_quiet(&two, &mut *watch).await;
            let there = cell_actions::read(&two, &cell).await;
            for _ in 0..3 {
                cell_actions::write(&one, &beside, put(Expected::Any, "beside")).await;
                ask(&one, &cell, &put(Expected::Version(Version::new(1 << 50, 5)), "no")).await.expect("answered");
                ask(&one, &cell, &deletion(Expected::Absent)).await.expect("answered");
            }
            assert!(is_quiet(&two, &mut *watch).await || is_quiet(&two, &mut *watch).await, "before {write:?}");
            assert_eq!(cell_actions::read(&two, &cell).await, there);
            match is_held {
                true => soon("write", node.write_cell(&cell, &write)).await,
                false => ask(&one, &cell, &write).await,
            }
            .expect("answered");
            news(&mut *watch).await;
            news(&mut *second).await;
            assert_eq!(cell_actions::read(&two, &cell).await.map(|cell| cell.value), write.value);
        }
        drop(second);
        until_quiet(&two, &mut *watch).await;
        assert!(watch.changed().now_or_never().is_none(), "nothing has changed");
        cell_actions::write(&one, &cell, put(Expected::Any, "the change happened during a dropped call")).await;
        news(&mut *watch).await;
        for turn in 0..20_u64 {
            cell_actions::write(&one, &cell, put(Expected::Any, turn.to_string())).await;
            // Some calls are dropped between the event and the restart of the watch.
            if tokio::time::timeout(Duration::from_micros(50 * turn), watch.changed()).await.is_err() {
                news(&mut *watch).await;
            }
            assert_eq!(cell_actions::text(&two, &cell).await, Some(turn.to_string()));
        }
        for round in 0..20 {
            let mut watch = two.coordinator.backend().watch_cell(&cell);
            // A dropped first call takes no answer with it.
            if round % 2 == 0 || watch.changed().now_or_never().is_none() {
                news(&mut *watch).await;
            }
            cell_actions::write(&one, &cell, put(Expected::Any, round.to_string())).await;
            news(&mut *watch).await;
        }
        leave(&node).await;
        for cell in [cell, beside] {
            assert!(cell_actions::delete(&one, &cell).await);
        }
    }

    "WATCH-ORDER" =>
    /// a watcher that reads after each answer sees the last of many writes
    async fn watch_order_shows_the_last_of_many_writes(context) {
        let (one, two) = (context.client().await, context.quiet().await);
        for round in 0..10 {
            let cell = context.queue_of(Kind::Value, &format!("a{round}"));
            let mut watch = two.coordinator.backend().watch_cell(&cell);
            let reads = async {
                loop {
                    news(&mut *watch).await;
                    if cell_actions::text(&two, &cell).await.as_deref() == Some("40") {
                        break;
                    }
                }
            };
            let writes = async {
                for number in 0..=40 {
                    cell_actions::write(&one, &cell, put(Expected::Any, number.to_string())).await;
                    tokio::task::yield_now().await;
                }
            };
            tokio::join!(reads, writes);
            cell_actions::delete(&one, &cell).await;
        }
    }

    "WATCH-ORDER" =>
    /// a watch continues after each gap, even if the lease was lost in it: it reports the gap, is quiet, and then
    /// reports each change again
    async fn watch_order_goes_on_after_each_gap(context) {
        let (one, two) = (context.client().await, context.quiet().await);
        let cell = context.queue_of(Kind::Value, "a");
        let (mut watch, mut second) = (watching(&two, &cell).await, watching(&two, &cell).await);
        for loses in [false, false, true] {
            let lease = two.coordinator.lease();
            two.link.cut();
            cell_actions::write(&one, &cell, put(Expected::Any, "came")).await;
            assert!(cell_actions::delete(&one, &cell).await, "and went");
            if loses {
                lease.clock().jump(lease.ttl());
                soon("the loss", lease.until_lost()).await;
            }
            two.link.heal();
            for watch in [&mut watch, &mut second] {
                news_in_the_end(&mut **watch).await;
                soon("the way back", async { while two.coordinator.backend().read_cell(&cell).await.is_err() {} }).await;
                until_quiet(&two, &mut **watch).await;
            }
            cell_actions::write(&one, &cell, put(Expected::Any, "after it")).await;
            news(&mut *watch).await;
            news(&mut *second).await;
            assert_eq!(cell_actions::text(&two, &cell).await.as_deref(), Some("after it"));
            assert!(cell_actions::delete(&one, &cell).await);
            news(&mut *watch).await;
        }
    }

    "WATCH-ORDER" =>
    /// a watch returns the current value, then the latest of the values that are written, deleted and created again, in
    /// rising versions
    async fn watch_order_shows_the_latest_in_the_end(context) {
        let (one, two) = (context.client().await, context.quiet().await);
        let (mine, theirs) = (value(&one, "a"), value(&two, "a"));
        let mut watch = soon("watch", theirs.watch()).await.expect("watched");
        assert_eq!(next(&mut watch).await, None);
        for round in 0..3 {
            for number in 0..10 {
                write(&mine, &format!("{round}.{number}")).await;
            }
            let shown = until_it_shows(&mut watch, &format!("{round}.9")).await;
            assert!(rise(&shown), "{shown:?}");
            assert_eq!(watch.latest().expect("watched"), read(&theirs).await);
            assert!(watch.is_current());
            delete(&mine).await;
            assert_eq!(next(&mut watch).await, None);
        }
        for number in 0..5 {
            write(&mine, &number.to_string()).await;
            assert_eq!(next(&mut watch).await, Some(number.to_string()));
        }
        delete(&mine).await;
    }

    "WATCH-ORDER" =>
    /// a watcher that was cut off sees later writes after it has reconnected
    async fn watch_order_heals_a_gap(context) {
        let (one, two) = (context.client().await, context.mortal().await);
        let (mine, theirs) = (value(&one, "a"), value(&two, "a"));
        write(&mine, "before").await;
        let mut watch = soon("watch", theirs.watch()).await.expect("watched");
        assert_eq!(next(&mut watch).await.as_deref(), Some("before"));
        assert!(context.can(Fault::Cut));
        two.link.cut();
        write(&mine, "meanwhile").await;
        tokio::time::sleep(two.ttl() / 2).await;
        two.link.heal();
        until_it_shows(&mut watch, "meanwhile").await;
        write(&mine, "after").await;
        until_it_shows(&mut watch, "after").await;
        delete(&mine).await;
    }

    "WATCH-ORDER" alone =>
    /// a watcher that was cut off sees later writes after it has reconnected, although the server has compacted its
    /// history
    async fn watch_order_heals_a_compaction(context) {
        let (one, two) = (context.client().await, context.quiet().await);
        let (mine, theirs) = (value(&one, "a"), value(&two, "a"));
        write(&mine, "before").await;
        let mut watch = soon("watch", theirs.watch()).await.expect("watched");
        assert_eq!(next(&mut watch).await.as_deref(), Some("before"));
        let group = context.queue_of(Kind::Group, "a");
        let mut members = observed::watching(&two, &group).await;
        assert!(context.can(Fault::Cut));
        two.link.cut();
        for number in 0..5 {
            write(&mine, &number.to_string()).await;
        }
        leave(&enters(&one, &group, Claim::Shared).await.1).await;
        let compacted = context.fixture.compact().await;
        assert_eq!(compacted.is_ok(), context.can(Fault::Compact), "Fixture::can must match the fixture: {compacted:?}");
        if compacted.is_err() {
            context.leave_out("the server has no history to compact");
        }
        two.link.heal();
        until_it_shows(&mut watch, "4").await;
        write(&mine, "after").await;
        until_it_shows(&mut watch, "after").await;
        delete(&mine).await;
        news_in_the_end(&mut *members).await;
        until_quiet(&two, &mut *members).await;
        let (_, after) = enters(&one, &group, Claim::Shared).await;
        news(&mut *members).await;
        leave(&after).await;
    }

    "WATCH-ORDER" alone =>
    /// a hundred watchers of one value on one client cost the server the same as one watcher, and all see a change
    async fn watch_order_is_shared_by_the_watchers_of_a_client(context) {
        const WATCHERS: usize = 100;
        let [one, two] = context.clients().await;
        let (mine, theirs) = (value(&one, "a"), value(&two, "a"));
        let mut watches = Vec::new();
        for _ in 0..WATCHERS {
            let mut watch = soon("watch", theirs.watch()).await.expect("watched");
            assert_eq!(next(&mut watch).await, None);
            watches.push(watch);
        }
        let before = context.fixture.requests().await.ok();
        write(&mine, "new").await;
        for watch in &mut watches {
            until_it_shows(watch, "new").await;
        }
        if let Some(before) = before {
            let asked = context.requests().await - before;
            assert!(asked < WATCHERS as u64 / 2, "{asked} requests for one change");
        }
        watches.truncate(1);
        write(&mine, "newer").await;
        until_it_shows(&mut watches[0], "newer").await;
        drop(watches);
        delete(&mine).await;
    }

    "WATCH-END" =>
    /// a watch ends with a reason: its client is closed, or the cell is not a value
    async fn watch_end_reports_its_reason(context) {
        let client = context.client().await;
        let it = value(&client, "a");
        write(&it, "before").await;
        let mut watch = soon("watch", it.watch()).await.expect("watched");
        assert_eq!(next(&mut watch).await.as_deref(), Some("before"));
        delete(&it).await;
        assert_eq!(next(&mut watch).await, None);
        let waiting = tokio::spawn(async move { (watch.changed().await, watch) });
        tokio::task::yield_now().await;
        close(&client).await;
        let (ended, watch) = within(PATIENCE, "the end", waiting).await.expect("no panic");
        fails_for(ended, ErrorKind::Closed, "a", "closed");
        assert_eq!(watch.latest().map_err(|error| error.kind()), Err(ErrorKind::Closed));
        fails(soon("watch", it.watch()).await, ErrorKind::Closed, "closed");
    }

    "WATCH-END" =>
    /// a close, a death and a drop of a client end all its watches: of cells and of queues, waiting, asked before, and
    /// never asked
    async fn watch_end_of_a_client_ends_all_its_watches(context) {
        for how in ["closed", "died", "dropped"] {
            let client = context.doomed().await;
            let (label, granted) = (client.coordinator.label().to_owned(), client.ttl());
            let (cell, queue) = (context.queue_of(Kind::Value, "a"), context.queue_of(Kind::Group, "a"));
            let backend = Arc::clone(client.coordinator.backend());
            let mut all = Vec::new();
            for _ in 0..3 {
                all.extend([backend.watch_cell(&cell), backend.watch_queue(&queue)]);
            }
            drop(backend);
            for watch in &mut all[..4] {
                news(&mut **watch).await;
            }
            let waiting = all.drain(..2).map(|mut watch| tokio::spawn(async move { end_of(&mut *watch).await }));
            let waiting: Vec<_> = waiting.collect();
            tokio::task::yield_now().await;
            let link = Arc::clone(&client.link);
            match how {
                "closed" => client.coordinator.close().await.expect("closed"),
                "died" => latchwork_core::crash(&client.coordinator).await,
                _ => {}
            }
            drop(client);
            for ended in waiting {
                assert_eq!(ended.await.expect("no panic"), ErrorKind::Closed, "{how}");
            }
            for watch in &mut all {
                assert_eq!(end_of(&mut **watch).await, ErrorKind::Closed, "{how}");
            }
            drop(link);
            if how == "died" {
                context.end_lease_of(&label, granted).await;
            }
        }
    }
}
