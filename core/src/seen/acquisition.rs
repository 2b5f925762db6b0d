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

pub(crate) struct SeenAcquisition<'a> {
    meter: &'a Arc<RecipeMeter>,
    key: &'a Arc<str>,
    clock: Clock,
    begun: Moment,
    span: Span,
    open: bool,
}

impl<'a> SeenAcquisition<'a> {
    pub(crate) fn begin(meter: &'a Arc<RecipeMeter>, key: &'a Arc<str>, clock: Clock) -> Self {
        meter.waiters.add(1);
        let (span, begun) = (event::acquiring(meter.recipe, key), clock.now());
        Self { meter, key, clock, begun, span, open: true }
    }

    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    pub(crate) fn acquired(mut self, token: Token, waited: Duration) -> SeenHold {
        self.end(MeteredOutcome::Acquired, waited);
        self.meter.wait.record(waited);
        event::acquired(self.meter.recipe, self.key, token, waited);
        SeenHold::begin(Arc::clone(self.meter), Arc::clone(self.key), token, waited, self.clock.now())
    }

    pub(crate) fn refused(mut self) {
        self.end(MeteredOutcome::Refused, self.waited());
    }

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
