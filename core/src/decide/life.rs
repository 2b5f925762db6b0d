//! The life of one hold, as a value: from its first join until nothing of it is left on the server.
//!
//! ```text
//!  Joining ── admitted ─────────► Held ── released, dropped, given up ──► Ending ── confirmed ──► Gone
//!     │ └──── queued ──► Waiting ──┘                                        ▲
//!     └──────────────────────┴────────── given up, dropped ─────────────────┘
//! ```
//!
//! An event is a method; it changes the value and returns the next action. Retries and clean-up are decided
//! only here: of an acquisition in [`Joining`], of a node in [`Life`].
//!
//! *Why it is safe.* Every end reports the possible remains on the server (HOLD-END-LEAVES-NOTHING), a hold
//! is lost once and for good (LEASE-LOST-IS-FINAL), and a release claims no more than the server's answers
//! show (HOLD-RELEASE-CLAIMS-NO-MORE). `docs/protocol/cleanup.md` has the arguments.

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

/// What a node's client knows at an instant.
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
    /// In the queue, or admitted and not yet a hold.
    Waiting,
    /// A hold.
    Held,
    /// To be removed as soon as a request may be sent; no longer renewed.
    Ending,
    /// Its removal has ended, confirmed or not.
    Gone(Outcome),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Downgrade {
    #[default]
    No,
    /// Continues in the background, even if the calls that requested it are dropped.
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
    /// Creates the life of a node that a join has made.
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

    /// Returns the instant at which the hold ends even if the lease is live (`LEASE-FIXED`).
    pub fn fixed_end(&self) -> Moment {
        self.fixed_end
    }

    /// Returns the instant before which the node is not released, even if its owner has ended the hold.
    pub fn kept_until(&self) -> Moment {
        self.kept_until
    }

    /// Decides after a failed wait for admission.
    pub fn wait_failed(&self, failure: Failure) -> Advance {
        match failure {
            Failure::Lost(reason) if joins_anew(reason) => Advance::JoinAnew,
            _ => Advance::Fail,
        }
    }

    /// Records an admission at `from`: the node is held from now on, for at most `max_hold`.
    ///
    /// # Errors
    /// The answer came too late: the node is lost. A new attempt follows, unless another client removed the
    /// node on purpose.
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

    /// Records a loss for this reason, unless the node was lost before.
    pub fn lose(&mut self, reason: LostReason, seen: Seen) {
        if self.lost(seen).is_none() {
            self.lost = Some(reason);
        }
    }

    /// Returns why the node is lost: by a report, by the end of its lease, or by its fixed end, whichever
    /// came first.
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

    /// Returns whether this client has ended the hold, by a fixed end or a close, within the last margin:
    /// work under it may still run (`LEASE-FIXED`, `LEASE-CLOSE`).
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

    /// Records that its owner has ended the hold. `lost`: why it was lost before. `ttl` is the TTL of its
    /// lease.
    pub fn end(&self, by: By, lost: Option<LostReason>, now: Moment, ttl: Duration) -> TakeBack {
        match (lost, by) {
            (Some(_), By::Drop) if self.lingers(now, ttl) => TakeBack::Lingers,
            (Some(_), _) => TakeBack::Lost,
            (None, _) if self.is_kept(now) => TakeBack::Later,
            (None, _) => TakeBack::Now,
        }
    }

    /// Records that the node is to be removed now, and no longer renewed.
    pub fn begin_end(&mut self) {
        if matches!(self.phase, Phase::Waiting | Phase::Held) {
            self.phase = Phase::Ending;
        }
    }

    /// Records that a leave is sent. An earlier one without an answer may have removed the node.
    pub fn leave_sent(&mut self) {
        self.begin_end();
        self.unanswered |= self.leaving;
        self.leaving = true;
    }

    /// Records that an earlier try without an answer may have removed the node.
    pub fn reply_lost(&mut self) {
        self.unanswered = true;
    }

    /// Records the answer to a leave: `Ok(None)` if the node was there, `Ok(Some(reason))` if not.
    /// `obsolete`: the node has expired on the server.
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

    /// The first outcome stays.
    fn gone(&mut self, outcome: Outcome) {
        if !matches!(self.phase, Phase::Gone(_)) {
            self.phase = Phase::Gone(outcome);
        }
    }

    /// Returns how the removal ended, once it has.
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

    /// Records that a downgrade call ends without an answer. Returns whether it is the first one, which must
    /// continue in the background.
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
