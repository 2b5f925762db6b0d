use std::sync::Arc;
use std::time::Duration;

use super::node_data::check_data;
use crate::contracts::{Limit, Patience};
use crate::decide::Claim;
use crate::error::{Error, Result};
use crate::label;
use crate::reentrancy::Owner;

/// The arguments of an acquisition and its options ([`Acquire`](super::Acquire)). Durations also count while
/// the machine sleeps.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ask {
    /// The name of the method, for errors.
    pub operation: &'static str,
    /// Exclusive, shared, or a number of permits.
    pub claim: Claim,
    /// The limit of a semaphore.
    pub limit: Limit,
    /// The node's data, up to 4,096 bytes.
    pub data: Arc<[u8]>,
    /// Whether it waits its turn.
    pub patience: Patience,
    /// The deadline of the whole acquisition, from its first poll.
    pub within: Option<Duration>,
    /// The owner of the hold.
    pub owner: Option<Owner>,
    /// The time to the fixed end of the hold.
    pub max_hold: Option<Duration>,
    /// The shortest time of the hold.
    pub min_hold: Option<Duration>,
    /// Whether it fails when the coordinator does not answer.
    pub fail_fast: bool,
    /// How many replicas must confirm it.
    pub min_replicas: Option<u32>,
    /// The text in listings.
    pub label: Option<Arc<str>>,
}

impl Ask {
    /// Makes an acquisition that waits its turn, without options.
    pub fn new(operation: &'static str, claim: Claim) -> Self {
        Self {
            operation,
            claim,
            limit: Limit::Stored,
            data: Arc::default(),
            patience: Patience::Wait,
            within: None,
            owner: None,
            max_hold: None,
            min_hold: None,
            fail_fast: false,
            min_replicas: None,
            label: None,
        }
    }

    /// Makes a try: an acquisition that does not wait.
    pub fn try_new(operation: &'static str, claim: Claim) -> Self {
        Self { patience: Patience::Try, ..Self::new(operation, claim) }
    }

    pub(super) fn saying(self, data: &[u8]) -> Self {
        Self { data: data.into(), ..self }
    }

    /// Returns the label of the call, or of its owner.
    pub(super) fn shown(&self) -> Option<&Arc<str>> {
        self.label.as_ref().or_else(|| self.owner.as_ref().map(Owner::shared_label))
    }

    pub(super) fn check(&self) -> Result<()> {
        let times = [("within", self.within), ("max_hold", self.max_hold), ("min_hold", self.min_hold)];
        for (name, time) in times {
            if time.is_some_and(|time| time.is_zero()) {
                return Err(Error::invalid(name, "must not be zero"));
            }
        }
        if let (Some(least), Some(most)) = (self.min_hold, self.max_hold)
            && least > most
        {
            let why = format!("is {least:?}, above max_hold ({most:?}): lower it or raise max_hold");
            return Err(Error::invalid("min_hold", why));
        }
        self.check_weight()?;
        check_data(&self.data)?;
        self.shown().map_or(Ok(()), |label| label::check(label))
    }

    fn check_weight(&self) -> Result<()> {
        let Claim::Permits(weight) = self.claim else { return Ok(()) };
        match (weight, self.limit.exactly()) {
            (0, _) => Err(Error::invalid("weight", "must not be zero")),
            (weight, Some(limit)) if weight > limit => {
                Err(Error::invalid("weight", format!("is {weight}, above the limit {limit}")))
            }
            _ => Ok(()),
        }
    }
}
