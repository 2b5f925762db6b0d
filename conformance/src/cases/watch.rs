//! WATCH-: the news of a cell's changes.

use latchwork_core::ErrorKind;
use latchwork_core::contracts::Cell;
use latchwork_core::recipes::Watch;

use super::cell::{delete, read, rise, until_it_shows, value, write};
use crate::bounds::{PATIENCE, QUIET_TTL};
use crate::case::cases;
use crate::testbed::Fault;
use crate::waits::{soon, within};

/// The next value that a watch answers, as text.
async fn next(watch: &mut Watch<Option<Cell>>) -> Option<String> {
    let cell = soon("news", watch.changed()).await.expect("watched");
    cell.map(|cell| String::from_utf8(cell.value.to_vec()).expect("text"))
}

cases! {
    "WATCH-ORDER" =>
    /// a watch shows what is there, then the latest of what is written, deleted and made anew, in
    /// rising versions
    async fn watch_order_shows_the_latest_in_the_end(context) {
        // A watcher looks by itself once a TTL: not within this case.
        let (one, two) = (context.client().await, context.client_with(&context.config(QUIET_TTL)).await);
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
        // One at a time: each is told.
        for number in 0..5 {
            write(&mine, &number.to_string()).await;
            assert_eq!(next(&mut watch).await, Some(number.to_string()));
        }
        delete(&mine).await;
    }

    "WATCH-ORDER" =>
    /// what was written while the watcher was cut off is seen once it can reach the server again
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
    /// what was written while the watcher was cut off is seen, though the server has forgotten its
    /// history since
    async fn watch_order_heals_a_compaction(context) {
        // A watcher looks by itself once a TTL: not within this case.
        let (one, two) = (context.client().await, context.client_with(&context.config(QUIET_TTL)).await);
        let (mine, theirs) = (value(&one, "a"), value(&two, "a"));
        write(&mine, "before").await;
        let mut watch = soon("watch", theirs.watch()).await.expect("watched");
        assert_eq!(next(&mut watch).await.as_deref(), Some("before"));
        assert!(context.can(Fault::Cut));
        two.link.cut();
        for number in 0..5 {
            write(&mine, &number.to_string()).await;
        }
        let compacted = context.fixture.compact().await;
        assert_eq!(compacted.is_ok(), context.can(Fault::Compact), "the testbed says what it can: {compacted:?}");
        if compacted.is_err() {
            // Played as a cut alone.
            context.leave_out("no history");
        }
        two.link.heal();
        until_it_shows(&mut watch, "4").await;
        write(&mine, "after").await;
        until_it_shows(&mut watch, "after").await;
        delete(&mine).await;
    }

    "WATCH-ORDER" alone =>
    /// a hundred watchers of one value on one client cost the server what one does, and all of them
    /// see a change
    async fn watch_order_is_shared_by_the_watchers_of_a_client(context) {
        const WATCHERS: usize = 100;
        let (one, two) = (context.client().await, context.client().await);
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
            let asked = context.fixture.requests().await.expect("counted") - before;
            assert!(asked < WATCHERS as u64 / 2, "{asked} requests for one change");
        }
        // The last one goes on alone.
        watches.truncate(1);
        write(&mine, "newer").await;
        until_it_shows(&mut watches[0], "newer").await;
        drop(watches);
        delete(&mine).await;
    }

    "WATCH-END" =>
    /// a watch ends with a reason: when its client is closed, or something else than a value stands
    /// there
    async fn watch_end_tells_why(context) {
        let client = context.client().await;
        let it = value(&client, "a");
        write(&it, "before").await;
        let mut watch = soon("watch", it.watch()).await.expect("watched");
        assert_eq!(next(&mut watch).await.as_deref(), Some("before"));
        delete(&it).await;
        assert_eq!(next(&mut watch).await, None);
        let waiting = tokio::spawn(async move { (watch.changed().await, watch) });
        tokio::task::yield_now().await;
        client.coordinator.close().await.expect("closed");
        let (ended, watch) = within(PATIENCE, "the end", waiting).await.expect("no panic");
        let error = ended.expect_err("closed");
        assert_eq!((error.kind(), error.key()), (ErrorKind::Closed, Some("a")), "{error}");
        assert_eq!(watch.latest().map_err(|error| error.kind()), Err(ErrorKind::Closed));
        let error = soon("watch", it.watch()).await.expect_err("closed");
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    }
}
