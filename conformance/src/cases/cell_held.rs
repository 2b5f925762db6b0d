//! CELL-HELD: cells written under a hold.

use std::time::Duration;

use latchwork_core::{CellLife, Claim, ErrorKind, Expected, Kind, LostReason};

use super::cell::{delete, text, value, write};
use crate::actions::{acquire, admitted, caught, close, leave, mutex, take_a_turn, waiting};
use crate::case::cases;
use crate::cell_actions::{self, deleted, deletion, lasting, put, refused, shown, written};
use crate::errors::{fails, fails_for, is_lost};
use crate::waits::soon;

/// Longer than other clients' requests.
const SLOW: Duration = Duration::from_millis(300);

cases! {
    "CELL-HELD" =>
    /// a write under a hold is made during the hold, and never after its release, its removal or the close of its
    /// client: for each kind of hold, with and without a waiter, with a condition on the cell, for lasting and
    /// ephemeral cells
    async fn cell_held_write_succeeds_only_during_the_hold(context) {
        let [one, two] = context.clients().await;
        let it = value(&one, "a");
        let guard = acquire(&mutex(&one, "a")).await;
        soon("write_while", it.write_while(&guard, "held")).await.expect("it is held");
        assert_eq!(text(&value(&two, "a")).await.as_deref(), Some("held"));
        guard.release().await.expect("released");
        fails_for(soon("write_while", it.write_while(&guard, "no")).await, ErrorKind::NotHeld, "a", "released");
        assert_eq!(text(&it).await.as_deref(), Some("held"));
        delete(&it).await;
        let claims = [(Kind::Mutex, Claim::Exclusive), (Kind::RwLock, Claim::Exclusive), (Kind::Semaphore, Claim::Permits(2))];
        for (number, (kind, claim)) in claims.into_iter().cycle().take(6).enumerate() {
            let (is_contended, is_removed) = (number >= 3, number % 2 == 0);
            let key = format!("{}-{is_contended}", kind.as_str());
            let (queue, cell) = (context.queue_of(kind, &key), context.queue_of(Kind::Value, &key));
            let node = admitted(&one, &queue, claim).await;
            let behind = if is_contended { Some(waiting(&two, &queue, claim).await) } else { None };
            let held = async |write| soon("write", node.write_cell(&cell, &write)).await;
            let first = written(held(lasting(Expected::Absent, "one", CellLife::Lease)).await);
            assert_eq!(refused(held(put(Expected::Absent, "no")).await).map(|cell| cell.version), Some(first));
            let second = written(held(put(Expected::Version(first), "two")).await);
            let now = shown(second, "two");
            assert_eq!(refused(held(put(Expected::Version(first), "no")).await), Some(now.clone()));
            assert_eq!(cell_actions::read(&two, &cell).await, Some(now), "{key}");
            assert!(deleted(held(deletion(Expected::Version(second))).await));
            for expected in [Expected::Any, Expected::Absent] {
                assert!(!deleted(held(deletion(expected)).await));
            }
            let last = written(held(put(Expected::Any, "held")).await);
            match is_removed {
                true => context.remove(&queue, node.state().sequence()).await,
                false => leave(&node).await,
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
                    true => assert_eq!(error.lost_reason(), Some(LostReason::Revoked), "{key}: {error}"),
                    false => assert!(matches!(error.kind(), ErrorKind::NotHeld | ErrorKind::Lost(_)), "{key}: {error}"),
                }
            }
            if is_removed {
                assert_eq!(soon("the loss", node.state().until_lost()).await, LostReason::Revoked);
            }
            assert_eq!(cell_actions::text(&two, &cell).await.as_deref(), Some("held"), "{key}");
            assert!(cell_actions::delete(&two, &cell).await);
            if let Some(next) = behind {
                take_a_turn(&next).await;
            }
        }
        let (queue, cell) = (context.queue_of(Kind::Mutex, "closed"), context.queue_of(Kind::Value, "closed"));
        let node = admitted(&one, &queue, Claim::Exclusive).await;
        close(&one).await;
        let error = soon("write", node.write_cell(&cell, &put(Expected::Any, "no"))).await.expect_err("closed");
        let is_closed = error.kind() == ErrorKind::Closed || error.lost_reason() == Some(LostReason::Closed);
        assert!(is_closed, "{error}");
        assert_eq!(cell_actions::read(&two, &cell).await, None);
    }

    "CELL-HELD" =>
    /// the server decides: a removed hold writes nothing, even before its client notices the removal
    async fn cell_held_is_decided_by_the_server(context) {
        let (one, two) = (context.quiet().await, context.client().await);
        let (queue, cell) = (context.queue_of(Kind::Mutex, "a"), context.queue_of(Kind::Value, "a"));
        let now = cell_actions::write(&two, &cell, put(Expected::Any, "kept")).await;
        for write in [
            put(Expected::Any, "no"),
            put(Expected::Version(now), "no"),
            deletion(Expected::Any),
            deletion(Expected::Version(now)),
        ] {
            let node = admitted(&one, &queue, Claim::Exclusive).await;
            one.link.delay(SLOW);
            context.remove(&queue, node.state().sequence()).await;
            assert!(node.state().lost().is_none() || context.testbed.is_paused());
            is_lost(soon("write", node.write_cell(&cell, &write)).await, LostReason::Revoked);
            assert_eq!(soon("the loss", node.state().until_lost()).await, LostReason::Revoked);
            one.link.heal();
            assert_eq!(cell_actions::read(&two, &cell).await.map(|cell| cell.version), Some(now), "{write:?}");
        }
        let (node, absent) = (admitted(&one, &queue, Claim::Exclusive).await, context.queue_of(Kind::Counter, "a"));
        context.remove(&queue, node.state().sequence()).await;
        is_lost(soon("write", node.write_cell(&absent, &put(Expected::Any, "no"))).await, LostReason::Revoked);
        assert_eq!(cell_actions::read(&two, &absent).await, None);
        cell_actions::delete(&two, &cell).await;
    }

    "CELL-HELD" =>
    /// a write under a hold that arrives after the end of the lease, or during the next hold, is not made
    async fn cell_held_late_write_is_not_made_in_the_next_hold(context) {
        let two = context.client().await;
        for (key, is_removed) in [("fenced", true), ("over", false)] {
            // No renewal may name its node.
            let one = context.doomed().await;
            let (guard, mine, theirs) = (acquire(&mutex(&one, key)).await, value(&one, key), value(&two, key));
            write(&theirs, "before").await;
            let mut late = one.link.park(key);
            // After a reconnect of the session, a server drops the late request.
            one.link.refuse();
            let answer = caught(&mut *late, mine.write_while(&guard, "late")).await;
            fails(answer, ErrorKind::OutcomeUnknown, "its connection was lost");
            match is_removed {
                true => context.remove(&context.queue(key), guard.token().sequence()).await,
                false => context.cut_off(&one).await,
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
    /// a write under a hold of another key is made if the backend promises it, and is otherwise refused as unsupported
    async fn cell_held_by_another_key_is_written_or_refused(context) {
        let client = context.client().await;
        // In a cluster, one may share the value's slot.
        let (it, promised) = (value(&client, "a"), client.coordinator.capabilities().held_writes);
        let mut refused = 0;
        for key in ["m", "n", "o"] {
            let guard = acquire(&mutex(&client, key)).await;
            if let Err(error) = soon("write_while", it.write_while(&guard, "held")).await {
                assert_eq!(error.kind(), ErrorKind::Unsupported { capability: "held_writes" }, "{error}");
                refused += 1;
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
