use std::time::Duration;

use latchwork_conformance::cell_actions::lasting;
use latchwork_core::backend::CellWritten;
use latchwork_core::{CellLife, ErrorKind, Expected, Kind, TimeToIdle};

use crate::common::cells::write;
use crate::common::{LONG, Operator, SHORT, client, queue, served};

const KEY: &str = "latchwork:value:{a}:cell";
const IDLE: Duration = Duration::from_secs(60);

fn idle() -> CellLife {
    CellLife::Idle(TimeToIdle::new(IDLE).unwrap())
}

/// Milliseconds, -1 if it stays.
async fn lives(operator: &mut Operator) -> i64 {
    operator.say(&format!("PTTL {KEY}")).await
}

async fn age(operator: &mut Operator) {
    operator.tell(&format!("PEXPIRE {KEY} 9000")).await;
}

#[tokio::test]
async fn a_write_and_a_read_count_also_without_memory_and_a_refused_write_does_not() {
    let (server, mut operator, writes) = served(LONG).await;
    let (reads, a) = (client(&server, LONG).await, queue(Kind::Value, "a"));
    for _ in 0..2 {
        write(&writes, &a, "here", idle()).await;
        assert!((50_000..=60_000).contains(&lives(&mut operator).await));
        age(&mut operator).await;
    }
    let refused = lasting(Expected::Absent, "", idle());
    assert!(matches!(writes.write_cell(&a, &refused).await, Ok(CellWritten::Refused(Some(_)))));
    assert!(lives(&mut operator).await <= 9_000);
    operator.fill_memory().await;
    assert!(reads.read_cell(&a).await.unwrap().is_some());
    assert!(lives(&mut operator).await > 50_000);
}

#[tokio::test]
async fn a_read_gives_no_time_to_a_cell_that_stays_or_goes_with_a_lease() {
    let (server, mut operator, writes) = served(SHORT).await;
    let (reads, a) = (client(&server, LONG).await, queue(Kind::Value, "a"));
    write(&writes, &a, "here", idle()).await;
    write(&writes, &a, "here", CellLife::Stays).await;
    assert!(reads.read_cell(&a).await.unwrap().is_some());
    assert_eq!(lives(&mut operator).await, -1);
    write(&writes, &a, "here", idle()).await;
    write(&writes, &a, "here", CellLife::Lease).await;
    assert!(reads.read_cell(&a).await.unwrap().is_some());
    let millis = i64::try_from(writes.lease().ttl().as_millis()).unwrap();
    assert!(lives(&mut operator).await <= millis && millis < 50_000);
    assert_eq!(operator.say::<Vec<String>>(&format!("HKEYS {KEY}")).await.len(), 2, "value and version");
}

#[tokio::test]
async fn a_foreign_time_is_a_conflict() {
    let (_server, mut operator, backend) = served(LONG).await;
    let a = queue(Kind::Value, "a");
    write(&backend, &a, "here", idle()).await;
    for foreign in ["-1", "soon", "1.5"] {
        operator.tell(&format!("HSET {KEY} i {foreign}")).await;
        assert_eq!(backend.read_cell(&a).await.unwrap_err().kind(), ErrorKind::Conflict, "{foreign}");
    }
}
