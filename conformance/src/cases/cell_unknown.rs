//! CELL-UNKNOWN: writes without an answer.

use std::collections::BTreeSet;
use std::time::Duration;

use latchwork_core::backend::CellWritten;
use latchwork_core::recipes::Compared;
use latchwork_core::{CellLife, Claim, ErrorKind, Expected, Kind};

use super::cell::value;
use crate::actions::{admitted, caught, leave_in_the_end};
use crate::bounds::QUIET_TTL;
use crate::case::cases;
use crate::cell_actions::{ask, delete, deletion, lasting, put, read, refused, text, write, written};
use crate::errors::fails;
use crate::waits::{soon, until};

cases! {
    "CELL-UNKNOWN" =>
    /// a write whose reply is lost is reported as unknown, or the backend finds out its outcome; it is made once, with
    /// each condition, with and without a hold
    async fn cell_unknown_write_is_reported_and_made_once(context) {
        // No renewal may name the node.
        let (one, two) = (context.quiet().await, context.client().await);
        // A request that watches the node must not be the one without a reply. In a cluster both keys share a
        // slot.
        let holds = if one.coordinator.capabilities().held_writes { "holds" } else { "unknown" };
        let node = admitted(&one, &context.queue_of(Kind::Mutex, holds), Claim::Exclusive).await;
        // The first held write loads its script on Redis.
        let held = context.queue_of(Kind::Value, "unknown");
        written(soon("write", node.write_cell(&held, &put(Expected::Any, "first"))).await);
        let guesses = one.coordinator.backend().name() == "zookeeper" && one.coordinator.capabilities().idle_cells;
        for (key, is_held) in [("unheld", false), ("unknown", true)] {
            let cell = context.queue_of(Kind::Value, key);
            let before = write(&two, &cell, put(Expected::Any, "before")).await;
            let asked = [
                put(Expected::Version(before), "value-one"),
                put(Expected::Any, "value-two"),
                deletion(Expected::Any),
                put(Expected::Absent, "value-four"),
                // Last: on Redis later renewals name the cell too.
                lasting(Expected::Any, "value-five", CellLife::Lease),
            ];
            for asked in asked {
                let was = read(&two, &cell).await.map(|cell| cell.version);
                // On Redis a renewal may name the cell first, but not the value.
                let named = asked.value.as_deref().map_or(key, |value| std::str::from_utf8(value).expect("text"));
                let mut lost = one.link.drop_reply(named);
                let asking = async {
                    match is_held {
                        true => soon("write", node.write_cell(&cell, &asked)).await,
                        false => ask(&one, &cell, &asked).await,
                    }
                };
                let newer = async {
                    soon("drop", lost.caught()).await.expect("dropped");
                    // The dropped bytes may be an earlier reply.
                    let is_made = async || {
                        let made = read(&two, &cell).await;
                        made.as_ref().map(|cell| &cell.value) == asked.value.as_ref()
                    };
                    if !guesses {
                        until("it is made", &is_made).await;
                    }
                    let is_made = is_made().await;
                    let made = read(&two, &cell).await.map(|cell| cell.version).filter(|_| is_made);
                    (made, write(&two, &cell, put(Expected::Any, "newer")).await)
                };
                let (answer, (made, newer)) = tokio::join!(asking, newer);
                match answer {
                    Ok(CellWritten::Written(version)) => assert_eq!(Some(version), made, "found out wrongly"),
                    Ok(CellWritten::Deleted { was_there }) => assert!(was_there && made.is_none(), "found out wrongly"),
                    Ok(other) => panic!("{asked:?}: {other:?}"),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}"),
                }
                let now = read(&two, &cell).await.map(|cell| cell.version);
                assert_eq!(now, Some(newer), "{asked:?} was made a second time, over a newer write");
                if let Some(was) = was {
                    assert!(refused(ask(&two, &cell, &put(Expected::Version(was), "no")).await).is_some());
                }
                if asked.value.is_none() {
                    assert!(delete(&two, &cell).await);
                }
            }
            delete(&two, &cell).await;
        }
        leave_in_the_end(&node).await;
    }

    "CELL-UNKNOWN" =>
    /// a late write or deletion is not made if its version is gone, even if the cell was created again with the same value;
    /// it is made if its condition still holds
    async fn cell_unknown_late_write_meets_another_version(context) {
        let two = context.client().await;
        for (is_deletion, since) in [(false, "over"), (false, "anew"), (true, "over"), (true, "anew"), (false, "")] {
            let (one, cell) = (context.client().await, context.queue_of(Kind::Value, "late"));
            let before = Expected::Version(write(&one, &cell, put(Expected::Any, "before")).await);
            let asked = if is_deletion { deletion(before) } else { put(before, "late") };
            let mut late = one.link.park("late");
            one.link.refuse();
            let answer = caught(&mut *late, ask(&one, &cell, &asked)).await;
            fails(answer, ErrorKind::OutcomeUnknown, "its connection was lost");
            assert_eq!(text(&two, &cell).await.as_deref(), Some("before"));
            match since {
                "over" => _ = write(&two, &cell, put(before, "after")).await,
                "anew" => {
                    assert!(delete(&two, &cell).await);
                    write(&two, &cell, put(Expected::Absent, "before")).await;
                }
                _ => {}
            }
            let there = read(&two, &cell).await;
            soon("deliver", late.deliver()).await;
            match since.is_empty() {
                true => until("it lands", || async { text(&two, &cell).await.as_deref() == Some("late") }).await,
                false => assert_eq!(read(&two, &cell).await, there, "{asked:?}, {since}"),
            }
            one.link.heal();
            delete(&two, &cell).await;
        }
        let (one, key) = (context.client().await, "late-set");
        let (mine, theirs) = (value(&one, key), value(&two, key));
        let before = soon("write", mine.write("before")).await.expect("written");
        let mut late = one.link.park(key);
        let answer = caught(&mut *late, mine.compare_and_set(Expected::Version(before), "late")).await;
        let error = fails(answer, ErrorKind::OutcomeUnknown, "its connection was lost");
        assert_eq!(error.operation(), Some("compare_and_set"), "{error}");
        let after = soon("write", theirs.compare_and_set(Expected::Version(before), "after")).await.expect("answered");
        assert!(matches!(after, Compared::Stored(_)), "{after:?}");
        soon("deliver", late.deliver()).await;
        assert_eq!(text(&two, theirs.address()).await.as_deref(), Some("after"));
        delete(&two, theirs.address()).await;
    }

    "CELL-UNKNOWN" =>
    /// while the server is silent, a write is unknown and a read is unavailable; a request that was not sent is
    /// unavailable, and is never made
    async fn cell_unknown_only_for_requests_that_were_sent(context) {
        let one = context.client_by(QUIET_TTL, |config| config.request_timeout = Duration::from_secs(2)).await;
        let (two, cell) = (context.client().await, context.queue_of(Kind::Value, "a"));
        let backend = one.coordinator.backend();
        write(&one, &cell, put(Expected::Any, "before")).await;
        if one.link.silence() {
            fails(ask(&one, &cell, &put(Expected::Any, "silent")).await, ErrorKind::OutcomeUnknown, "nothing comes back");
            fails(soon("read", backend.read_cell(&cell)).await, ErrorKind::Unavailable, "nothing comes back");
            one.link.heal();
            until("it is made", || async { text(&two, &cell).await.as_deref() == Some("silent") }).await;
            soon("the way back", async { while backend.read_cell(&cell).await.is_err() {} }).await;
        } else {
            context.leave_out("the fixture cannot hold replies");
        }
        one.link.cut();
        // Over HTTP/2 a request may go out at a connect.
        let knows = backend.name() != "etcd";
        let mut never = BTreeSet::new();
        for number in 0..9 {
            let unsent = format!("unsent {number}");
            match ask(&one, &cell, &put(Expected::Any, &unsent)).await.expect_err("the link is cut").kind() {
                ErrorKind::Unavailable => _ = never.insert(unsent),
                // It may have been under way at the cut.
                kind => assert_eq!(kind, ErrorKind::OutcomeUnknown),
            }
            if never.len() == 3 {
                break;
            }
        }
        assert!(!knows || never.len() == 3, "a request that was not sent must be unavailable, not unknown");
        fails(soon("read", backend.read_cell(&cell)).await, ErrorKind::Unavailable, "the link is cut");
        one.link.heal();
        soon("the way back", async { while backend.read_cell(&cell).await.is_err() {} }).await;
        let there = text(&two, &cell).await.expect("nothing deletes it");
        assert!(!never.contains(&there), "{there:?} was reported as not sent");
        delete(&two, &cell).await;
    }
}
