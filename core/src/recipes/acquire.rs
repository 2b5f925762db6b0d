//! The options of an acquisition, common to all recipes over a queue.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::label;

/// How to acquire. Durations are counted by the client's clock, which counts the machine's sleep;
/// zero is refused.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Acquire {
    pub(super) within: Option<Duration>,
    pub(super) label: Option<Arc<str>>,
    pub(super) max_hold: Option<Duration>,
    pub(super) at_least: Option<Duration>,
    pub(super) fail_fast: bool,
    pub(super) min_replicas: Option<u32>,
}

impl Acquire {
    /// No deadline, the coordinator's label, no fixed end.
    pub fn new() -> Self {
        Self::default()
    }

    /// The longest time for the whole acquisition. Zero is refused: a try is another call.
    pub fn within(mut self, deadline: Duration) -> Self {
        self.within = Some(deadline);
        self
    }

    /// Another label than the coordinator's in listings, up to 4 KiB. People read it on a terminal,
    /// so a control character, or one that changes the direction of the text around it, is refused.
    pub fn label(mut self, label: impl Into<Arc<str>>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// The hold ends after `length` whatever happens, so that a hung task does not hold for ever
    /// (LEASE-FIXED). It counts from the send of an uncontended join, else from when the
    /// acquisition learns of its admission: an acquisition that is not polled is not bounded by it.
    /// If `length` is shorter than the round trip, the acquisition answers `Lost` (`MaxHold`).
    ///
    /// At the end the hold is lost (`MaxHold`), and one [margin](crate::contracts::Lease::margin)
    /// later its node leaves, whether the guard is kept or dropped: by then the holder's work is
    /// over, as at an expiry. A [`release`](crate::Hold::release) after the end leaves at once.
    /// Spawned work is not stopped: give it [`lost`](crate::Hold::lost).
    pub fn max_hold(mut self, length: Duration) -> Self {
        self.max_hold = Some(length);
        self
    }

    /// The hold is not given back before `length` after its admission, however soon it is released
    /// or dropped. So a job of a few milliseconds on one host does not run again on a host whose
    /// clock is a second late. `release()` answers at once, and the node leaves when the time is
    /// over; [`close`](crate::Coordinator::close) waits for that.
    ///
    /// If an owner's writer is released while the owner reads on, other readers wait for that time
    /// too; a [`downgrade`](super::WriteGuard::downgrade) admits them at once. A
    /// [`max_hold`](Acquire::max_hold) that ends sooner (it may count from the send of the join)
    /// takes precedence.
    ///
    /// It binds this client as long as its lease lasts. If the process ends before, the server
    /// frees the node within a TTL; or at once, if the client was closed by
    /// [`close_now`](crate::Coordinator::close_now) and the backend's
    /// [`minimum_outlives_close`](crate::Capabilities::minimum_outlives_close) is false.
    pub fn hold_at_least(mut self, length: Duration) -> Self {
        self.at_least = Some(length);
        self
    }

    /// Answers `Unavailable` as soon as the coordinator does not answer, instead of waiting until
    /// it does: at once if the lease is [`Suspended`](crate::contracts::LeaseState::Suspended),
    /// when it becomes so during the wait in the queue, and at the first request that fails. For a
    /// service that has another answer ready (503) and does not keep its callers waiting in an
    /// outage. A re-entry needs no answer, and succeeds.
    pub fn fail_fast(mut self) -> Self {
        self.fail_fast = true;
        self
    }

    /// Redis: the acquisition counts only once so many replicas have confirmed it; else it is given
    /// back, and answers `Unavailable`, which says how many have. Zero asks for none, where the
    /// coordinator asks for some ([`Config::min_replicas`](crate::Config::min_replicas)).
    ///
    /// A confirmed hold outlives a failover to a replica that confirmed it, and no other: Redis may
    /// promote one that did not. Only the acquisition is confirmed: its renewals and its release are
    /// not, nor is a re-entry, or a call that joins an acquisition of its owner under way. The
    /// confirmation costs a round trip and the replication, on a connection of its own, and has the
    /// time of one request, within the deadline of the acquisition. Others wait meanwhile. It
    /// extends no lease.
    ///
    /// Elsewhere, where
    /// [`confirms_on_replicas`](crate::Capabilities::confirms_on_replicas) is false, more than zero
    /// is refused with `Unsupported`.
    pub fn min_replicas(mut self, replicas: u32) -> Self {
        self.min_replicas = Some(replicas);
        self
    }

    /// Validates the options before anything is sent.
    pub(super) fn check(&self) -> Result<()> {
        let lengths =
            [("deadline", self.within), ("max_hold", self.max_hold), ("hold_at_least", self.at_least)];
        for (name, length) in lengths {
            if length.is_some_and(|length| length.is_zero()) {
                return Err(Error::invalid(name, "must not be zero"));
            }
        }
        if let (Some(least), Some(most)) = (self.at_least, self.max_hold)
            && least > most
        {
            return Err(Error::invalid("hold_at_least", format!("is {least:?}, above max_hold, {most:?}")));
        }
        self.label.as_deref().map_or(Ok(()), label::check)
    }
}
