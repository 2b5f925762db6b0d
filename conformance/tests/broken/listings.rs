use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::{Backend, EntryPage, KeysWith, QueueEntry};
use latchwork_core::{Address, ListedKey, Page, QueuePrefix, Result};

use super::defect::Defect;
use super::wrapper::ALL;

pub(super) struct Pages(pub(super) fn(EntryPage) -> EntryPage);

#[async_trait]
impl Defect for Pages {
    async fn list(&self, honest: &dyn Backend, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        honest.list(queue, (self.0)(page)).await
    }
}

pub(super) struct EmptyPages(pub(super) fn(EntryPage) -> bool);

#[async_trait]
impl Defect for EmptyPages {
    async fn list(&self, honest: &dyn Backend, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        if (self.0)(page) { Ok(Vec::new()) } else { honest.list(queue, page).await }
    }
}

pub(super) struct Lists(pub(super) fn(&mut Vec<QueueEntry>));

#[async_trait]
impl Defect for Lists {
    async fn list(&self, honest: &dyn Backend, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        let mut entries = honest.list(queue, page).await?;
        (self.0)(&mut entries);
        Ok(entries)
    }
}

pub(super) fn foreign_labels(entries: &mut [QueueEntry], shown: fn(&str) -> String) {
    let foreign = entries.iter_mut().filter(|entry| entry.label.starts_with("someone"));
    foreign.for_each(|entry| entry.label = shown(&entry.label));
}

pub(super) fn leases(entries: &mut [QueueEntry], shown: fn(Duration) -> Duration) {
    entries.iter_mut().for_each(|entry| entry.lease_left = entry.lease_left.map(shown));
}

/// Shows each member of a barrier as two members.
pub(super) fn each_as_two(entries: &mut Vec<QueueEntry>) {
    let another = |entry: &QueueEntry| {
        let mut data = entry.data.to_vec();
        // The member's id.
        data.iter_mut().take(32).for_each(|digit| *digit = if *digit == b'0' { b'1' } else { b'0' });
        QueueEntry { data: data.into(), ..entry.clone() }
    };
    *entries = entries.drain(..).flat_map(|entry| [another(&entry), entry]).collect();
}

pub(super) fn number_downwards(entries: &mut [QueueEntry]) {
    entries.iter_mut().for_each(|entry| entry.sequence = (1 << 52) - entry.sequence);
}

/// Each node of a page has the data of the node before it, and the first node the data of the last.
pub(super) fn shift_data(entries: &mut [QueueEntry]) {
    let data: Vec<_> = entries.iter().map(|entry| Arc::clone(&entry.data)).collect();
    for (entry, before) in entries.iter_mut().zip(data.last().into_iter().chain(&data)) {
        entry.data = Arc::clone(before);
    }
}

pub(super) struct ShowsTheLast;

#[async_trait]
impl Defect for ShowsTheLast {
    async fn list(&self, honest: &dyn Backend, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        if page.most > 1 {
            return honest.list(queue, page).await;
        }
        let last = honest.list(queue, ALL).await?.pop();
        Ok(last.map(|last| QueueEntry { admitted: true, ..last }).into_iter().collect())
    }
}

#[derive(Default)]
pub(super) struct ListsFromMemory(Mutex<Vec<QueueEntry>>);

#[async_trait]
impl Defect for ListsFromMemory {
    async fn list(&self, honest: &dyn Backend, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        let listed = honest.list(queue, page).await;
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match listed {
            Ok(listed) => last.clone_from(&listed),
            Err(error) if error.may_pass() => {}
            Err(error) => return Err(error),
        }
        Ok(last.clone())
    }
}

pub(super) struct ListsKeys {
    pub(super) with: KeysWith,
    pub(super) at_least: usize,
    pub(super) answered: fn(Page<ListedKey>) -> Page<ListedKey>,
}

impl ListsKeys {
    /// The first page also ends the listing.
    pub(super) fn in_one_page(with: KeysWith, at_least: usize) -> Self {
        Self { with, at_least, answered: |page| Page::new(page.items, None) }
    }
}

#[async_trait]
impl Defect for ListsKeys {
    async fn list_keys(
        &self,
        honest: &dyn Backend,
        with: KeysWith,
        of: &QueuePrefix,
        after: Option<&str>,
        most: usize,
    ) -> Result<Page<ListedKey>> {
        if with != self.with {
            return honest.list_keys(with, of, after, most).await;
        }
        let page = honest.list_keys(with, of, after, most.max(self.at_least)).await?;
        Ok((self.answered)(page))
    }
}

/// A listing counts as a use of each cell.
pub(super) struct ListingUses;

#[async_trait]
impl Defect for ListingUses {
    async fn list_keys(
        &self,
        honest: &dyn Backend,
        with: KeysWith,
        of: &QueuePrefix,
        after: Option<&str>,
        most: usize,
    ) -> Result<Page<ListedKey>> {
        let page = honest.list_keys(with, of, after, most).await?;
        for listed in page.items.iter().filter(|_| with == KeysWith::Cell) {
            honest.read_cell(&listed.address).await?;
        }
        Ok(page)
    }
}
