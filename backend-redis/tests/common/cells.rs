//! Cells, below the recipes.

use std::sync::Arc;

use latchwork_core::backend::{Backend, CellWrite, CellWritten};
use latchwork_core::{Address, CellLife, Expected, Result, Version};

/// A write of a value that stays.
pub fn put(expected: Expected, value: impl AsRef<[u8]>) -> CellWrite {
    CellWrite { expected, value: Some(value.as_ref().into()), life: CellLife::Stays }
}

pub const fn delete(expected: Expected) -> CellWrite {
    CellWrite { expected, value: None, life: CellLife::Stays }
}

/// A write over any value.
pub fn lasting(value: &str, life: CellLife) -> CellWrite {
    CellWrite { life, ..put(Expected::Any, value) }
}

/// The version that a write has made.
pub fn written(answer: Result<CellWritten>) -> Version {
    match answer {
        Ok(CellWritten::Written(version)) => version,
        other => panic!("not written: {other:?}"),
    }
}

pub async fn write(backend: &Arc<dyn Backend>, cell: &Address, value: &str, life: CellLife) {
    let _version = written(backend.write_cell(cell, &lasting(value, life)).await);
}

pub async fn value(backend: &Arc<dyn Backend>, cell: &Address) -> Option<Vec<u8>> {
    backend.read_cell(cell).await.unwrap().map(|cell| cell.value.to_vec())
}
