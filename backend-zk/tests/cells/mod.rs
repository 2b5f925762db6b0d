mod cas;
mod ephemeral;
mod held;
mod places;
mod unknown;

use std::sync::Arc;

use crate::common::address;
use latchwork_conformance::cell_actions::{deletion, lasting, put, written};
use latchwork_core::backend::{Backend, CellWrite, VersionedValue};
use latchwork_core::{Address, CellLife, Config, Expected, Kind, Version};

pub(crate) fn value(config: &Config, key: &str) -> Address {
    address(config, Kind::Value, key)
}

fn lease(expected: Expected, value: &[u8]) -> CellWrite {
    lasting(expected, value, CellLife::Lease)
}

pub(crate) async fn put_value(backend: &Arc<dyn Backend>, cell: &Address, value: &[u8]) -> Version {
    written(backend.write_cell(cell, &put(Expected::Any, value)).await)
}

pub(crate) async fn cell(backend: &Arc<dyn Backend>, cell: &Address) -> VersionedValue {
    backend.read_cell(cell).await.unwrap().expect("the cell exists")
}

/// Reads of one version may differ in the rest.
fn seen(cell: &VersionedValue) -> (u64, &[u8]) {
    (cell.version.number(), &cell.value)
}
