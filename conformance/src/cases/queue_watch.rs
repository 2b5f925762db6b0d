//! WATCH-QUEUE: watches of queues.

use std::sync::Arc;

use latchwork_core::backend::{EntryPage, QueueEntry};
use latchwork_core::{Claim, ErrorKind, Kind};

use super::observed::{claims, data, join, leave, until_it_is, watching, write};
use super::watch::{end_of, news_in_the_end};
use crate::actions::{close, entries, is_quiet, until_quiet};
use crate::case::cases;
use crate::testbed::Fault;
use crate::waits::{soon, within};

cases! {
    "WATCH-QUEUE" =>
    /// a watch of a queue reports nodes that join, leave and are admitted, and new data
    async fn watch_queue_reports_each_change(context) {
        let [one, two] = context.clients().await;
        for kind in [Kind::Election, Kind::Group, Kind::Clients] {
            let (queue, beside) = (context.queue_of(kind, "watched"), context.queue_of(kind, "watched-too"));
            let here = (&two, &queue);
            let mut watch = watching(&two, &queue).await;
            let claim = claims(kind)[0];
            for _ in 0..3 {
                until_quiet(&two, &mut *watch).await;
                for data in [b"one", b"two"] {
                    let other = join(&one, &beside, claim, b"first").await;
                    write(&other, data).await.expect("it stands");
                    leave(other).await;
                }
                assert!(is_quiet(&two, &mut *watch).await || is_quiet(&two, &mut *watch).await, "{kind:?}");
                let first = join(&one, &queue, claim, b"first").await;
                soon("the first", until_it_is(&mut watch, here, |all| data(all) == [b"first"])).await;
                let second = join(&one, &queue, claim, b"second").await;
                soon("the second", until_it_is(&mut watch, here, |all| all.len() == 2)).await;
                write(&second, b"changed").await.expect("it stands");
                soon("a change", until_it_is(&mut watch, here, |all| data(all).contains(&&b"changed"[..]))).await;
                leave(first).await;
                let is_admitted = |all: &[QueueEntry]| all.len() == 1 && all[0].admitted;
                soon("an admission", until_it_is(&mut watch, here, is_admitted)).await;
                context.remove(&queue, second.state().sequence()).await;
                soon("a removal", until_it_is(&mut watch, here, <[QueueEntry]>::is_empty)).await;
            }
        }
    }

    "WATCH-QUEUE" clock =>
    /// a watch reports the death of a client after its node is gone, without other requests for the queue
    async fn watch_queue_reports_a_death(context) {
        let watcher = context.client().await;
        for kind in [Kind::Election, Kind::Group] {
            let dies = context.doomed().await;
            let queue = context.queue_of(kind, "watched");
            let mut watch = watching(&watcher, &queue).await;
            let _node = join(&dies, &queue, claims(kind)[0], b"").await;
            soon("the join", until_it_is(&mut watch, (&watcher, &queue), |all| all.len() == 1)).await;
            context.kill(&dies).await;
            let death = until_it_is(&mut watch, (&watcher, &queue), <[QueueEntry]>::is_empty);
            within(context.over(&dies), "the watch reports the death", death).await;
        }
    }

    "WATCH-QUEUE" =>
    /// after a gap the watch reports it, even if the queue is unchanged and if the lease was lost in the gap; then it
    /// is quiet, and then it reports each change again
    async fn watch_queue_heals_a_gap(context) {
        let (one, two) = (context.client().await, context.quiet().await);
        let queue = context.queue_of(Kind::Group, "watched");
        let mut watch = watching(&two, &queue).await;
        assert!(context.can(Fault::Cut));
        for (stays, loses) in [(true, false), (false, false), (false, true)] {
            let lease = two.coordinator.lease();
            two.link.cut();
            let meanwhile = join(&one, &queue, Claim::Shared, b"meanwhile").await;
            if !stays {
                leave(Arc::clone(&meanwhile)).await;
            }
            if loses {
                lease.clock().jump(lease.ttl());
                soon("the loss", lease.until_lost()).await;
            }
            two.link.heal();
            news_in_the_end(&mut *watch).await;
            let backend = two.coordinator.backend();
            soon("the way back", async { while backend.list(&queue, EntryPage::new(0, 9)).await.is_err() {} }).await;
            let there: &[&[u8]] = if stays { &[b"meanwhile"] } else { &[] };
            while data(&entries(&two, &queue).await) != there {
                soon("news", watch.changed()).await.expect("watched");
            }
            until_quiet(&two, &mut *watch).await;
            let node = join(&one, &queue, Claim::Shared, b"after it").await;
            soon("a join", until_it_is(&mut watch, (&two, &queue), |all| data(all).contains(&&b"after it"[..]))).await;
            leave(node).await;
            soon("a leave", until_it_is(&mut watch, (&two, &queue), |all| data(all) == there)).await;
            if stays {
                leave(meanwhile).await;
                soon("a leave", until_it_is(&mut watch, (&two, &queue), <[QueueEntry]>::is_empty)).await;
            }
        }
    }

    "WATCH-QUEUE" =>
    /// a watcher that lists after each answer sees the last of many changes
    async fn watch_queue_shows_the_last_of_many_changes(context) {
        let (one, two) = (context.client().await, context.quiet().await);
        for round in 0..5 {
            let queue = context.queue_of(Kind::Group, &format!("many-{round}"));
            let mut watch = two.coordinator.backend().watch_queue(&queue);
            let shown = soon("the last", until_it_is(&mut watch, (&two, &queue), |all| data(all) == [b"last"]));
            let changes = async {
                for turn in 0..10 {
                    let node = join(&one, &queue, Claim::Shared, b"first").await;
                    write(&node, b"second").await.expect("it stands");
                    tokio::task::yield_now().await;
                    if turn == 9 {
                        write(&node, b"last").await.expect("it stands");
                        return node;
                    }
                    leave(node).await;
                }
                unreachable!("the last stays")
            };
            let ((), node) = tokio::join!(shown, changes);
            leave(node).await;
        }
    }

    "WATCH-QUEUE" =>
    /// a watch ends with its client, and a watch of a queue of a kind without watches is refused
    async fn watch_queue_ends_with_a_reason(context) {
        let client = context.client().await;
        for kind in [Kind::Mutex, Kind::RwLock, Kind::Semaphore, Kind::Barrier, Kind::DoubleBarrier] {
            let mut refused = client.coordinator.backend().watch_queue(&context.queue_of(kind, "a"));
            let error = soon("the refusal", refused.changed()).await.expect_err("not observed");
            assert!(matches!(error.kind(), ErrorKind::Unsupported { capability: "watch_queue" }), "{kind:?}: {error}");
        }
        let mut watch = watching(&client, &context.queue_of(Kind::Group, "a")).await;
        let waiting = tokio::spawn(async move { end_of(&mut *watch).await });
        tokio::task::yield_now().await;
        close(&client).await;
        assert_eq!(soon("the end", waiting).await.expect("no panic"), ErrorKind::Closed);
    }
}
