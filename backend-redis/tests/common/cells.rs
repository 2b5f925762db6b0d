use std::sync::Arc;

use latchwork_conformance::cell_actions::{lasting, written};
use latchwork_core::backend::Backend;
use latchwork_core::{Address, CellLife, Expected};

pub async fn write(backend: &Arc<dyn Backend>, cell: &Address, value: &str, life: CellLife) {
    let _version = written(backend.write_cell(cell, &lasting(Expected::Any, value, life)).await);
}

pub async fn value(backend: &Arc<dyn Backend>, cell: &Address) -> Option<Vec<u8>> {
    backend.read_cell(cell).await.unwrap().map(|cell| cell.value.to_vec())
}
