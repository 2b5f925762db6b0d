use super::instrument::{CounterMetric, Gauge};
use super::table::{CLIENTS, DISCONNECTED, RECHECKS_FOUND, RECONNECTS, RENEWALS_LATE, REQUESTS, SUSPENDED};
use crate::seen::event;

#[derive(Debug)]
pub(crate) struct ClientMeter {
    clients: Gauge,
    suspended: Gauge,
    late: CounterMetric,
}

impl ClientMeter {
    pub(crate) fn new(backend: &'static str) -> Self {
        let labels = [backend];
        let clients = Gauge::new(&CLIENTS, &labels);
        clients.add(1);
        let (suspended, late) =
            (Gauge::new(&SUSPENDED, &labels), CounterMetric::new(&RENEWALS_LATE, &labels));
        Self { clients, suspended, late }
    }

    pub(crate) fn suspended(&self, difference: i8) {
        self.suspended.add(difference);
    }

    pub(crate) fn late(&self) {
        self.late.count();
    }
}

impl Drop for ClientMeter {
    fn drop(&mut self) {
        self.clients.add(-1);
    }
}

#[derive(Debug)]
pub(crate) struct Links {
    disconnected: Gauge,
    reconnects: CounterMetric,
}

impl Links {
    pub(crate) fn new(backend: &'static str) -> Self {
        let labels = [backend];
        Self {
            disconnected: Gauge::new(&DISCONNECTED, &labels),
            reconnects: CounterMetric::new(&RECONNECTS, &labels),
        }
    }

    pub(crate) fn broken(&self) {
        self.disconnected.add(1);
    }

    pub(crate) fn mended(&self) {
        self.disconnected.add(-1);
        self.reconnects.count();
    }

    pub(crate) fn given_up(&self) {
        self.disconnected.add(-1);
    }
}

/// Counts the requests of one client by kind.
#[derive(Debug)]
pub struct Requests(Vec<(&'static str, CounterMetric)>);

impl Requests {
    /// Creates counters for these kinds of requests, named as in the server's documentation.
    pub fn new(backend: &'static str, kinds: impl IntoIterator<Item = &'static str>) -> Self {
        let counter = |kind| (kind, CounterMetric::new(&REQUESTS, &[backend, kind]));
        Self(kinds.into_iter().map(counter).collect())
    }

    /// Counts a request of this kind.
    pub fn sent(&self, kind: &'static str) {
        if cfg!(feature = "metrics") {
            let known = self.0.iter().find(|(known, _)| *known == kind);
            debug_assert!(known.is_some(), "{kind} is not among the kinds of requests");
            if let Some((_, counter)) = known {
                counter.count();
            }
        }
    }
}

/// Counts changes whose event was lost, so that only a re-check found them.
#[derive(Debug)]
pub struct Rechecks {
    backend: &'static str,
    admission: CounterMetric,
    hold: CounterMetric,
    watch: CounterMetric,
}

impl Rechecks {
    /// Creates the counters of a client of this backend.
    pub fn new(backend: &'static str) -> Self {
        let found = |what| CounterMetric::new(&RECHECKS_FOUND, &[backend, what]);
        Self { backend, admission: found("admission"), hold: found("hold"), watch: found("watch") }
    }

    /// Counts a re-check of a waiter.
    pub fn found_admission(&self) {
        self.admission.count();
        event::recheck_found(self.backend, "admission");
    }

    /// Counts a re-check that found a hold gone.
    pub fn found_loss(&self) {
        self.hold.count();
        event::recheck_found(self.backend, "hold");
    }

    /// Counts a re-check of a watched cell or queue.
    pub fn found_change(&self) {
        self.watch.count();
        event::recheck_found(self.backend, "watch");
    }
}
