//! The options of an acquisition, which all recipes over a queue share.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::label;

/// How to acquire. Lengths of time are counted by the client's clock, which goes on while the machine sleeps; zero is refused.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Acquire {
    pub(super) within: Option<Duration>,
    pub(super) label: Option<Arc<str>>,
    pub(super) max_hold: Option<Duration>,
    pub(super) at_least: Option<Duration>,
    pub(super) fail_fast: bool,
}

impl Acquire {
    /// Without a deadline, with the coordinator's label, without a fixed end.
    pub fn new() -> Self {
        Self::default()
    }

    /// At most so long in all. Zero is refused: a try is another call.
    pub fn within(mut self, deadline: Duration) -> Self {
        self.within = Some(deadline);
        self
    }

    /// Another label than the coordinator's in listings, up to 4 KiB. People read it on a terminal: one with a control character, or
    /// with a character that changes the direction of the text around it, is refused.
    pub fn label(mut self, label: impl Into<Arc<str>>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// The hold ends after `length` whatever happens, so that a hung task does not hold for ever
    /// (LEASE-FIXED). It counts from the send of an uncontended join, else from when its owner learns of the admission: an
    /// acquisition that nobody polls is not bounded by it. One that is shorter than the way to the server and back is over
    /// before it begins, and the acquisition answers `Lost` (`MaxHold`).
    ///
    /// At its end the hold is lost (`MaxHold`), and one [margin](crate::contracts::Lease::margin) later its node is left, whether
    /// the guard is kept or dropped: what the holder was doing is over when the next comes in, as at an expiry. A
    /// [`release`](crate::Hold::release) behind the end leaves the node at once. Work that was spawned is not stopped by
    /// it: give it [`lost`](crate::Hold::lost).
    pub fn max_hold(mut self, length: Duration) -> Self {
        self.max_hold = Some(length);
        self
    }

    /// The hold is not given back before `length` after its admission, however soon it is released or dropped: a job of a few
    /// milliseconds on one host is not run again by a host whose clock is a second late. `release()` answers at once, and
    /// the node departs when the time is over; [`close`](crate::Coordinator::close) waits for that. So long no reader comes in
    /// either behind an owner's writer that is released while the owner reads on; a
    /// [`downgrade`](super::WriteGuard::downgrade) lets them in at once. Where [`max_hold`](Acquire::max_hold) ends sooner, which
    /// counts from the send of the join, that goes before.
    ///
    /// It binds this client as long as its lease lasts. When the process ends before, the server frees the node
    /// within a TTL, or at once where the client was closed by
    /// [`close_now`](crate::Coordinator::close_now) and the backend's
    /// [`minimum_outlives_close`](crate::Capabilities::minimum_outlives_close) is false.
    pub fn hold_at_least(mut self, length: Duration) -> Self {
        self.at_least = Some(length);
        self
    }

    /// Answers `Unavailable` as soon as the coordinator does not answer, instead of waiting until it does: at once where the lease is
    /// [`Suspended`](crate::contracts::LeaseState::Suspended), as soon as it is so while it waits in the queue, and at the first request
    /// that fails. For a service that has another answer ready (503) and does not keep its callers waiting in an outage. A
    /// re-entry waits for nothing, and is let in.
    pub fn fail_fast(mut self) -> Self {
        self.fail_fast = true;
        self
    }

    /// Refuses what can be refused before anything is asked.
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
