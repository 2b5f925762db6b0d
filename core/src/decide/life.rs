//! The life of a hold, as a value: from its first join until the server has nothing of it.
//!
//! ```text
//!  Joining ── admitted ─────────► Held ── released, dropped, given up ──► Ending ── confirmed ──► Gone
//!     │ └──── queued ──► Waiting ──┘                                        ▲
//!     └──────────────────────┴────────── given up, dropped ─────────────────┘
//! ```
//!
//! An event is a method: it changes the value, and returns the next action. Retries and clean-ups
//! are decided only here: of an acquisition in [`Joining`], of a node in [`Life`]. `docs/protocol/cleanup.md` has
//! the arguments (HOLD-END-LEAVES-NOTHING, HOLD-RELEASE-CLAIMS-NO-MORE, LEASE-LOST-IS-FINAL).

mod answer;
mod ending;
mod joining;

use std::time::Duration;

pub use self::answer::{Advance, Failure, Residue, joins_anew};
pub use self::ending::{AfterTry, By, Outcome, TakeBack};
pub use self::joining::Joining;
use super::deadline::given_back_at;
use crate::clock::Moment;
use crate::error::LostReason;

/// The knowledge of a node's client at an instant.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The instant.
    pub now: Moment,
    /// Why and since when the node's lease is lost, if it is.
    pub lease: Option<(LostReason, Moment)>,
}

/// The phase of a node's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// In the queue, or admitted but not yet a hold.
    Waiting,
    /// A hold.
    Held,
    /// To be removed as soon as a request may be sent, and not renewed.
    Ending,
    /// Its removal has ended, confirmed or not.
    Gone(Outcome),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Downgrade {
    #[default]
    No,
    /// It continues in the background.
    Begun,
    Confirmed,
}

/// The life of a node, from the answer to its join.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Life {
    phase: Phase,
    lost: Option<LostReason>,
    fixed_end: Moment,
    kept_until: Moment,
    downgrade: Downgrade,
    leaving: bool,
    unanswered: bool,
}

impl Life {
    /// Creates the life of a new node.
    pub fn new() -> Self {
        Self {
            phase: Phase::Waiting,
            lost: None,
            fixed_end: Moment::NEVER,
            kept_until: Moment::PAST,
            downgrade: Downgrade::No,
            leaving: false,
            unanswered: false,
        }
    }

    /// Returns the current phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the end of the hold, even if the lease is live (`LEASE-FIXED`).
    pub fn fixed_end(&self) -> Moment {
        self.fixed_end
    }

    /// Returns the instant before which the node is not released, even if its owner ends the hold
    /// (`min_hold`).
    pub fn kept_until(&self) -> Moment {
        self.kept_until
    }

    /// Decides after a failed wait.
    pub fn wait_failed(&self, failure: Failure) -> Advance {
        match failure {
            Failure::Lost(reason) if joins_anew(reason) => Advance::JoinAnew,
            _ => Advance::Fail,
        }
    }

    /// Records an admission at `from`, for at most `max_hold`.
    ///
    /// # Errors
    /// The answer came too late, and the node is lost. A new attempt follows, unless another client removed
    /// the node on purpose.
    pub fn hold(
        &mut self,
        from: Moment,
        max_hold: Option<Duration>,
        seen: Seen,
    ) -> Result<(), (LostReason, Advance)> {
        if let Some(length) = max_hold {
            self.fixed_end = self.fixed_end.min(from + length);
        }
        match self.lost(seen) {
            None => {
                self.phase = Phase::Held;
                Ok(())
            }
            Some(reason) => Err((reason, self.wait_failed(Failure::Lost(reason)))),
        }
    }

    /// Ends the hold at this instant at the latest.
    pub fn end_by(&mut self, end: Moment) {
        self.fixed_end = self.fixed_end.min(end);
    }

    /// Keeps the node at least until this instant.
    pub fn keep_until(&mut self, end: Moment) {
        self.kept_until = self.kept_until.max(end);
    }

    /// Records a loss, unless an earlier one is recorded.
    pub fn lose(&mut self, reason: LostReason, seen: Seen) {
        if self.lost(seen).is_none() {
            self.lost = Some(reason);
        }
    }

