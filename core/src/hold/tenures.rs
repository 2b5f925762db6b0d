//! The tenures of one hold: a guard of one node has one, a guard of several nodes has them all.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;

use super::ended::Ended;
use super::tenure::Tenure;
use crate::contracts::LeaseState;
use crate::error::Result;

/// The tenures of one hold, shared with its `lost()` handles and state streams. It is held while
/// all of them are: the first that is lost ends it.
#[derive(Clone)]
pub(crate) enum Tenures {
    One(Arc<Tenure>),
    All(Arc<[Arc<Tenure>]>),
}

impl Deref for Tenures {
    type Target = [Arc<Tenure>];

    fn deref(&self) -> &[Arc<Tenure>] {
        match self {
            Self::One(tenure) => std::slice::from_ref(tenure),
            Self::All(tenures) => tenures,
        }
    }
}

impl From<&[Arc<Tenure>]> for Tenures {
    fn from(tenures: &[Arc<Tenure>]) -> Self {
        match tenures {
            [tenure] => Self::One(Arc::clone(tenure)),
            tenures => Self::All(tenures.into()),
        }
    }
}

/// The tenure whose end has ended the hold, and how, by the clock at this call; `None` while it is
/// held. A loss counts before a release: the holder's release ends all tenures, and one of them may
/// have been lost before.
pub(crate) fn ended(tenures: &[Arc<Tenure>]) -> Option<(&Arc<Tenure>, Ended)> {
    let mut ends = tenures.iter().filter_map(|tenure| Some((tenure, tenure.ended()?)));
    let first = ends.next()?;
    let is_loss = |(_, ended): &(_, Ended)| matches!(ended, Ended::Lost(_));
    if is_loss(&first) { Some(first) } else { Some(ends.find(is_loss).unwrap_or(first)) }
}

/// Fails once the hold is over. The error names the key that was lost.
pub(crate) fn check(tenures: &[Arc<Tenure>]) -> Result<()> {
    ended(tenures).map_or(Ok(()), |(tenure, _)| tenure.check())
}

/// The state by the clock at this call: the worst of all; `None` after a release in time.
pub(crate) fn state(tenures: &[Arc<Tenure>]) -> Option<LeaseState> {
    let mut worst = Some(LeaseState::Live);
    for tenure in tenures {
        worst = match (tenure.state(), worst) {
            (Some(lost @ LeaseState::Lost(_)), _) => return Some(lost),
            (None, _) | (_, None) => None,
            (Some(LeaseState::Live), worst) => worst,
            (suspended, _) => suspended,
        };
    }
    worst
}

/// How much time is left: the least of all.
pub(crate) fn remaining(tenures: &[Arc<Tenure>]) -> Duration {
    tenures.iter().map(|tenure| tenure.remaining()).min().unwrap_or_default()
}

/// Waits until one of the tenures has ended, lost or released.
pub(crate) async fn until_one_ended(tenures: Tenures) {
    match &*tenures {
        [tenure] => until_ended(tenure).await,
        tenures => {
            select_all(tenures.iter().map(|tenure| Box::pin(until_ended(tenure)))).await;
        }
    }
}

async fn until_ended(tenure: &Tenure) {
    if let Some(node) = tenure.node() {
        tokio::select! {
            () = tenure.until_ended() => {}
            _ = node.state().until_lost() => {}
        }
    }
}

/// Waits until the state is another than `seen`, and answers it. `None` after a release in time.
pub(crate) async fn changed(tenures: &[Arc<Tenure>], seen: LeaseState) -> Option<LeaseState> {
    loop {
        // Each is read before the whole: else a change in between would be missed.
        let each: Vec<_> = tenures.iter().map(|tenure| tenure.state()).collect();
        let state = state(tenures);
        if state != Some(seen) {
            return state;
        }
        let changes = tenures.iter().zip(each).map(|(tenure, seen)| Box::pin(one_changed(tenure, seen)));
        select_all(changes).await;
    }
}

async fn one_changed(tenure: &Tenure, seen: Option<LeaseState>) {
    if let (Some(seen), Some(node)) = (seen, tenure.node()) {
        tokio::select! {
            () = tenure.until_ended() => {}
            _ = node.state().changed(seen) => {}
        }
    }
}
