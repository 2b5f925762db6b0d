//! Cells that go when nobody uses them: what the server counts.

use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::{Backend, CellWrite, CellWritten};
use latchwork_core::{Address, CellLife, ErrorKind, Expected, Kind, TimeToIdle};

use crate::common::{LONG, Operator, SHORT, client, own, queue};

const KEY: &str = "latchwork:value:{a}:cell";
const IDLE: Duration = Duration::from_secs(60);

fn idle() -> CellLife {
    CellLife::Idle(TimeToIdle::new(IDLE).unwrap())
}

async fn write(backend: &Arc<dyn Backend>, cell: &Address, life: CellLife) {
    let write = CellWrite { expected: Expected::Any, value: Some(b"here"[..].into()), life };
    let answer = backend.write_cell(cell, &write).await.unwrap();
    assert!(matches!(answer, CellWritten::Written(_)), "{answer:?}");
}

/// How long the cell lives, in milliseconds: -1 when it stays.
async fn lives(operator: &mut Operator) -> i64 {
    operator.say(&format!("PTTL {KEY}")).await
}

/// The cell is about to end.
async fn age(operator: &mut Operator) {
    operator.say::<()>(&format!("PEXPIRE {KEY} 9000")).await;
}

#[tokio::test]
async fn a_write_and_a_read_count_also_without_memory_and_a_refused_write_does_not() {
    let server = own(&[]).await;
    let (mut operator, a) = (Operator::of(&server).await, queue(Kind::Value, "a"));
    let (writes, reads) = (client(&server, LONG).await, client(&server, LONG).await);
    for _ in 0..2 {
        write(&writes, &a, idle()).await;
        assert!((50_000..=60_000).contains(&lives(&mut operator).await));
        age(&mut operator).await;
    }
    let refused = CellWrite { expected: Expected::Absent, value: Some([].into()), life: idle() };
    assert!(matches!(writes.write_cell(&a, &refused).await, Ok(CellWritten::Refused(Some(_)))));
    assert!(lives(&mut operator).await <= 9_000);
    operator.say::<()>("CONFIG SET maxmemory-policy noeviction").await;
    operator.say::<()>("CONFIG SET maxmemory 1").await;
    assert!(reads.read_cell(&a).await.unwrap().is_some());
    assert!(lives(&mut operator).await > 50_000);
}

#[tokio::test]
async fn a_read_gives_no_time_to_a_cell_that_stays_or_goes_with_a_lease() {
    let server = own(&[]).await;
    let (mut operator, a) = (Operator::of(&server).await, queue(Kind::Value, "a"));
    let (writes, reads) = (client(&server, SHORT).await, client(&server, LONG).await);
    write(&writes, &a, idle()).await;
    write(&writes, &a, CellLife::Stays).await;
    assert!(reads.read_cell(&a).await.unwrap().is_some());
    assert_eq!(lives(&mut operator).await, -1);
    write(&writes, &a, idle()).await;
    write(&writes, &a, CellLife::Lease).await;
    assert!(reads.read_cell(&a).await.unwrap().is_some());
    let millis = i64::try_from(writes.lease().ttl().as_millis()).unwrap();
    assert!(lives(&mut operator).await <= millis && millis < 50_000);
    assert_eq!(operator.say::<Vec<String>>(&format!("HKEYS {KEY}")).await.len(), 2, "value and version");
}

#[tokio::test]
async fn a_foreign_time_is_a_conflict() {
    let server = own(&[]).await;
    let (mut operator, a) = (Operator::of(&server).await, queue(Kind::Value, "a"));
    let backend = client(&server, LONG).await;
    write(&backend, &a, idle()).await;
    for foreign in ["-1", "soon", "1.5"] {
        operator.say::<()>(&format!("HSET {KEY} i {foreign}")).await;
        assert_eq!(backend.read_cell(&a).await.unwrap_err().kind(), ErrorKind::Conflict, "{foreign}");
    }
}