    /// Returns why the node is lost: by a report, the end of its lease, or its fixed end. The first one
    /// counts.
    pub fn lost(&mut self, seen: Seen) -> Option<LostReason> {
        if self.lost.is_none() {
            self.lost = match seen.lease {
                Some((reason, at)) if at < self.fixed_end => Some(reason),
                None if seen.now < self.fixed_end => None,
                _ => Some(LostReason::MaxHold),
            };
        }
        self.lost
    }

    /// Returns the recorded loss, without a look at the clock.
    pub fn was_lost(&self) -> Option<LostReason> {
        self.lost
    }

    /// Returns whether this client has ended the hold within the last margin, so that its work may still run
    /// (`LEASE-FIXED`, `LEASE-CLOSE`).
    pub fn lingers(&self, now: Moment, ttl: Duration) -> bool {
        match self.lost {
            Some(LostReason::Closed) => true,
            Some(LostReason::MaxHold) => now < given_back_at(self.fixed_end, ttl),
            _ => false,
        }
    }

    /// Returns whether the node must not be released yet.
    pub fn is_kept(&self, now: Moment) -> bool {
        now < self.kept_until
    }

    /// Decides when to remove the node of a hold that its owner ends.
    pub fn end(&self, by: By, lost: Option<LostReason>, now: Moment, ttl: Duration) -> TakeBack {
        match (lost, by) {
            (Some(_), By::Drop) if self.lingers(now, ttl) => TakeBack::Lingers,
            (Some(_), _) => TakeBack::Lost,
            (None, _) if self.is_kept(now) => TakeBack::Later,
            (None, _) => TakeBack::Now,
        }
    }

    /// Records that the node is to be removed now.
    pub fn begin_end(&mut self) {
        if matches!(self.phase, Phase::Waiting | Phase::Held) {
            self.phase = Phase::Ending;
        }
    }

    /// Records that a leave is sent. An earlier leave without an answer may have removed the node.
    pub fn leave_sent(&mut self) {
        self.begin_end();
        self.unanswered |= self.leaving;
        self.leaving = true;
    }

    /// Records that an earlier request may have removed the node.
    pub fn reply_lost(&mut self) {
        self.unanswered = true;
    }

    /// Records the answer to a leave: `Ok(None)` if the node existed, `Ok(Some(reason))` if not. `obsolete`:
    /// the node has expired on the server.
    pub fn left(&mut self, answer: Result<Option<LostReason>, Failure>, obsolete: bool) -> AfterTry {
        self.leaving = false;
        let lost = match answer {
            Ok(absent) => absent,
            Err(Failure::Lost(reason)) => Some(reason),
            Err(failure) => {
                self.unanswered |= failure == Failure::Unanswered;
                let next = AfterTry::of(Some(failure), obsolete);
                if next != AfterTry::Again {
                    self.gone(Outcome::Unconfirmed);
                }
                return next;
            }
        };
        self.gone(match lost {
            None => Outcome::Removed,
            Some(_) if self.unanswered => Outcome::Unsure,
            Some(reason) => Outcome::Absent(reason),
        });
        AfterTry::Done
    }

    fn gone(&mut self, outcome: Outcome) {
        if !matches!(self.phase, Phase::Gone(_)) {
            self.phase = Phase::Gone(outcome);
        }
    }

    /// Returns the outcome of the removal, once it has ended.
    pub fn outcome(&self) -> Option<Outcome> {
        match self.phase {
            Phase::Gone(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Returns whether the server has confirmed the downgrade.
    pub fn is_downgraded(&self) -> bool {
        self.downgrade == Downgrade::Confirmed
    }

    /// Records that a downgrade call ends without an answer. Returns whether this is the first call, which
    /// must continue in the background.
    pub fn downgrade_later(&mut self) -> bool {
        let first = self.downgrade == Downgrade::No;
        if first {
            self.downgrade = Downgrade::Begun;
        }
        first
    }

    /// Records that the server has confirmed the downgrade.
    pub fn downgraded(&mut self) {
        self.downgrade = Downgrade::Confirmed;
    }
}

impl Default for Life {
    fn default() -> Self {
        Self::new()
    }
}
