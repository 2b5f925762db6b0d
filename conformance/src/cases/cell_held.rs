//! CELL-HELD: cells that are written under a hold.

use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::{CellWritten, Joined, Node, VersionedValue};
use latchwork_core::{Address, CellLife, Claim, Error, ErrorKind, Expected, Kind, LostReason};

use super::cell::{delete, text, value, write};
use crate::actions::{acquire, join, mutex};
use crate::bounds::QUIET_TTL;
use crate::case::cases;
use crate::cell_actions::{self, deletion, lasting, put, refused, written};
use crate::context::Context;
use crate::testbed::{Client, Fault};
use crate::waits::soon;

/// Far longer than the way of another client's requests.
const SLOW: Duration = Duration::from_millis(300);

/// The first node of a queue.
async fn held_node(client: &Client, queue: &Address, claim: Claim) -> Arc<dyn Node> {
    match join(client, queue, claim).await {
        Joined::Admitted(node) => node,
        other => panic!("the queue is free: {other:?}"),
    }
}

/// Removes a node from outside, so that its owner has not heard of it when this returns.
async fn remove(context: &Context, queue: &Address, sequence: u64) {
    assert!(context.can(Fault::Remove));
    context.fixture.remove(queue, sequence).await.expect("removed");
}

fn is_revoked(error: &Error) {
    assert_eq!(error.lost_reason(), Some(LostReason::Revoked), "{error}");
}

