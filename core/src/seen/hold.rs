use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::Span;
use tracing::field::display;

use super::event;
use super::meter::RecipeMeter;
use crate::clock::Moment;
use crate::error::LostReason;
use crate::token::Token;

/// Each call gets the token, which the node has, to save memory.
#[derive(Debug)]
pub(crate) struct SeenHold {
    meter: Arc<RecipeMeter>,
    key: Arc<str>,
    begun: Moment,
    phase: Mutex<HoldPhase>,
}

#[derive(Debug)]
enum HoldPhase {
    /// Boxed, because a client may have thousands of holds. `None` if no subscriber listens.
    Held(Option<Box<Span>>),
    Released,
    Lost,
}

impl SeenHold {
    pub(super) fn begin(
        meter: Arc<RecipeMeter>,
        key: Arc<str>,
        token: Token,
        waited: Duration,
        begun: Moment,
    ) -> Self {
        meter.holders.add(1);
        let span = event::holding(meter.recipe, &key, token, waited);
        let phase = Mutex::new(HoldPhase::Held((!span.is_disabled()).then(|| Box::new(span))));
        Self { meter, key, begun, phase }
    }

    /// Only the first call counts. A loss that a release finds is reported by [`was_lost`](Self::was_lost).
    pub(crate) fn lost(&self, token: Token, reason: LostReason, now: Moment) {
        let Some(span) = self.end(HoldPhase::Lost, now) else { return };
        self.meter.lost(reason);
        match span {
            Some(span) => span.record("lost", display(reason)).in_scope(|| self.report(token, reason)),
            None => self.report(token, reason),
        }
    }

    pub(crate) fn released(&self, token: Token, now: Moment) {
        if self.end(HoldPhase::Released, now).is_some() {
            event::released(self.meter.recipe, &self.key, token, now.since(self.begun));
        }
    }

    /// The server's answer to a release shows the loss.
    pub(crate) fn was_lost(&self, token: Token, reason: LostReason) {
        let before = std::mem::replace(&mut *self.phase.lock(), HoldPhase::Lost);
        if !matches!(before, HoldPhase::Lost) {
            self.meter.lost(reason);
            self.report(token, reason);
        }
    }

    /// Returns the span if the hold was held until now.
    fn end(&self, end: HoldPhase, now: Moment) -> Option<Option<Box<Span>>> {
        let mut phase = self.phase.lock();
        let HoldPhase::Held(span) = &mut *phase else { return None };
        let span = span.take();
        *phase = end;
        self.meter.holders.add(-1);
        self.meter.hold.record(now.since(self.begun));
        Some(span)
    }

    fn report(&self, token: Token, reason: LostReason) {
        let (recipe, key) = (self.meter.recipe, &*self.key);
        match reason {
            LostReason::Closed => event::hold_closed(recipe, key, token, reason),
            _ => event::hold_lost(recipe, key, token, reason),
        }
    }
}
