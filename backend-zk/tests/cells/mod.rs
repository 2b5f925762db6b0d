//! Cells on a real server: compare-and-set, held writes, lost replies, watches, leases, and their places.

mod cas;
mod ephemeral;
mod held;
mod places;
mod unknown;
mod watch;

use std::sync::Arc;

use crate::common::address;
use latchwork_core::backend::{Backend, CellWrite, CellWritten, VersionedValue};
use latchwork_core::{Address, CellLife, Config, Expected, Kind, Result, Version};

/// ZooKeeper's numbers of requests: a transaction, and a read.
const MULTI: i32 = 14;
const READ: i32 = 4;

fn value(config: &Config, key: &str) -> Address {
    address(config, Kind::Value, key)
}

fn set(expected: Expected, value: &[u8]) -> CellWrite {
    CellWrite { expected, value: Some(value.into()), life: CellLife::Stays }
}

fn lease(expected: Expected, value: &[u8]) -> CellWrite {
    CellWrite { life: CellLife::Lease, ..set(expected, value) }
}

fn delete(expected: Expected) -> CellWrite {
    CellWrite { expected, value: None, life: CellLife::Stays }
}

/// The version of a write that must be made.
fn written(answer: Result<CellWritten>) -> Version {
    match answer {
        Ok(CellWritten::Written(version)) => version,
        other => panic!("not written: {other:?}"),
    }
}

/// Writes whatever is there.
async fn put_value(backend: &Arc<dyn Backend>, cell: &Address, value: &[u8]) -> Version {
    written(backend.write_cell(cell, &set(Expected::Any, value)).await)
}

/// A cell that must be there.
async fn cell(backend: &Arc<dyn Backend>, cell: &Address) -> VersionedValue {
    backend.read_cell(cell).await.unwrap().expect("it is there")
}

/// The number and the value: what two reads of one version have in common.
fn seen(cell: &VersionedValue) -> (u64, &[u8]) {
    (cell.version.number(), &cell.value)
}
