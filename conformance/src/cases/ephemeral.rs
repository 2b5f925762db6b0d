//! CELL-EPHEMERAL: cells that live as long as a lease.

use futures_util::future::join_all;
use latchwork_core::backend::CellWritten;
use latchwork_core::{Address, CellLife, Claim, Expected, Kind, Version};

use super::cell::rise;
use super::watch::{news, watching};
use crate::actions::{admitted, close, in_the_end, leave};
use crate::bounds::{NOISE, SHORT_TTL};
use crate::case::cases;
use crate::cell_actions::{self, ask, deletion, lasting, put, read, refused, text, written};
use crate::context::Context;
use crate::testbed::Client;
use crate::waits::{is_live, soon, until, within};

fn cell(context: &Context) -> Address {
    context.queue_of(Kind::Value, "ephemeral")
}

pub(super) async fn write(client: &Client, cell: &Address, text: &str, life: CellLife) -> Version {
    cell_actions::write(client, cell, lasting(Expected::Any, text, life)).await
}

cases! {
    "CELL-EPHEMERAL" clock =>
    /// the client that wrote an ephemeral cell keeps it alive; the cell is gone at once after the close of the client
    async fn cell_ephemeral_lives_as_long_as_its_client(context) {
        let writes = context.client_with(&context.config(2 * SHORT_TTL)).await;
        let (reads, cell) = (context.client().await, cell(context));
        write(&writes, &cell, "here", CellLife::Lease).await;
        // Without renewals the cell would be gone.
        tokio::time::sleep(writes.ttl() + context.fixture.expiry_bound() + NOISE).await;
        assert_eq!(text(&reads, &cell).await.as_deref(), Some("here"));
        let mut watch = watching(&reads, &cell).await;
        close(&writes).await;
        assert_eq!(read(&reads, &cell).await, None);
        news(&mut *watch).await;
    }

    "CELL-EPHEMERAL" clock =>
    /// the ephemeral cell of a dead client is gone within its TTL and a bound, and watches are notified without other
    /// requests for it
    async fn cell_ephemeral_goes_with_a_dead_client(context) {
        let (dies, reads, cell) = (context.mortal().await, context.client().await, cell(context));
        write(&dies, &cell, "here", CellLife::Lease).await;
        let mut watch = watching(&reads, &cell).await;
        latchwork_core::crash(&dies.coordinator).await;
        within(context.recovery(&dies), "the watch reports the end of the cell", async {
            loop {
                watch.changed().await.expect("watched");
                if read(&reads, &cell).await.is_none() {
                    return;
                }
            }
        })
        .await;
    }

    "CELL-EPHEMERAL" =>
    /// the last write decides how long a cell stays: any client takes over any cell, or makes it lasting; versions rise
    /// with each write, and an earlier version is refused
    async fn cell_ephemeral_is_decided_by_the_last_write(context) {
        let (clients, reads): ([_; 2], _) = (context.clients().await, context.client().await);
        // The client of the lease. `None` stays.
        let owners = [None, Some(0), Some(1)];
        let mut cells = Vec::new();
        for (from, before) in owners.into_iter().enumerate() {
            for (to, after) in owners.into_iter().enumerate() {
                for is_any in [true, false] {
                    let cell = context.queue_of(Kind::Value, &format!("{from}-{to}-{is_any}"));
                    cells.push((cell, before, after, is_any));
                }
            }
        }
        let by = |owner: Option<usize>, expected, text| match owner {
            Some(owner) => (&clients[owner], lasting(expected, text, CellLife::Lease)),
            None => (&clients[1], put(expected, text)),
        };
        join_all(cells.iter().map(async |(cell, before, after, is_any)| {
            let mut versions: Vec<Version> = Vec::new();
            for (owner, text) in [(before, "before"), (after, "after"), (after, "again")] {
                let expected = versions.last().filter(|_| !is_any).map_or(Expected::Any, |last| Expected::Version(*last));
                let (client, write) = by(*owner, expected, text);
                versions.push(cell_actions::write(client, cell, write).await);
            }
            assert!(rise(&versions), "{versions:?}");
            for old in &versions[..2] {
                let old = Expected::Version(*old);
                for write in [put(old, "late"), lasting(old, "late", CellLife::Lease), deletion(old)] {
                    let there = refused(ask(&reads, cell, &write).await).expect("it is there");
                    assert_eq!((there.version, &*there.value), (versions[2], &b"again"[..]), "{cell}: {write:?}");
                }
            }
        }))
        .await;
        for closed in 0..3 {
            for (cell, _, owner, _) in &cells {
                let there = owner.is_none_or(|owner| owner >= closed);
                assert_eq!(text(&reads, cell).await.as_deref(), there.then_some("again"), "{cell}: {closed} are closed");
            }
            if let Some(client) = clients.get(closed) {
                close(client).await;
            }
        }
        for (cell, ..) in cells.iter().filter(|(_, _, owner, _)| owner.is_none()) {
            assert!(cell_actions::delete(&reads, cell).await);
        }
    }

    "CELL-EPHEMERAL" =>
    /// after the loss of a lease, the next write uses the next lease
    async fn cell_ephemeral_write_after_a_loss_uses_the_next_lease(context) {
        let (one, two, cell) = (context.doomed().await, context.client().await, cell(context));
        let before = write(&one, &cell, "before", CellLife::Lease).await;
        let lost = one.coordinator.lease();
        one.link.cut();
        context.outlast(&one);
        within(context.over(&one), "the loss", lost.until_lost()).await;
        context.end_lease(&one).await;
        until("the cell is gone", || async { read(&two, &cell).await.is_none() }).await;
        one.link.heal();
        let again = lasting(Expected::Absent, "after", CellLife::Lease);
        let after = match in_the_end(|| one.coordinator.backend().write_cell(&cell, &again)).await {
            Ok(CellWritten::Written(version)) => version,
            // The first request was made without an answer.
            Ok(CellWritten::Refused(Some(cell))) => cell.version,
            other => panic!("{other:?}"),
        };
        assert!(before < after);
        is_live(&one.coordinator).await;
        assert_eq!(text(&two, &cell).await.as_deref(), Some("after"));
        close(&one).await;
        assert_eq!(read(&two, &cell).await, None);
    }

    "CELL-EPHEMERAL" =>
    /// a write under a hold may be ephemeral: the cell outlives the hold, but not the client
    async fn cell_ephemeral_under_a_hold_outlives_it(context) {
        let (one, two, cell) = (context.client().await, context.client().await, cell(context));
        let queue = context.queue_of(Kind::Mutex, "ephemeral");
        let node = admitted(&one, &queue, Claim::Exclusive).await;
        written(soon("write", node.write_cell(&cell, &lasting(Expected::Absent, "held", CellLife::Lease))).await);
        leave(&node).await;
        assert_eq!(text(&two, &cell).await.as_deref(), Some("held"));
        close(&one).await;
        assert_eq!(read(&two, &cell).await, None);
    }
}
