use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::address::Address;
use crate::by_address::ByAddress;
use crate::cleanup::Cleanup;
use crate::clock::{Clock, Moment};
use crate::config::Config;
use crate::contracts::{Backend, Close, Lease, QueueEntry, VersionedValue};
use crate::count_writer::CountWriter;
use crate::decide::{given_back_at, giving_back_bound};
use crate::error::{Error, ErrorKind, Result};
use crate::hold::{ClientId, LiveHolds};
use crate::label::default_label;
use crate::registration::Registrations;
use crate::seen::{Rechecks, Recipes};
use crate::server_trial::ServerTrial;
use crate::support::{no_idle_cells, no_replicas};
use crate::token::Tokens;
use crate::watched::{CellReader, QueueReader, Watched, Watches};

/// The clients that are known to use another server than one client.
#[derive(Debug, Default)]
pub(crate) struct Apart(Mutex<HashSet<ClientId>>);

impl Apart {
    pub(crate) fn knows(&self, client: ClientId) -> bool {
        self.0.lock().contains(&client)
    }

    pub(crate) fn note(&self, client: ClientId) {
        self.0.lock().insert(client);
    }
}

/// One connected client, shared by recipes, holds and owners.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) tokens: Tokens,
    pub(crate) id: ClientId,
    pub(crate) name: Option<String>,
    pub(crate) cleanup: Cleanup,
    pub(crate) live: LiveHolds,
    pub(crate) meters: Recipes,
    pub(crate) trial: ServerTrial,
    pub(crate) registrations: Registrations,
    pub(crate) apart: Apart,
    cells: Watches<CellReader>,
    queues: Watches<QueueReader>,
    counts: Mutex<ByAddress<CountWriter>>,
    // Cancelled by a close, so that no watch waits for the end of an outage.
    closing: CancellationToken,
    /// The label of acquisitions that set none.
    pub(crate) label: Arc<str>,
    pub(crate) request_timeout: Duration,
    /// The number for acquisitions that set none.
    min_replicas: u32,
    ends_within: Duration,
}

impl Client {
    /// Makes a client over a connected backend. Starts its clean-up on the current runtime.
    pub(crate) fn new(backend: Arc<dyn Backend>, tokens: Tokens, config: &Config) -> Self {
        let cleanup = Cleanup::start(Arc::clone(&backend), config.request_timeout);
        let live = LiveHolds::default();
        cleanup.beside(live.report_losses(Arc::downgrade(&backend)));
        let rechecks = Arc::new(Rechecks::new(backend.name()));
        let closing = CancellationToken::new();
        Self {
            tokens,
            id: ClientId::next(),
            name: config.name.clone(),
            cleanup,
            live,
            meters: Recipes::new(backend.name()),
            trial: ServerTrial::default(),
            registrations: Registrations::default(),
            apart: Apart::default(),
            cells: Watches::new(&rechecks, &closing),
            queues: Watches::new(&rechecks, &closing),
            counts: Mutex::default(),
            closing,
            label: config.label.as_deref().map_or_else(default_label, Arc::from),
            request_timeout: config.request_timeout,
            min_replicas: config.min_replicas,
            ends_within: config.request_timeout,
            backend,
        }
    }

    pub(crate) fn registered(self, registrations: Registrations) -> Self {
        Self { registrations, ..self }
    }

    /// Sets how long the close of its backend may take, if this consists of several clients.
    pub(crate) fn ending_within(self, ends_within: Duration) -> Self {
        Self { ends_within, ..self }
    }

    /// Returns how long a close takes at most if little must be given back.
    pub(crate) fn ends_within(&self) -> Duration {
        giving_back_bound(0, self.request_timeout).saturating_add(self.ends_within)
    }

    /// Returns false for a lazy client before its first use: its placeholder lease has no deadline.
    pub(crate) fn is_connected(&self) -> bool {
        self.lease().deadline() != Moment::NEVER
    }

    /// Returns how many replicas must confirm an acquisition.
    pub(crate) fn confirmed_by(&self, asked: Option<u32>) -> u32 {
        asked.unwrap_or(self.min_replicas)
    }

    /// Refuses a confirmation by replicas if the connected backend cannot do it.
    pub(crate) fn check_confirms(&self, asked: Option<u32>) -> Result<()> {
        match self.confirmed_by(asked) == 0 || self.backend.capabilities().confirms_on_replicas {
            true => Ok(()),
            false => no_replicas(),
        }
    }

    /// Refuses cells with a time to idle if the backend has none. A lazy client refuses the first write
    /// instead.
    pub(crate) fn check_idle_cells(&self) -> Result<()> {
        match !self.is_connected() || self.backend.capabilities().idle_cells {
            true => Ok(()),
            false => no_idle_cells(),
        }
    }

    pub(crate) fn watch_cell(&self, cell: &Address) -> Arc<Watched<Option<VersionedValue>>> {
        self.cells.watch(&self.backend, &self.cleanup, cell)
    }

    pub(crate) fn watch_queue(&self, queue: &Address) -> Arc<Watched<Arc<[QueueEntry]>>> {
        self.queues.watch(&self.backend, &self.cleanup, queue)
    }

    pub(crate) fn count_writer(&self, cell: &Address) -> Arc<CountWriter> {
        let mut counts = self.counts.lock();
        counts.get(cell).unwrap_or_else(|| {
            let writer = Arc::new(CountWriter::new());
            counts.insert(cell.clone(), &writer);
            writer
        })
    }

    pub(crate) fn lease(&self) -> Lease {
        self.backend.lease()
    }

    pub(crate) fn clock(&self) -> Clock {
        self.backend.lease().clock().clone()
    }

    /// Closes the client. Its holds are lost first, and given back one margin later. Fails with `Unavailable`
    /// if the server did not confirm it, or with `RuntimeGone`.
    pub(crate) async fn close(&self) -> Result<()> {
        let clock = self.clock();
        let (since, ended) = self.live.close(clock.now());
        // Kept by the clean-up, because this call may be dropped.
        self.cleanup.keep_until_closed(ended);
        if let Some(since) = since {
            clock.sleep_until(given_back_at(since, self.lease().ttl())).await;
        }
        let (cleanup, request_timeout) = (&self.cleanup, self.request_timeout);
        cleanup.give_back(self.live.take_given_back());
        let bound = giving_back_bound(cleanup.count(), request_timeout);
        let closing = async {
            if !cleanup.settled_within(bound, request_timeout).await {
                tracing::debug!(
                    "some nodes were not given back one by one; the close of the client gives back the rest"
                );
            }
            self.closing.cancel();
            let closed = cleanup.home.last(self.backend.close(Close::Orderly)).await;
            cleanup.closed();
            closed
        };
        let bound = bound.saturating_add(self.ends_within);
        tokio::time::timeout(bound, closing).await.unwrap_or_else(|_| {
            Err(Error::new(
                ErrorKind::Unavailable,
                "the server did not confirm the close in time; the locks are free when the lease ends",
            ))
        })
    }

    /// Runs an operation; fails with `RuntimeGone` once the client's runtime has ended.
    pub(crate) async fn serve<T>(&self, operation: impl Future<Output = Result<T>>) -> Result<T> {
        self.cleanup.home.serve(operation).await
    }
}
