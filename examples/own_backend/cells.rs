//! The cells: core's [`CellStore`], and who watches them.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use latchwork_core::contracts::{Cell, CellWatch, CellWrite, CellWritten};
use latchwork_core::decide::CellStore;
use latchwork_core::{Address, Error, Result};
use tokio::sync::Notify;

use crate::wire::Wire;

/// The part of the table that has the cells.
#[derive(Debug, Default)]
pub(crate) struct TableCells {
    store: CellStore,
    watches: Vec<(Address, Weak<Notify>)>,
}

impl TableCells {
    pub(crate) fn read(&self, cell: &Address) -> Option<Cell> {
        self.store.read(cell)
    }

    /// Writes a cell, and notifies its watches of a change.
    pub(crate) fn write(&mut self, cell: &Address, write: &CellWrite) -> CellWritten {
        let written = self.store.write(cell, write);
        if !matches!(written, CellWritten::Refused(_)) {
            let watches = self.watches.iter().filter(|(watched, _)| watched == cell);
            watches.filter_map(|(_, watch)| watch.upgrade()).for_each(|watch| watch.notify_one());
        }
        written
    }

    /// What is left, for tests.
    pub(crate) fn contents(&mut self) -> impl Iterator<Item = String> {
        self.watches.retain(|(_, watch)| watch.strong_count() > 0);
        let watched = self.watches.iter().map(|(cell, _)| format!("{cell:?} watched"));
        self.store.addresses().map(|cell| format!("{cell:?}")).chain(watched)
    }
}

/// A watch of a cell.
#[derive(Debug)]
pub(crate) struct TableWatch {
    wire: Wire,
    cell: Address,
    // The table notifies it, once it is registered there, until it is dropped.
    changed: Arc<Notify>,
    registered: bool,
}

impl TableWatch {
    pub(crate) fn new(wire: Wire, cell: Address) -> Self {
        Self { wire, cell, changed: Arc::default(), registered: false }
    }
}

#[async_trait]
impl CellWatch for TableWatch {
    async fn changed(&mut self) -> Result<()> {
        if !self.registered {
            let watch = (self.cell.clone(), Arc::downgrade(&self.changed));
            self.wire.send(move |table, _| table.cells.watches.push(watch)).await?;
            self.registered = true;
            return Ok(());
        }
        tokio::select! {
            () = self.changed.notified() => Ok(()),
            () = self.wire.closed() => Err(Error::closed()),
        }
    }
}
