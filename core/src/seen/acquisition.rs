//! The span, the event and the metrics of one acquisition.

use std::sync::Arc;
use std::time::Duration;

use tracing::Span;
use tracing::field::{debug, display};

use super::event;
use super::hold::SeenHold;
use super::meter::{MeteredOutcome, RecipeMeter};
use crate::clock::{Clock, Moment};
use crate::error::Error;
use crate::token::Token;

/// An acquisition in progress. If it is dropped before its outcome, its outcome is `dropped`.
pub(crate) struct SeenAcquisition<'a> {
    meter: &'a Arc<RecipeMeter>,
    key: &'a Arc<str>,
    clock: Clock,
    begun: Moment,
    span: Span,
    // `true` until the outcome is known.
    open: bool,
}

impl<'a> SeenAcquisition<'a> {
    /// Begins now.
    pub(crate) fn begin(meter: &'a Arc<RecipeMeter>, key: &'a Arc<str>, clock: Clock) -> Self {
        meter.waiters.add(1);
        let (span, begun) = (event::acquiring(meter.recipe, key), clock.now());
        Self { meter, key, clock, begun, span, open: true }
    }

    /// Returns the span in which the acquisition runs.
    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Reports success, and begins the hold.
    pub(crate) fn acquired(mut self, token: Token, waited: Duration) -> SeenHold {
        self.end(MeteredOutcome::Acquired, waited);
        self.meter.wait.record(waited);
        event::acquired(self.meter.recipe, self.key, token, waited);
        SeenHold::begin(Arc::clone(self.meter), Arc::clone(self.key), token, waited, self.clock.now())
    }

    /// Reports a try that found the lock held.
    pub(crate) fn refused(mut self) {
        self.end(MeteredOutcome::Refused, self.waited());
    }

    /// Reports a failure.
    pub(crate) fn failed(mut self, error: &Error) {
        let (outcome, waited) = (MeteredOutcome::of(error), self.waited());
        self.end(outcome, waited);
        event::not_acquired(self.meter.recipe, self.key, waited, outcome.as_str(), error);
    }

    fn waited(&self) -> Duration {
        self.clock.now().since(self.begun)
    }

    fn end(&mut self, outcome: MeteredOutcome, waited: Duration) {
        if std::mem::take(&mut self.open) {
            self.meter.waiters.add(-1);
            self.meter.acquisition(outcome);
            if !self.span.is_disabled() {
                self.span.record("waited", debug(waited)).record("outcome", display(outcome.as_str()));
            }
        }
    }
}

impl Drop for SeenAcquisition<'_> {
    fn drop(&mut self) {
        if self.open {
            self.end(MeteredOutcome::Dropped, self.waited());
        }
    }
}
