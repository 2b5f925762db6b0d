//! CELL-EPHEMERAL: cells that hang on a lease.

use latchwork_core::contracts::{CellLife, CellWrite, CellWritten, Expected, Version};
use latchwork_core::{Address, Kind};

use crate::actions::join;
use crate::bounds::{NOISE, SHORT_TTL};
use crate::case::cases;
use crate::context::Context;
use crate::testbed::Client;
use crate::waits::{is_live, soon, until, within};
use latchwork_core::contracts::Joined;
use latchwork_core::decide::Claim;

fn cell(context: &Context) -> Address {
    context.queue_of(Kind::Value, "ephemeral")
}

fn put(expected: Expected, text: &str, life: CellLife) -> CellWrite {
    CellWrite { expected, value: Some(text.as_bytes().into()), life }
}

pub(super) async fn write(client: &Client, cell: &Address, text: &str, life: CellLife) -> Version {
    let write = put(Expected::Any, text, life);
    match soon("write", client.coordinator.backend().write_cell(cell, &write)).await.expect("written") {
        CellWritten::Written(version) => version,
        other => panic!("it expects nothing of {cell}: {other:?}"),
    }
}

async fn read(client: &Client, cell: &Address) -> Option<String> {
    let read = soon("read", client.coordinator.backend().read_cell(cell)).await.expect("read");
    read.map(|cell| String::from_utf8(cell.value.to_vec()).expect("text"))
}

async fn close(client: &Client) {
    soon("close", client.coordinator.close()).await.expect("closed");
}

pub(super) async fn delete(client: &Client, cell: &Address) {
    let delete = CellWrite { expected: Expected::Any, value: None, life: CellLife::Stays };
    let deleted =
        soon("delete", client.coordinator.backend().write_cell(cell, &delete)).await.expect("deleted");
    assert_eq!(deleted, CellWritten::Deleted { was_there: true }, "{cell}");
}

cases! {
    "CELL-EPHEMERAL" clock =>
    /// an ephemeral cell is kept alive by its writer's client, and goes at once when that closes
    async fn cell_ephemeral_lives_as_long_as_its_client(context) {
        // A renewal may be late.
        let writes = context.client_with(&context.config(2 * SHORT_TTL)).await;
        let (reads, cell) = (context.client().await, cell(context));
        write(&writes, &cell, "here", CellLife::Lease).await;
        // One that nobody keeps alive would be gone by then.
        tokio::time::sleep(writes.ttl() + context.fixture.expiry_bound() + NOISE).await;
        assert_eq!(read(&reads, &cell).await.as_deref(), Some("here"));
        let mut watch = reads.coordinator.backend().watch_cell(&cell);
        soon("watch", watch.changed()).await.expect("watched");
        close(&writes).await;
        assert_eq!(read(&reads, &cell).await, None);
        soon("the news", watch.changed()).await.expect("watched");
    }

    "CELL-EPHEMERAL" clock =>
    /// the ephemeral cell of a client that died is gone within its TTL and a bound, and its watches
    /// are told, though nobody else touches it
    async fn cell_ephemeral_goes_with_a_dead_client(context) {
        let (dies, reads, cell) = (context.mortal().await, context.client().await, cell(context));
        write(&dies, &cell, "here", CellLife::Lease).await;
        let mut watch = reads.coordinator.backend().watch_cell(&cell);
        soon("watch", watch.changed()).await.expect("watched");
        latchwork_core::crash(&dies.coordinator).await;
        within(context.recovery(&dies), "the news of its end", async {
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
    /// the last write decides how long a cell stays: another client takes it over, or lets it stay;
    /// versions rise all the while, and a version of before is refused
    async fn cell_ephemeral_is_decided_by_the_last_write(context) {
        let (one, two, three) = (context.client().await, context.client().await, context.client().await);
        let cell = cell(context);
        let mut versions = vec![write(&one, &cell, "one", CellLife::Lease).await];
        versions.push(write(&two, &cell, "two", CellLife::Lease).await);
        close(&one).await;
        assert_eq!(read(&three, &cell).await.as_deref(), Some("two"), "it was taken over");
        versions.push(write(&three, &cell, "three", CellLife::Stays).await);
        versions.push(write(&two, &cell, "again", CellLife::Lease).await);
        let held = put(Expected::Version(versions[3]), "stays", CellLife::Stays);
        let written = soon("write", two.coordinator.backend().write_cell(&cell, &held)).await.expect("written");
        let CellWritten::Written(last) = written else { panic!("it has that version: {written:?}") };
        versions.push(last);
        close(&two).await;
        assert_eq!(read(&three, &cell).await.as_deref(), Some("stays"), "it was let stay");
        assert!(versions.windows(2).all(|pair| pair[0] < pair[1]), "{versions:?}");
        let late = put(Expected::Version(versions[3]), "late", CellLife::Lease);
        let refused = soon("write", three.coordinator.backend().write_cell(&cell, &late)).await.expect("answered");
        assert!(matches!(refused, CellWritten::Refused(Some(_))), "{refused:?}");
        delete(&three, &cell).await;
    }

    "CELL-EPHEMERAL" =>
    /// once the lease was lost, the next write hangs on the next lease
    async fn cell_ephemeral_is_written_anew_after_a_loss(context) {
        let (one, two, cell) = (context.doomed().await, context.client().await, cell(context));
        let before = write(&one, &cell, "before", CellLife::Lease).await;
        let lost = one.coordinator.lease();
        one.link.cut();
        context.outlast(&one);
        within(context.over(&one), "the loss", lost.until_lost()).await;
        context.end_lease(&one).await;
        until("the cell is gone", || async { read(&two, &cell).await.is_none() }).await;
        one.link.heal();
        let after = soon("a write", async {
            loop {
                let again = put(Expected::Absent, "after", CellLife::Lease);
                match one.coordinator.backend().write_cell(&cell, &again).await {
                    Ok(CellWritten::Written(version)) => break version,
                    Ok(CellWritten::Refused(Some(cell))) => break cell.version,
                    Ok(other) => panic!("{other:?}"),
                    Err(error) => assert!(error.may_pass(), "{error}"),
                }
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert!(before < after);
        is_live(&one.coordinator).await;
        assert_eq!(read(&two, &cell).await.as_deref(), Some("after"));
        close(&one).await;
        assert_eq!(read(&two, &cell).await, None);
    }

    "CELL-EPHEMERAL" =>
    /// a write under a hold may be ephemeral too: it outlives the hold, and not the client
    async fn cell_ephemeral_under_a_hold_outlives_it(context) {
        let (one, two, cell) = (context.client().await, context.client().await, cell(context));
        let queue = context.queue_of(Kind::Mutex, "ephemeral");
        let Joined::Admitted(node) = join(&one, &queue, Claim::Exclusive).await else { panic!("it is free") };
        let written = soon("write", node.write_cell(&cell, &put(Expected::Absent, "held", CellLife::Lease))).await;
        assert!(matches!(written, Ok(CellWritten::Written(_))), "{written:?}");
        soon("leave", node.leave()).await.expect("left");
        assert_eq!(read(&two, &cell).await.as_deref(), Some("held"));
        close(&one).await;
        assert_eq!(read(&two, &cell).await, None);
    }
}