cases! {
    "CELL-HELD" =>
    /// a write under a hold is made during the hold, and never after its release, its removal or the close of its client:
    /// for each kind of hold, with and without a waiter, with the cell's own condition, for lasting and ephemeral cells
    async fn cell_held_is_written_only_while_the_hold_stands(context) {
        let (one, two) = (context.client().await, context.client().await);
        let it = value(&one, "a");
        let guard = soon("acquire", one.coordinator.mutex("a").expect("a good key").acquire()).await.expect("acquired");
        soon("write_while", it.write_while(&guard, "held")).await.expect("it is held");
        assert_eq!(text(&value(&two, "a")).await.as_deref(), Some("held"));
        guard.release().await.expect("released");
        let error = soon("write_while", it.write_while(&guard, "no")).await.expect_err("released");
        assert_eq!((error.kind(), error.key()), (ErrorKind::NotHeld, Some("a")), "{error}");
        assert_eq!(text(&it).await.as_deref(), Some("held"));
        delete(&it).await;
        let claims = [(Kind::Mutex, Claim::Exclusive), (Kind::RwLock, Claim::Exclusive), (Kind::Semaphore, Claim::Permits(2))];
        for (number, (kind, claim)) in claims.into_iter().cycle().take(6).enumerate() {
            let (is_contended, is_removed) = (number >= 3, number % 2 == 0);
            let key = format!("{}-{is_contended}", kind.as_str());
            let (queue, cell) = (context.queue_of(kind, &key), context.queue_of(Kind::Value, &key));
            let node = held_node(&one, &queue, claim).await;
            let behind = if is_contended { Some(join(&two, &queue, claim).await) } else { None };
            let held = async |write| soon("write", node.write_cell(&cell, &write)).await;
            let first = written(held(lasting(Expected::Absent, "one", CellLife::Lease)).await);
            assert_eq!(refused(held(put(Expected::Absent, "no")).await).map(|cell| cell.version), Some(first));
            let second = written(held(put(Expected::Version(first), "two")).await);
            let now = VersionedValue { version: second, value: b"two"[..].into() };
            assert_eq!(refused(held(put(Expected::Version(first), "no")).await), Some(now.clone()));
            assert_eq!(cell_actions::read(&two, &cell).await, Some(now), "{key}");
            let deleted = held(deletion(Expected::Version(second))).await.expect("it stands");
            assert_eq!(deleted, CellWritten::Deleted { was_there: true });
            for expected in [Expected::Any, Expected::Absent] {
                let deleted = held(deletion(expected)).await.expect("it stands");
                assert_eq!(deleted, CellWritten::Deleted { was_there: false });
            }
            let last = written(held(put(Expected::Any, "held")).await);
            match is_removed {
                true => remove(context, &queue, node.state().sequence()).await,
                false => _ = soon("leave", node.leave()).await.expect("left"),
            }
            for write in [
                put(Expected::Any, "no"),
                put(Expected::Absent, "no"),
                lasting(Expected::Version(last), "no", CellLife::Lease),
                deletion(Expected::Any),
                deletion(Expected::Version(last)),
            ] {
                let error = held(write).await.expect_err("its node is gone");
                match is_removed {
                    true => is_revoked(&error),
                    false => assert!(matches!(error.kind(), ErrorKind::NotHeld | ErrorKind::Lost(_)), "{key}: {error}"),
                }
            }
            if is_removed {
                assert_eq!(soon("the loss", node.state().until_lost()).await, LostReason::Revoked);
            }
            assert_eq!(cell_actions::text(&two, &cell).await.as_deref(), Some("held"), "{key}");
            assert!(cell_actions::delete(&two, &cell).await);
            if let Some(Joined::Waiting(next)) = behind {
                soon("the next", next.admitted()).await.expect("admitted");
                soon("leave", next.leave()).await.expect("left");
            }
        }
        let (queue, cell) = (context.queue_of(Kind::Mutex, "closed"), context.queue_of(Kind::Value, "closed"));
        let node = held_node(&one, &queue, Claim::Exclusive).await;
        soon("close", one.coordinator.close()).await.expect("closed");
        let error = soon("write", node.write_cell(&cell, &put(Expected::Any, "no"))).await.expect_err("closed");
        let is_closed = error.kind() == ErrorKind::Closed || error.lost_reason() == Some(LostReason::Closed);
        assert!(is_closed, "{error}");
        assert_eq!(cell_actions::read(&two, &cell).await, None);
    }

    "CELL-HELD" =>
    /// the server decides: a removed hold writes nothing, even before its client hears of the removal
    async fn cell_held_is_decided_by_the_server(context) {
        let (one, two) = (context.client_with(&context.config(QUIET_TTL)).await, context.client().await);
        let (queue, cell) = (context.queue_of(Kind::Mutex, "a"), context.queue_of(Kind::Value, "a"));
        let now = cell_actions::write(&two, &cell, put(Expected::Any, "kept")).await;
        for write in [
            put(Expected::Any, "no"),
            put(Expected::Version(now), "no"),
            deletion(Expected::Any),
            deletion(Expected::Version(now)),
        ] {
            let node = held_node(&one, &queue, Claim::Exclusive).await;
            one.link.delay(SLOW);
            remove(context, &queue, node.state().sequence()).await;
            // In memory it hears of that at once.
            assert!(node.state().lost().is_none() || context.testbed.is_paused());
            is_revoked(&soon("write", node.write_cell(&cell, &write)).await.expect_err("it was removed"));
            assert_eq!(soon("the loss", node.state().until_lost()).await, LostReason::Revoked);
            one.link.heal();
            assert_eq!(cell_actions::read(&two, &cell).await.map(|cell| cell.version), Some(now), "{write:?}");
        }
        // Nor is a cell made.
        let (node, absent) = (held_node(&one, &queue, Claim::Exclusive).await, context.queue_of(Kind::Counter, "a"));
        remove(context, &queue, node.state().sequence()).await;
        is_revoked(&soon("write", node.write_cell(&absent, &put(Expected::Any, "no"))).await.expect_err("it was removed"));
        assert_eq!(cell_actions::read(&two, &absent).await, None);
        cell_actions::delete(&two, &cell).await;
    }

    "CELL-HELD" =>
    /// a write under a hold that arrives after the end of the lease, or during the next hold, is not made
    async fn cell_held_is_not_written_late_beside_the_next_holder(context) {
        let two = context.client().await;
        for (key, is_removed) in [("fenced", true), ("over", false)] {
            // No renewal names its node while the write is to be caught.
            let one = context.doomed().await;
            let (guard, mine, theirs) = (acquire(&mutex(&one, key)).await, value(&one, key), value(&two, key));
            write(&theirs, "before").await;
            let mut late = one.link.park(key);
            // A server drops the late request if the session reconnects.
            one.link.refuse();
            let (answer, caught) = tokio::join!(soon("write", mine.write_while(&guard, "late")), soon("catch", late.caught()));
            caught.expect("caught");
            let error = answer.expect_err("its connection was lost");
            assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
            if is_removed {
                remove(context, &context.queue(key), guard.token().sequence()).await;
            } else {
                one.link.cut();
                context.outlast(&one);
                context.end_lease(&one).await;
            }
            let next = acquire(&mutex(&two, key)).await;
            write(&theirs, "next").await;
            soon("deliver", late.deliver()).await;
            assert_eq!(text(&theirs).await.as_deref(), Some("next"));
            one.link.heal();
            next.release().await.expect("released");
            delete(&theirs).await;
        }
    }

    "CELL-HELD" =>
    /// a write under a hold of another key is made where that is promised, and else refused as
    /// unsupported
    async fn cell_held_by_another_key_is_written_or_refused(context) {
        let client = context.client().await;
        // Several: in a cluster some of them may happen to be in one slot with the value.
        let (it, promised) = (value(&client, "a"), client.coordinator.capabilities().held_writes);
        let mut refused = 0;
        for key in ["m", "n", "o"] {
            let mutex = client.coordinator.mutex(key).expect("a good key");
            let guard = soon("acquire", mutex.acquire()).await.expect("acquired");
            match soon("write_while", it.write_while(&guard, "held")).await {
                Ok(_) => {}
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::Unsupported { capability: "held_writes" }), "{error}");
                    refused += 1;
                }
            }
            guard.release().await.expect("released");
        }
        assert_eq!(promised, refused == 0, "{refused} of 3 are refused");
        assert_eq!(text(&it).await.is_some(), promised);
        if promised {
            delete(&it).await;
        }
    }
}
