//! The requests of a barrier's member: it reads the cell, then the queue, and writes the next passage.

use std::sync::Arc;
use std::time::Duration;

use super::cell_handle::{CellHandle, answered_nonsense};
use super::queue_handle::QueueHandle;
use crate::contracts::{CellLife, CellWrite, CellWritten, EntryPage, Expected, VersionedValue};
use crate::decide::barrier::{Disagreement, NoPassage, Passage, Place};
use crate::decide::renewal_period;
use crate::error::{Error, ErrorKind, Result};
use crate::support::random_part;
use crate::watched::list_behind;

const PAGE: usize = 500;

/// Up to this number of parties, each member re-checks in each renewal period.
const FEW: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// The member at this number passes.
    Pass(u64),
    /// All members that passed with the member of this number have left.
    Leave(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looked {
    Reached,
    Nothing,
    /// A step is possible soon, and no change of the cell will announce it.
    Again,
}

/// Returns the time to a member's next re-check. With many parties it is random: all members together
/// re-check twice in each renewal period, also if some are dead.
pub(super) fn recheck(parties: u32, ttl: Duration) -> Duration {
    let period = renewal_period(ttl);
    if parties <= FEW {
        return period;
    }
    random_part(period.saturating_mul(parties))
}

#[derive(Clone)]
pub(super) struct Gate {
    pub(super) handle: Arc<QueueHandle>,
    pub(super) cell: CellHandle,
    pub(super) parties: u32,
    /// Whether all members must leave before the next ones enter.
    pub(super) emptied: bool,
}

impl Gate {
    pub(super) fn new(handle: QueueHandle, cell: CellHandle, parties: u32, emptied: bool) -> Result<Self> {
        if parties == 0 {
            return Err(Error::invalid("parties", "must not be zero").on(handle.queue.name()));
        }
        Ok(Self { handle: Arc::new(handle), cell, parties, emptied })
    }

    pub(super) fn has_reached(&self, aim: Aim, passage: Option<Passage>) -> bool {
        match aim {
            Aim::Pass(own) => {
                passage.is_some_and(|passage| passage.parties == self.parties && passage.passed >= own)
            }
            // The last member that leaves deletes the cell.
            Aim::Leave(number) => passage.is_none_or(|passage| passage.left >= number),
        }
    }

    /// Returns whether the cell lacks this member's number of parties.
    pub(super) fn disagrees(&self, aim: Aim, passage: Option<Passage>) -> bool {
        matches!(aim, Aim::Pass(_)) && passage.is_none_or(|passage| passage.parties != self.parties)
    }

    /// Stores the number of parties if the cell lacks it. If it `counts`, also takes steps until the aim is
    /// reached or no step is possible.
    pub(super) async fn look(&self, aim: Aim, counts: bool) -> Result<Looked> {
        let mut seen = self.cell.read().await?;
        loop {
            let found = seen.as_ref().map(passage).transpose()?;
            if self.has_reached(aim, found) {
                return Ok(Looked::Reached);
            }
            let passage = found.unwrap_or_default();
            let next = match aim {
                Aim::Pass(own) if self.disagrees(aim, found) => match self.agreed(own, passage).await? {
                    Some(next) => Some(next),
                    None => return Ok(Looked::Again),
                },
                _ if counts => self.step(aim, passage).await?,
                _ => None,
            };
            let Some(next) = next else { return Ok(Looked::Nothing) };
            let write = passage_write(seen.as_ref(), next);
            seen = match self.cell.write(&write).await? {
                CellWritten::Refused(cell) => cell,
                CellWritten::Written(version) => write.value.map(|value| VersionedValue::new(version, value)),
                CellWritten::Deleted { .. } => return Err(answered_nonsense()),
            };
        }
    }

    /// Returns the passage with this member's number of parties, or `None` if it cannot be stored yet.
    /// `Conflict`: other members use another number.
    async fn agreed(&self, own: u64, passage: Passage) -> Result<Option<Passage>> {
        let all = if passage.parties == 0 { Vec::new() } else { self.standing(0).await? };
        match passage.disagrees(own, self.parties, self.emptied, &all) {
            Disagreement::Store(next) => Ok(Some(next)),
            Disagreement::Wait => Ok(None),
            Disagreement::Conflict(parties) => {
                let why = format!(
                    "other members use this barrier with {parties} parties, not {}: use one number in all processes, or another key",
                    self.parties
                );
                Err(Error::new(ErrorKind::Conflict, why))
            }
        }
    }

    async fn step(&self, aim: Aim, passage: Passage) -> Result<Option<Passage>> {
        let now = match self.emptied {
            // The head is enough: members that have passed are before all others.
            true => passage.emptied(self.first_after(0).await?),
            false => None,
        };
        if now.is_none() && (matches!(aim, Aim::Leave(_)) || self.emptied && passage.left < passage.passed) {
            return Ok(None);
        }
        // One write lets the last member leave and the next members pass.
        let from = now.unwrap_or(passage);
        Ok(from.next(self.emptied, self.standing(from.passed).await?).or(now))
    }

    /// Tries once to end the lost place of this number (BARRIER-GONE-BEFORE-AGAIN). Returns whether the
    /// member has passed, or `None` if the place is still in the queue or the cell has changed.
    pub(super) async fn settle(&self, own: u64) -> Result<Option<bool>> {
        let seen = self.cell.read().await?;
        let found = seen.as_ref().map(passage).transpose()?;
        if self.has_reached(Aim::Pass(own), found) {
            return Ok(Some(true));
        }
        if self.first_after(own - 1).await? == Some(own) {
            return Ok(None);
        }
        // The new version refuses a passage from an earlier listing.
        let again = found.unwrap_or(Passage { parties: self.parties, ..Passage::default() });
        let written = self.cell.write(&passage_write(seen.as_ref(), again)).await?;
        Ok(matches!(written, CellWritten::Written(_)).then_some(false))
    }

    /// Deletes the cell after the last member has left; a later member has a higher number and starts again.
    /// Otherwise lets members pass that waited for the last one to leave. After an error the next member does
    /// it.
    pub(super) async fn tidy(&self) {
        let tidied = async {
            if !self.emptied && self.first_after(0).await?.is_some() {
                return Ok(());
            }
            let mut seen = self.cell.read().await?;
            while let Some(cell) = &seen {
                let write = match self.first_after(0).await? {
                    None => CellWrite::deletion(Expected::Version(cell.version)),
                    Some(_) if !self.emptied => break,
                    Some(_) => match self.step(Aim::Leave(u64::MAX), passage(cell)?).await? {
                        Some(next) => passage_write(Some(cell), next),
                        None => break,
                    },
                };
                seen = match self.cell.write(&write).await? {
                    CellWritten::Refused(cell) => cell,
                    CellWritten::Written(_) | CellWritten::Deleted { .. } => break,
                };
            }
            Ok::<_, Error>(())
        };
        if let Err(error) = tidied.await {
            tracing::debug!(%error, "the cell of a barrier could not be tidied; the next member does it");
        }
    }

    async fn standing(&self, after: u64) -> Result<Vec<Place>> {
        let (client, first) = (&self.cell.client, EntryPage::new(after, PAGE));
        let entries = client.serve(list_behind(&*client.backend, &self.handle.queue, first)).await?;
        Ok(entries.iter().filter_map(Place::of).collect())
    }

    async fn first_after(&self, sequence: u64) -> Result<Option<u64>> {
        let (client, page) = (&self.cell.client, EntryPage::new(sequence, 1));
        let entries = client.serve(client.backend.list(&self.handle.queue, page)).await?;
        Ok(entries.first().map(|entry| entry.sequence))
    }
}

fn passage_write(seen: Option<&VersionedValue>, passage: Passage) -> CellWrite {
    let expected = seen.map(|cell| cell.version).into();
    CellWrite { expected, value: Some(passage.to_string().into_bytes().into()), life: CellLife::Stays }
}

pub(super) fn passage(cell: &VersionedValue) -> Result<Passage> {
    let text = std::str::from_utf8(&cell.value).map_err(|_| NoPassage);
    text.and_then(str::parse).map_err(|NoPassage| {
        Error::new(ErrorKind::Conflict, "the stored value is not a barrier: use another key")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_a_large_barrier_recheck_twice_a_period_together() {
        let (ttl, period) = (Duration::from_secs(30), Duration::from_secs(10));
        assert_eq!(recheck(FEW, ttl), period);
        let all: Vec<_> = (0..1_000).map(|_| recheck(1_000, ttl)).collect();
        assert!(all.iter().all(|next| *next < period * 1_000));
        let mean = all.iter().sum::<Duration>() / 1_000;
        assert!((period * 400..period * 600).contains(&mean), "{mean:?}");
        assert!(recheck(u32::MAX, Duration::from_secs(3600)) > Duration::ZERO);
    }
}
