//! The lease of a session (LEASE-PROOF-BY-EARLIER-WRITE; `docs/protocol/lease.md`).
//!
//! A read proves no contact, because a follower answers it itself. An acknowledged write proves only the
//! contact *before* it. So the contacts are writes on the client's own node, and the deadline counts from the
//! send of contact k-1 ([`ContactProof`](latchwork_core::backend::decide::ContactProof)).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use latchwork_core::backend::LeaseWriter;
use latchwork_core::{LostReason, Moment};
use parking_lot::Mutex;

use crate::cell_uses::CellUses;
use crate::config::Settings;
use crate::contended::Contended;
use crate::driver::{Driver, Stat};
use crate::error::Answer;

#[derive(Debug)]
pub(crate) struct SessionLease {
    pub(crate) driver: Arc<Driver>,
    pub(crate) settings: Arc<Settings>,
    /// The node whose writes prove contact.
    pub(crate) member: String,
    /// Present if the server supports nodes with a TTL, and so idle cells.
    pub(crate) cell_uses: Option<CellUses>,
    server_time: Mutex<(i64, Moment)>,
    seen: AtomicI64,
    pub(crate) contended: Contended,
}

impl SessionLease {
    pub(crate) fn new(
        driver: Driver,
        settings: &Arc<Settings>,
        member: String,
        made: &Stat,
        has_idle_cells: bool,
    ) -> Self {
        Self {
            cell_uses: has_idle_cells.then(|| CellUses::new(settings.clock.clone())),
            driver: Arc::new(driver),
            settings: Arc::clone(settings),
            member,
            server_time: Mutex::new((made.ctime, settings.clock.now())),
            seen: AtomicI64::new(made.czxid),
            contended: Contended::default(),
        }
    }

    pub(crate) fn writer(&self) -> &LeaseWriter {
        self.driver.lease()
    }

    /// Called after the answer that the session has ended. Before the deadline this loses the lease. `None`:
    /// the client was killed, and its lease expires at its deadline.
    pub(crate) fn over(&self) -> Option<LostReason> {
        if !self.driver.is_killed() {
            self.writer().end(LostReason::Expired);
        }
        self.writer().lost()
    }

    /// The listing follows a write, so it and later reads show everything that a majority had committed
    /// before (CHAIN-SYNC-AFTER-UNKNOWN-CREATE). A deposed leader still answers a `sync`, but commits no
    /// write.
    pub(crate) async fn children_by_majority(&self, path: &str) -> Answer<Vec<String>> {
        self.driver.write_and_list(&self.member, self.settings.label.as_bytes(), path).await
    }

    pub(crate) fn seen(&self) -> i64 {
        self.seen.load(Ordering::Acquire)
    }

    pub(crate) fn saw(&self, transaction: i64) {
        self.seen.fetch_max(transaction, Ordering::AcqRel);
    }

    pub(crate) fn set_server_time(&self, time: i64, answered: Moment) {
        *self.server_time.lock() = (time, answered);
    }

    pub(crate) fn server_now(&self) -> i64 {
        let (time, at) = *self.server_time.lock();
        let passed = self.writer().clock().now().since(at).as_millis();
        time.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX))
    }
}
