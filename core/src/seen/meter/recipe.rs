use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::instrument::{CounterMetric, Gauge, Histogram};
use super::outcome::{MeteredOutcome, REASONS};
use super::table::{ACQUISITIONS, HOLD, HOLDERS, LOSSES, WAIT, WAITERS};
use crate::error::LostReason;

#[derive(Debug)]
pub(crate) struct Recipes {
    backend: &'static str,
    meters: Mutex<BTreeMap<&'static str, Arc<RecipeMeter>>>,
}

impl Recipes {
    pub(crate) fn new(backend: &'static str) -> Self {
        Self { backend, meters: Mutex::default() }
    }

    pub(crate) fn of(&self, recipe: &'static str) -> Arc<RecipeMeter> {
        let mut meters = self.meters.lock();
        let meter = meters.entry(recipe).or_insert_with(|| Arc::new(RecipeMeter::new(self.backend, recipe)));
        Arc::clone(meter)
    }
}

/// All series exist from the start.
#[derive(Debug)]
pub(crate) struct RecipeMeter {
    pub(in crate::seen) recipe: &'static str,
    outcomes: [CounterMetric; MeteredOutcome::ALL.len()],
    pub(in crate::seen) wait: Histogram,
    pub(in crate::seen) hold: Histogram,
    pub(in crate::seen) holders: Gauge,
    pub(in crate::seen) waiters: Gauge,
    losses: [CounterMetric; REASONS.len()],
}

impl RecipeMeter {
    fn new(backend: &'static str, recipe: &'static str) -> Self {
        let labels = [backend, recipe];
        Self {
            recipe,
            outcomes: MeteredOutcome::ALL
                .map(|(_, outcome)| CounterMetric::new(&ACQUISITIONS, &[backend, recipe, outcome])),
            wait: Histogram::new(&WAIT, &labels),
            hold: Histogram::new(&HOLD, &labels),
            holders: Gauge::new(&HOLDERS, &labels),
            waiters: Gauge::new(&WAITERS, &labels),
            losses: REASONS.map(|(_, reason)| CounterMetric::new(&LOSSES, &[backend, recipe, reason])),
        }
    }

    pub(crate) fn acquisition(&self, outcome: MeteredOutcome) {
        self.outcomes[outcome as usize].count();
    }

    pub(crate) fn lost(&self, reason: LostReason) {
        if let Some(at) = REASONS.iter().position(|(known, _)| *known == reason) {
            self.losses[at].count();
        }
    }
}
