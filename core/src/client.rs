//! What recipes, holds and owners share of one connected client.

use std::sync::Arc;
use std::time::Duration;

use crate::address::Address;
use crate::cleanup::Cleanup;
use crate::clock::Clock;
use crate::config::Config;
use crate::contracts::{Backend, Cell, Entry, Lease};
use crate::error::Result;
use crate::hold::{ClientId, LiveHolds};
use crate::label::default_label;
use crate::watched::{CellReader, QueueReader, Watched, Watches};

/// One client of a coordinator.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) id: ClientId,
    /// The coordinator's name, which tells several of one program apart.
    pub(crate) name: Option<String>,
    pub(crate) cleanup: Cleanup,
    pub(crate) live: LiveHolds,
    cells: Watches<CellReader>,
    queues: Watches<QueueReader>,
    /// The label of its nodes when an acquisition sets none.
    pub(crate) label: Arc<str>,
    pub(crate) request_timeout: Duration,
}

impl Client {
    /// A client over a connected backend. Starts its clean-up on the current runtime.
    pub(crate) fn new(backend: Arc<dyn Backend>, config: &Config) -> Self {
        let cleanup = Cleanup::start(Arc::clone(&backend), config.request_timeout);
        let label = config.label.as_deref().map_or_else(default_label, Arc::from);
        let (live, request_timeout) = (LiveHolds::default(), config.request_timeout);
        let (id, name) = (ClientId::next(), config.name.clone());
        let (cells, queues) = (Watches::default(), Watches::default());
        Self { backend, id, name, cleanup, live, cells, queues, label, request_timeout }
    }

    /// Watches a cell, together with all who watch it now.
    pub(crate) fn watch_cell(&self, cell: &Address) -> Arc<Watched<Option<Cell>>> {
        self.cells.watch(&self.backend, &self.cleanup, cell)
    }

    /// Watches a queue, together with all who watch it now.
    pub(crate) fn watch_queue(&self, queue: &Address) -> Arc<Watched<Arc<[Entry]>>> {
        self.queues.watch(&self.backend, &self.cleanup, queue)
    }

    pub(crate) fn lease(&self) -> Lease {
        self.backend.lease()
    }

    pub(crate) fn clock(&self) -> Clock {
        self.backend.lease().clock().clone()
    }

    /// Runs an operation; fails with `RuntimeGone` once the client's runtime has ended.
    pub(crate) async fn serve<T>(&self, operation: impl Future<Output = Result<T>>) -> Result<T> {
        self.cleanup.home().serve(operation).await
    }
}
