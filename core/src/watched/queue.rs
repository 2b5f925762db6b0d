use std::sync::Arc;

use super::Reader;
use crate::address::{Address, Kind};
use crate::contracts::{Backend, ChangeWatch, EntryPage, QueueEntry};
use crate::error::{Error, LostReason, Result};

const PAGE: usize = 500;

/// An election needs only the head.
#[derive(Debug)]
pub(crate) struct QueueReader {
    seen: Arc<[QueueEntry]>,
    highest: u64,
}

impl Default for QueueReader {
    fn default() -> Self {
        Self { seen: Arc::from([]), highest: 0 }
    }
}

impl Reader for QueueReader {
    type State = Arc<[QueueEntry]>;

    fn watch(backend: &dyn Backend, queue: &Address) -> Box<dyn ChangeWatch> {
        backend.watch_queue(queue)
    }

    async fn read(&mut self, backend: &dyn Backend, queue: &Address) -> Result<Self::State> {
        let mut entries = match queue.kind() {
            // During a move a waiting head may be on another side than the next leader, with another order.
            Kind::Election => {
                let head = backend.list(queue, EntryPage::new(0, 1)).await?;
                head.into_iter().filter(|head| head.admitted).collect()
            }
            _ => list_all(backend, queue).await?,
        };
        // The age would differ at each read.
        entries.iter_mut().for_each(|entry| entry.age = None);
        self.note(entries.into())?;
        Ok(Arc::clone(&self.seen))
    }
}

impl QueueReader {
    /// A new node must be above all earlier nodes, and a node that has left must not return.
    fn note(&mut self, entries: Arc<[QueueEntry]>) -> Result<()> {
        let was_there = |entry: &QueueEntry| {
            self.seen.binary_search_by_key(&entry.sequence, |seen| seen.sequence).is_ok()
        };
        if entries.iter().any(|entry| entry.sequence <= self.highest && !was_there(entry)) {
            return Err(Error::lost(LostReason::Forgotten));
        }
        self.highest = entries.last().map_or(self.highest, |last| self.highest.max(last.sequence));
        self.seen = entries;
        Ok(())
    }
}

pub(crate) async fn list_all(backend: &dyn Backend, queue: &Address) -> Result<Vec<QueueEntry>> {
    list_behind(backend, queue, EntryPage::new(0, PAGE)).await
}

/// All pages have the size of the first one.
pub(crate) async fn list_behind(
    backend: &dyn Backend,
    queue: &Address,
    first: EntryPage,
) -> Result<Vec<QueueEntry>> {
    let mut entries: Vec<QueueEntry> = Vec::new();
    loop {
        let after = entries.last().map_or(first.after, |last| last.sequence);
        let page = backend.list(queue, EntryPage { after, ..first }).await?;
        let is_last = page.len() < first.most;
        entries.extend(page);
        if is_last {
            return Ok(entries);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::Claim;

    fn listing(sequences: &[u64]) -> Arc<[QueueEntry]> {
        let entry = |sequence: &u64| QueueEntry {
            sequence: *sequence,
            claim: Claim::Shared,
            admitted: true,
            label: String::new(),
            age: None,
            lease_left: None,
            data: Arc::default(),
        };
        sequences.iter().map(entry).collect()
    }

    #[test]
    fn a_listing_that_cannot_have_followed_those_before_is_forgotten() {
        for (before, now, followed) in [
            (&[&[][..]][..], &[][..], true),
            (&[&[]], &[7], true),
            (&[&[3, 7]], &[3, 7], true),
            (&[&[3, 7]], &[7], true),
            (&[&[3, 7]], &[3], true),
            (&[&[3, 7]], &[7, 9], true),
            (&[&[3, 7]], &[], true),
            // Heads of an election, with and without a gap.
            (&[&[3], &[]], &[7], true),
            (&[&[3], &[7]], &[8], true),
            // A new node with a lower number than the earlier nodes.
            (&[&[3, 7]], &[3, 5, 7], false),
            (&[&[7]], &[3], false),
            // A node that has left came again.
            (&[&[3], &[7]], &[3], false),
            (&[&[3], &[]], &[3], false),
            (&[&[3, 7], &[3], &[]], &[7], false),
            (&[&[3, 7], &[3]], &[3, 7], false),
        ] {
            let mut reader = QueueReader::default();
            for before in before {
                reader.note(listing(before)).expect("it follows");
            }
            let noted = reader.note(listing(now)).map_err(|error| error.lost_reason());
            assert_eq!(noted.is_ok(), followed, "{now:?} after {before:?}");
            assert_eq!(noted.err(), (!followed).then_some(Some(LostReason::Forgotten)));
        }
    }
}
