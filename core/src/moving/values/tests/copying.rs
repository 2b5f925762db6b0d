//! One copy, and one participant during it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::operator::Operator;
use super::participant::Participant;
use super::{World, read_stage, value};
use crate::address::{Address, Kind};
use crate::contracts::{CellLife, CellWrite, CellWritten, Expected, Node, TimeToIdle};
use crate::decide::Claim;
use crate::decide::moving::values::{ValuesAt, WholeStage};
use crate::decide::moving::{MovePhase, Side, Stage, Way};
use crate::error::{ErrorKind, Result};
use crate::moving::staged::Staged;
use crate::moving::values::carry::{Carried, Operates, carry};
use crate::moving::values::mirror::Compared;

#[tokio::test(start_paused = true)]
async fn a_copy_has_each_value_with_its_time_and_nothing_else() {
    let world = World::new().await;
    let operator = Operator::new(&world, None);
    let copying = operator.copying(Side::Old);
    let idle = CellLife::Idle(TimeToIdle::new(Duration::from_secs(3600)).expect("a good time"));
    let write = |life| CellWrite { expected: Expected::Any, value: Some(b"\0value"[..].into()), life };
    let on = |namespace: &str, kind, key: &str| Address::new(namespace, kind, key).expect("a good key");
    for (kind, key, life) in [
        (Kind::Value, "a", CellLife::Stays),
        (Kind::Value, "b/{c}%", idle),
        (Kind::Ids, "a", idle),
        (Kind::Latch, "a", CellLife::Stays),
    ] {
        let written = copying.source.backend.write_cell(&on("from", kind, key), &write(life)).await;
        assert!(matches!(written.expect("written"), CellWritten::Written(_)));
    }
    let extra = on("to", Kind::Counter, "extra");
    copying.target.backend.write_cell(&extra, &write(CellLife::Stays)).await.expect("written");
    let beside = on("other", Kind::Counter, "beside");
    copying.target.backend.write_cell(&beside, &write(CellLife::Stays)).await.expect("written");
    assert!(matches!(copying.compare().await.expect("compared"), Compared::Differs(..)));
    let node = super::join(&*copying.target.backend, super::alone(), Claim::Exclusive).await;
    let node = node.expect("joined");
    copying.write_all(&*node).await.expect("copied");
    assert_eq!(copying.compare().await.expect("compared"), Compared::Same(4));
    assert_eq!(copying.target.backend.read_cell(&extra).await.expect("read"), None);
    assert!(copying.target.backend.read_cell(&beside).await.expect("read").is_some());
    // The same value with another lifetime differs.
    let other = on("to", Kind::Value, "b/{c}%");
    copying.target.backend.write_cell(&other, &write(CellLife::Stays)).await.expect("written");
    let found = copying.compare().await.expect("compared");
    assert_eq!(found, Compared::Differs(Kind::Value, "b/{c}%".into()));
    // The operator's node is gone, so nothing is written.
    node.leave().await.expect("left");
    let error = copying.write_all(&*node).await.expect_err("not held");
    assert!(matches!(error.kind(), ErrorKind::Lost(_)), "{error}");
    assert!(matches!(copying.compare().await.expect("compared"), Compared::Differs(..)));
}

#[tokio::test(start_paused = true)]
async fn requests_wait_while_values_are_copied_and_a_version_of_before_is_refused() {
    let world = World::new().await;
    let mut tasks = JoinSet::new();
    let cells = Participant::new(&world, &mut tasks, None).cells;
    let cell = value(Kind::Value, "a");
    let write = |expected, text: &str| CellWrite {
        expected,
        value: Some(text.as_bytes().into()),
        life: CellLife::Stays,
    };
    let CellWritten::Written(before) =
        cells.write_cell(&cell, &write(Expected::Any, "one")).await.expect("written")
    else {
        panic!("it is written without a condition");
    };
    let mut watch = cells.watch_cell(&cell);
    watch.changed().await.expect("watched");
    let operator = Operator::new(&world, None);
    let frozen = WholeStage { values: ValuesAt::LeavingOld, ..WholeStage::before(0) };
    let both = WholeStage { stage: Stage { phase: MovePhase::BothByOld, epoch: 0 }, ..frozen };
    let read = read_stage(&*world.client().old.0).await.expect("read");
    operator.write_stage(&read, both).await.expect("written").expect("nobody else");
    // The participant learns of the stage.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let error = cells.read_cell(&cell).await.expect_err("they are copied");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let waiting = tokio::spawn({
        let (cells, cell) = (Arc::clone(&cells), cell.clone());
        async move { cells.read_cell(&cell).await }
    });
    let done = WholeStage { stage: Stage { phase: MovePhase::New, epoch: 1 }, ..both };
    operator.goes(Way::Forward, done).await;
    let read = waiting.await.expect("no panic").expect("read").expect("it has moved");
    assert_eq!(&*read.value, b"one");
    assert!(read.version > before);
    watch.changed().await.expect("it has moved");
    let refused = cells.write_cell(&cell, &write(Expected::Version(before), "two")).await.expect("answered");
    assert_eq!(refused, CellWritten::Refused(Some(read.clone())));
    let written = cells.write_cell(&cell, &write(Expected::Version(read.version), "two")).await;
    assert!(matches!(written.expect("answered"), CellWritten::Written(version) if version > read.version));
}

/// Another operator steps back, and the members acknowledge that, before this operator gets their
/// acknowledgements of its own stage.
struct Overtaken(Operator);

#[async_trait]
impl Operates for Overtaken {
    async fn stage(&self) -> Result<Option<Staged>> {
        self.0.stage().await
    }

    async fn write_stage(&self, over: &Staged, whole: WholeStage) -> Result<Option<Staged>> {
        self.0.write_stage(over, whole).await
    }

    async fn acknowledged(&self) -> Result<Vec<Option<u64>>> {
        let mut stands = self.0.stage().await?.expect("nobody deletes it");
        if stands.values == ValuesAt::LeavingOld {
            let back = WholeStage { values: ValuesAt::Old, ..stands.whole() };
            stands = self.0.write_stage(&stands, back).await?.expect("no other client writes it");
        }
        Ok(vec![Some(stands.version.number())])
    }

    async fn news(&self) -> Result<()> {
        sleep(Duration::from_millis(1)).await;
        Ok(())
    }

    async fn hold(&self, on: Side) -> Result<Arc<dyn Node>> {
        self.0.hold(on).await
    }

    async fn give_back(&self, node: Arc<dyn Node>) -> Result<()> {
        self.0.give_back(node).await
    }
}

#[tokio::test(start_paused = true)]
async fn copy_ends_when_another_operator_reverses_it() {
    let world = World::new().await;
    let operator = Overtaken(Operator::new(&world, None));
    let read = operator.stage().await.unwrap().expect("it was written");
    let stage = Stage { phase: MovePhase::BothByOld, epoch: 0 };
    operator
        .write_stage(&read, WholeStage { stage, values: ValuesAt::LeavingOld })
        .await
        .unwrap()
        .expect("its own");
    let copying = operator.0.copying(Side::Old);
    let carried = timeout(Duration::from_secs(60), carry(&operator, &copying, Side::Old)).await;
    assert!(matches!(carried.expect("it ends"), Ok(Carried::Elsewhere)));
    // It keeps no node, so another operator can write.
    timeout(Duration::from_secs(1), operator.hold(Side::New)).await.expect("free").expect("held");
}
