//! Actions of cases with a cell.

use latchwork_core::backend::{CellWrite, CellWritten, VersionedValue};
use latchwork_core::{Address, CellLife, Expected, Result, Version};

use crate::testbed::Client;
use crate::waits::soon;

pub(crate) fn shown(version: Version, value: impl AsRef<[u8]>) -> VersionedValue {
    VersionedValue::new(version, value.as_ref())
}

/// Creates a write of a value that stays.
pub fn put(expected: Expected, value: impl AsRef<[u8]>) -> CellWrite {
    lasting(expected, value, CellLife::Stays)
}

/// Creates a write of a value.
pub fn lasting(expected: Expected, value: impl AsRef<[u8]>, life: CellLife) -> CellWrite {
    CellWrite { expected, value: Some(value.as_ref().into()), life }
}

/// Creates a deletion.
pub const fn deletion(expected: Expected) -> CellWrite {
    CellWrite { expected, value: None, life: CellLife::Stays }
}

pub(crate) async fn ask(client: &Client, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
    soon("write", client.coordinator.backend().write_cell(cell, write)).await
}

/// Returns the version of a write that must be made.
pub fn written(answer: Result<CellWritten>) -> Version {
    match answer.expect("answered") {
        CellWritten::Written(version) => version,
        other => panic!("not written: {other:?}"),
    }
}

pub(crate) fn refused(answer: Result<CellWritten>) -> Option<VersionedValue> {
    match answer.expect("answered") {
        CellWritten::Refused(cell) => cell,
        other => panic!("not refused: {other:?}"),
    }
}

pub(crate) async fn write(client: &Client, cell: &Address, write: CellWrite) -> Version {
    written(ask(client, cell, &write).await)
}

pub(crate) fn deleted(answer: Result<CellWritten>) -> bool {
    match answer.expect("answered") {
        CellWritten::Deleted { was_there } => was_there,
        other => panic!("not deleted: {other:?}"),
    }
}

pub(crate) async fn delete(client: &Client, cell: &Address) -> bool {
    deleted(ask(client, cell, &deletion(Expected::Any)).await)
}

pub(crate) async fn read(client: &Client, cell: &Address) -> Option<VersionedValue> {
    soon("read", client.coordinator.backend().read_cell(cell)).await.expect("read")
}

pub(crate) async fn text(client: &Client, cell: &Address) -> Option<String> {
    read(client, cell).await.map(as_text)
}

pub(crate) fn as_text(cell: VersionedValue) -> String {
    String::from_utf8(cell.value.to_vec()).expect("text")
}
