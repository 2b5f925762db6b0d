use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;

use super::ended::{Ended, HoldState};
use super::majority::Majority;
use super::tenure::{Tenure, one_changed, until_ended};
use crate::error::Result;

/// The tenures of a guard: one for each of its nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HeldBy<'a> {
    /// The first loss ends the hold.
    All(&'a [Arc<Tenure>]),
    Majority(&'a Arc<Majority>),
}

/// As [`HeldBy`], for `lost()` handles and state streams.
#[derive(Clone)]
pub(crate) enum Tenures {
    One(Arc<Tenure>),
    All(Arc<[Arc<Tenure>]>),
    Majority(Arc<Majority>),
}

impl Tenures {
    pub(crate) fn held_by(&self) -> HeldBy<'_> {
        match self {
            Self::One(tenure) => HeldBy::All(std::slice::from_ref(tenure)),
            Self::All(tenures) => HeldBy::All(tenures),
            Self::Majority(majority) => HeldBy::Majority(majority),
        }
    }
}

impl From<HeldBy<'_>> for Tenures {
    fn from(held: HeldBy<'_>) -> Self {
        match held {
            HeldBy::All([tenure]) => Self::One(Arc::clone(tenure)),
            HeldBy::All(tenures) => Self::All(tenures.into()),
            HeldBy::Majority(majority) => Self::Majority(Arc::clone(majority)),
        }
    }
}

impl<'a> HeldBy<'a> {
    /// Empty for a quorum lock.
    pub(crate) fn tenures(self) -> &'a [Arc<Tenure>] {
        match self {
            Self::All(tenures) => tenures,
            Self::Majority(_) => &[],
        }
    }

    /// The first key, or after a loss the key that was lost.
    pub(crate) fn key(self) -> &'a str {
        match self {
            Self::All(tenures) => end_of_all(tenures).map_or(&tenures[0], |(tenure, _)| tenure).queue.name(),
            Self::Majority(majority) => &majority.key,
        }
    }

    pub(crate) fn ended(self) -> Option<Ended> {
        match self {
            Self::All(tenures) => end_of_all(tenures).map(|(_, ended)| ended),
            Self::Majority(majority) => majority.ended(),
        }
    }

    /// `None` for a hold on one coordinator.
    pub(crate) fn lost_on(self) -> Option<String> {
        match self {
            Self::All(tenures) => tenures.iter().find_map(|tenure| tenure.lost_on()),
            Self::Majority(_) => None,
        }
    }

    pub(crate) fn check(self) -> Result<()> {
        match self {
            Self::All(tenures) => end_of_all(tenures).map_or(Ok(()), |(tenure, _)| tenure.check()),
            Self::Majority(majority) => {
                majority.ended().map_or(Ok(()), |ended| Err(ended.error().on(Arc::clone(&majority.key))))
            }
        }
    }

    /// The worst state of all tenures, or the majority's.
    pub(crate) fn state(self) -> HoldState {
        match self {
            Self::All(tenures) => state_of_all(tenures),
            Self::Majority(majority) => majority.state(),
        }
    }

    /// The shortest time of all tenures, or the majority's.
    pub(crate) fn remaining(self) -> Duration {
        match self {
            Self::All(tenures) => tenures.iter().map(|tenure| tenure.remaining()).min().unwrap_or_default(),
            Self::Majority(majority) => majority.remaining(),
        }
    }

    pub(crate) async fn until_ended(self) {
        match self {
            Self::All([tenure]) => until_ended(tenure).await,
            Self::All(tenures) => {
                select_all(tenures.iter().map(|tenure| Box::pin(until_ended(tenure)))).await;
            }
            Self::Majority(majority) => majority.until_ended().await,
        }
    }

    pub(crate) async fn changed(self, seen: HoldState) -> HoldState {
        match self {
            Self::All(tenures) => all_changed(tenures, seen).await,
            Self::Majority(majority) => majority.changed(seen).await,
        }
    }
}

/// A loss takes precedence: the holder's release ends all tenures, and one may have been lost before.
fn end_of_all(tenures: &[Arc<Tenure>]) -> Option<(&Arc<Tenure>, Ended)> {
    let mut ends = tenures.iter().filter_map(|tenure| Some((tenure, tenure.ended()?)));
    let first = ends.next()?;
    let is_loss = |(_, ended): &(_, Ended)| matches!(ended, Ended::Lost(_));
    if is_loss(&first) { Some(first) } else { Some(ends.find(is_loss).unwrap_or(first)) }
}

fn state_of_all(tenures: &[Arc<Tenure>]) -> HoldState {
    let mut worst = HoldState::Held;
    for tenure in tenures {
        worst = match (tenure.state(), worst) {
            (lost @ HoldState::Ended(Ended::Lost(_)), _) => return lost,
            (ended @ HoldState::Ended(_), _) | (_, ended @ HoldState::Ended(_)) => ended,
            (HoldState::Held, worst) => worst,
            (suspended, _) => suspended,
        };
    }
    worst
}

async fn all_changed(tenures: &[Arc<Tenure>], seen: HoldState) -> HoldState {
    loop {
        // Each tenure is read before the whole, so that no change in between is missed.
        let each: Vec<_> = tenures.iter().map(|tenure| tenure.state()).collect();
        let state = state_of_all(tenures);
        if state != seen {
            return state;
        }
        let changes = tenures.iter().zip(each).map(|(tenure, seen)| Box::pin(one_changed(tenure, seen)));
        select_all(changes).await;
    }
}
