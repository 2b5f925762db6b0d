use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::ended::{Ended, HoldState};
use super::tenure::{Tenure, one_changed, until_ended};
use crate::decide::quorum::valid_for;
use crate::error::LostReason;

/// Held while `need` of the tenures are held. Other tenures may join.
#[derive(Debug)]
pub(crate) struct Majority {
    pub(super) key: Arc<str>,
    need: usize,
    state: Mutex<MajorityState>,
    changed: Notify,
}

#[derive(Debug)]
struct MajorityState {
    // The index is the number of the member.
    tenures: Vec<Option<Arc<Tenure>>>,
    // Final.
    ended: Option<Ended>,
}

impl Majority {
    pub(crate) fn new(key: &str, need: usize, tenures: Vec<Option<Arc<Tenure>>>) -> Arc<Self> {
        let state = Mutex::new(MajorityState { tenures, ended: None });
        Arc::new(Self { key: key.into(), need, state, changed: Notify::new() })
    }

    /// Returns false if the hold has ended: the tenure does not belong to it.
    pub(crate) fn add(&self, member: usize, tenure: &Arc<Tenure>) -> bool {
        let mut state = self.state.lock();
        let stands = state.ended(self.need).is_none();
        if stands {
            state.tenures[member] = Some(Arc::clone(tenure));
            self.changed.notify_waiters();
        }
        stands
    }

    pub(crate) fn holds(&self, member: usize) -> bool {
        let state = self.state.lock();
        state.tenures[member].as_ref().is_some_and(|tenure| tenure.ended().is_none())
    }

    /// Returns how the hold ended, the same at every call.
    pub(crate) fn end(&self) -> Ended {
        let mut state = self.state.lock();
        let ended = state.ended(self.need).unwrap_or(Ended::Released);
        state.ended = Some(ended);
        self.changed.notify_waiters();
        ended
    }

    pub(crate) fn ended(&self) -> Option<Ended> {
        self.state.lock().ended(self.need)
    }

    pub(super) fn state(&self) -> HoldState {
        let mut state = self.state.lock();
        if let Some(ended) = state.ended(self.need) {
            return HoldState::Ended(ended);
        }
        let live = state.tenures.iter().flatten().filter(|tenure| tenure.state() == HoldState::Held);
        if live.count() >= self.need { HoldState::Held } else { HoldState::Suspended }
    }

    /// See QUORUM-VALIDITY.
    pub(super) fn remaining(&self) -> Duration {
        let mut state = self.state.lock();
        if state.ended(self.need).is_some() {
            return Duration::ZERO;
        }
        valid_for(self.need, state.tenures.iter().flatten().map(|tenure| tenure.remaining()))
            .unwrap_or_default()
    }

    pub(crate) async fn until_ended(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.ended().is_some() {
                return;
            }
            let held = self.held();
            if held.is_empty() {
                continue;
            }
            let ends = held.into_iter().map(|tenure| Box::pin(async move { until_ended(&tenure).await }));
            tokio::select! {
                () = changed => {}
                _ = select_all(ends) => {}
            }
        }
    }

    pub(super) async fn changed(&self, seen: HoldState) -> HoldState {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            // Each tenure is read before the whole, so that no change in between is missed.
            let each: Vec<_> = self.held().into_iter().map(|tenure| (tenure.state(), tenure)).collect();
            let state = self.state();
            if state != seen || each.is_empty() {
                return state;
            }
            let changes = each
                .into_iter()
                .map(|(seen, tenure)| Box::pin(async move { one_changed(&tenure, seen).await }));
            tokio::select! {
                () = changed => {}
                _ = select_all(changes) => {}
            }
        }
    }

    fn held(&self) -> Vec<Arc<Tenure>> {
        let state = self.state.lock();
        state.tenures.iter().flatten().filter(|tenure| tenure.ended().is_none()).cloned().collect()
    }
}

impl MajorityState {
    fn ended(&mut self, need: usize) -> Option<Ended> {
        if self.ended.is_none() {
            let ends: Vec<_> = self.tenures.iter().flatten().map(|tenure| tenure.ended()).collect();
            if ends.iter().filter(|ended| ended.is_none()).count() < need {
                let mut losses = ends.into_iter().flatten().filter(|ended| matches!(ended, Ended::Lost(_)));
                let first = losses.next().unwrap_or(Ended::Released);
                // The end of the hold ends all members that were not lost before.
                let own = losses.find(|ended| *ended == Ended::Lost(LostReason::MaxHold));
                self.ended = Some(own.unwrap_or(first));
            }
        }
        self.ended
    }
}
