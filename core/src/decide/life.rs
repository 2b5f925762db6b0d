//! The life of one hold, as a value: from its first join until nothing of it is left on the server.
//!
//! ```text
//!  Joining ── admitted ─────────► Held ── released, dropped, given up ──► Ending ── confirmed ──► Gone
//!     │ └──── queued ──► Waiting ──┘                                        ▲
//!     └──────────────────────┴────────── given up, dropped ─────────────────┘
//! ```
//!
//! An event is a method; it changes the value and answers what to do next. Retries and clean-up are
//! decided here and nowhere else. An acquisition ([`Joining`]) drives the first part, and the
//! node's state ([`Life`]) the rest.
//!
//! *Why it is safe.* Every end answers what may be left on the server (HOLD-END-LEAVES-NOTHING), a
//! hold is lost once and for good (LEASE-LOST-IS-FINAL), and a release claims no more than the
//! server's answers show (HOLD-RELEASE-CLAIMS-NO-MORE). `docs/protocol/cleanup.md` has the
//! arguments.

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
    /// Why the node's lease is lost and since when, if it is.
    pub lease: Option<(LostReason, Moment)>,
}

/// The phase of a node's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// In the queue, or admitted and not yet a hold.
    Waiting,
    /// A hold.
    Held,
    /// To be removed as soon as there is room for the request; no longer renewed.
    Ending,
    /// Its removal has ended, confirmed or not.
    Gone(Outcome),
}

/// How far a writer's node has become a reader's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Downgrade {
    #[default]
    No,
    /// Goes on in the background, whatever becomes of the calls that asked for it.
    Begun,
    Confirmed,
}

/// The life of a node, from the answer to its join.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Life {
    phase: Phase,
    // The first reason stays.
    lost: Option<LostReason>,
    fixed_end: Moment,
    kept_until: Moment,
    downgrade: Downgrade,
    // A leave is under way; an earlier one has no answer.
    leaving: bool,
    unanswered: bool,
}

impl Life {
    /// A node that a join has made.
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

    /// The current phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The instant at which it ends whatever the lease says (`LEASE-FIXED`).
    pub fn fixed_end(&self) -> Moment {
        self.fixed_end
    }

    /// The instant before which it is not given back, though its owner has ended it
    /// (`min_hold`).
    pub fn kept_until(&self) -> Moment {
        self.kept_until
    }

    /// The wait for its admission failed.
    pub fn wait_failed(&self, failure: Failure) -> Advance {
        match failure {
            Failure::Lost(reason) if joins_anew(reason) => Advance::JoinAnew,
            _ => Advance::Fail,
        }
    }

    /// It was admitted at `from`, and is held from now on, for `max_hold` at most. An error if it
    /// is lost already, because the answer came too late: then a new attempt is due, unless someone
    /// removed the node on purpose.
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

    /// It ends at this instant at the latest.
    pub fn end_by(&mut self, end: Moment) {
        self.fixed_end = self.fixed_end.min(end);
    }

    /// It is kept until this instant at least.
    pub fn keep_until(&mut self, end: Moment) {
        self.kept_until = self.kept_until.max(end);
    }

    /// It is lost for this reason, unless it was lost before.
    pub fn lose(&mut self, reason: LostReason, seen: Seen) {
        if self.lost(seen).is_none() {
            self.lost = Some(reason);
        }
    }

    /// Why it is lost, or `None` while it is not: by a report, by the end of its lease, or by its
    /// fixed end, whichever came first. The first reason stays.
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

    /// Why it was lost, as far as that was seen.
    pub fn was_lost(&self) -> Option<LostReason> {
        self.lost
    }

    /// Whether its own client has ended it, by a fixed end or a close, within the last margin: work
    /// under it may still run (`LEASE-FIXED`, `LEASE-CLOSE`).
    pub fn lingers(&self, now: Moment, ttl: Duration) -> bool {
        match self.lost {
            Some(LostReason::Closed) => true,
            Some(LostReason::MaxHold) => now < given_back_at(self.fixed_end, ttl),
            _ => false,
        }
    }

    /// Whether it must not be given back yet.
    pub fn is_kept(&self, now: Moment) -> bool {
        now < self.kept_until
    }

    /// Its owner has ended it. `lost`: why it was lost before, if it was. `ttl` is that of its
    /// lease.
    pub fn end(&self, by: By, lost: Option<LostReason>, now: Moment, ttl: Duration) -> TakeBack {
        match (lost, by) {
            (Some(_), By::Drop) if self.lingers(now, ttl) => TakeBack::Lingers,
            (Some(_), _) => TakeBack::Lost,
            (None, _) if self.is_kept(now) => TakeBack::Later,
            (None, _) => TakeBack::Now,
        }
    }

    /// It is to be removed now, and no longer renewed.
    pub fn begin_end(&mut self) {
        if matches!(self.phase, Phase::Waiting | Phase::Held) {
            self.phase = Phase::Ending;
        }
    }

    /// A leave is sent. An earlier one without an answer (dropped, or still under way) may have
    /// removed the node.
    pub fn leave_sent(&mut self) {
        self.begin_end();
        self.unanswered |= self.leaving;
        self.leaving = true;
    }

    /// An earlier try may have removed the node: no answer told.
    pub fn reply_lost(&mut self) {
        self.unanswered = true;
    }

    /// The leave was answered: `Ok(None)` if the node was there, `Ok(Some(reason))` if not.
    /// `obsolete`: the server has removed it by itself.
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

    /// How its removal ended, once it has.
    pub fn outcome(&self) -> Option<Outcome> {
        match self.phase {
            Phase::Gone(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Whether the server has confirmed the downgrade.
    pub fn is_downgraded(&self) -> bool {
        self.downgrade == Downgrade::Confirmed
    }

    /// A downgrade call ends without an answer. Answers whether the downgrade must go on in the
    /// background: once is enough, however often it is asked for.
    pub fn downgrade_later(&mut self) -> bool {
        let first = self.downgrade == Downgrade::No;
        if first {
            self.downgrade = Downgrade::Begun;
        }
        first
    }

    /// The server has confirmed the downgrade.
    pub fn downgraded(&mut self) {
        self.downgrade = Downgrade::Confirmed;
    }
}

impl Default for Life {
    fn default() -> Self {
        Self::new()
    }
}
