//! One acquisition, as its span, its event and the metrics show it.

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

/// An acquisition under way. Dropped before it has an outcome, it counts as dropped.
pub(crate) struct SeenAcquisition<'a> {
    meter: &'a Arc<RecipeMeter>,
    key: &'a Arc<str>,
    clock: Clock,
    begun: Moment,
    span: Span,
    // It has no outcome yet.
    open: bool,
}

impl<'a> SeenAcquisition<'a> {
    /// It begins now.
    pub(crate) fn begin(meter: &'a Arc<RecipeMeter>, key: &'a Arc<str>, clock: Clock) -> Self {
        meter.waiters.add(1);
        let (span, begun) = (event::acquiring(meter.recipe, key), clock.now());
        Self { meter, key, clock, begun, span, open: true }
    }

    /// The span to run it in.
    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// It has its hold.
    pub(crate) fn acquired(mut self, token: Token, waited: Duration) -> SeenHold {
        self.end(MeteredOutcome::Acquired, waited);
        self.meter.wait.record(waited);
        event::acquired(self.meter.recipe, self.key, token, waited);
        SeenHold::begin(Arc::clone(self.meter), Arc::clone(self.key), token, waited, self.clock.now())
    }

    /// A try found it held.
    pub(crate) fn refused(mut self) {
        self.end(MeteredOutcome::Refused, self.waited());
    }

    /// It failed.
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
