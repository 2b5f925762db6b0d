//! The lease of a session.
//!
//! # Why the deadline is safe
//!
//! The leader expires a session that had no contact for the granted timeout. A follower answers
//! reads itself, and reports its clients to the leader only in its ping answers, every half tick.
//! So a read proves nothing. An acknowledged write proves only that the leader learned of the
//! contact *before* it, if that contact is older than the ping interval.
//!
//! The contacts here are quorum writes on the client's own node, one period apart, and the deadline
//! counts from the send time of contact k-1
//! ([`ContactProof`](latchwork_core::backend::decide::ContactProof), LEASE-PROOF-BY-EARLIER-WRITE).
//! This is one write per client and period, for any number of held locks.

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

/// The lease of one session. All nodes of the session depend on it.
#[derive(Debug)]
pub(crate) struct SessionLease {
    pub(crate) driver: Arc<Driver>,
    pub(crate) settings: Arc<Settings>,
    /// The path of the client's own node, whose writes prove contact.
    pub(crate) member: String,
    /// Present if the server supports nodes with a TTL, and so idle cells.
    pub(crate) cell_uses: Option<CellUses>,
    // The server's wall clock at a moment of the client's clock.
    server_time: Mutex<(i64, Moment)>,
    seen: AtomicI64,
    /// The cells that other clients write too.
    pub(crate) contended: Contended,
}

impl SessionLease {
    /// The lease of a session that has created its node `member`, with this stat.
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

    /// Returns the reason of the loss after a request was answered by the end of the session. If
    /// the client crate reports this end before the deadline, the lease is lost from now on.
    /// `None`: the client was killed, and its lease expires at its deadline.
    pub(crate) fn over(&self) -> Option<LostReason> {
        if !self.driver.is_killed() {
            self.writer().end(LostReason::Expired);
        }
        self.writer().lost()
    }

    /// Lists the children after a write. The listing shows everything that a majority had committed
    /// when the leader took the write (CHAIN-SYNC-AFTER-UNKNOWN-CREATE), and so do the session's
    /// later reads. A deposed leader still answers a `sync` until it knows, but commits no write.
    pub(crate) async fn children_by_majority(&self, path: &str) -> Answer<Vec<String>> {
        self.driver.write_and_list(&self.member, self.settings.label.as_bytes(), path).await
    }

    /// The last transaction that a server has reported to this session.
    pub(crate) fn seen(&self) -> i64 {
        self.seen.load(Ordering::Acquire)
    }

    /// Records a transaction that a server has reported.
    pub(crate) fn saw(&self, transaction: i64) {
        self.seen.fetch_max(transaction, Ordering::AcqRel);
    }

    /// Records the time of a write by the server's wall clock, in milliseconds, and of its answer.
    pub(crate) fn set_server_time(&self, time: i64, answered: Moment) {
        *self.server_time.lock() = (time, answered);
    }

    /// The server's wall clock now, in milliseconds, for the ages in listings.
    pub(crate) fn server_now(&self) -> i64 {
        let (time, at) = *self.server_time.lock();
        let passed = self.writer().clock().now().since(at).as_millis();
        time.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX))
    }
}
