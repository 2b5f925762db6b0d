//! The queues that have nodes (NODE-QUEUES).
//!
//! The keys of all queues of a kind are one ordered range. A queue is listed at its first node, and the next
//! request begins after the last key that the queue may have. A page ends with enough queues, or after enough
//! requests.

use crate::driver::{Driver, StoredKey, end_of};
use crate::layout::{Layout, Queue};
use crate::walk;
use latchwork_core::{Address, ListedKey, Page, QueuePrefix, Result};

const FEWEST: usize = 32;
const MOST: usize = 1000;
/// After this number of requests, a page ends with the next queue.
const REQUESTS: usize = 16;

pub(crate) async fn page(
    driver: &Driver,
    layout: &Layout,
    of: &QueuePrefix,
    after: Option<&str>,
    most: usize,
) -> Result<Page<ListedKey>> {
    let root = format!("{}/{}/", of.namespace(), of.kind().as_str());
    let begin = format!("{root}{}", of.coded());
    let end = end_of(&begin);
    let mut next = walk::start(of, &begin, after, |after| end_of(&format!("{root}{after}/")))?;
    let most = most.max(1);
    let keys = most.saturating_mul(2).clamp(FEWEST, MOST) as i64;
    let mut scan = Scan { layout, of, root, most, within: None, queues: Vec::new() };
    for request in 1.. {
        let found = driver.page(&next, end.clone(), 0, keys, true).await?;
        for stored in &found.keys {
            if !scan.take(stored)? {
                return Ok(scan.page(true));
            }
        }
        let Some(last) = found.keys.last().filter(|_| found.more) else { break };
        if request >= REQUESTS && scan.is_listed() {
            return Ok(scan.page(true));
        }
        next = scan.next(&last.key);
    }
    Ok(scan.page(false))
}

struct Scan<'a> {
    layout: &'a Layout,
    of: &'a QueuePrefix,
    root: String,
    most: usize,
    within: Option<Within>,
    queues: Vec<Address>,
}

struct Within {
    coded: String,
    unlisted: Option<(Address, Queue)>,
}

impl Scan<'_> {
    /// `false`: the key would list more queues than requested.
    fn take(&mut self, stored: &StoredKey) -> Result<bool> {
        let tail = stored.key.strip_prefix(self.root.as_bytes());
        let tail = tail.and_then(|tail| std::str::from_utf8(tail).ok());
        let Some((coded, _)) = tail.and_then(|tail| tail.split_once('/')) else { return Ok(true) };
        if self.within.as_ref().is_none_or(|within| within.coded != coded) {
            let address = self.of.queue(coded);
            let queue = address.map(|address| self.layout.queue(&address).map(|queue| (address, queue)));
            self.within = Some(Within { coded: coded.to_owned(), unlisted: queue.transpose()? });
        }
        let Some(within) = &mut self.within else { return Ok(true) };
        let has_node = |(_, queue): &mut (Address, Queue)| queue.claim(stored).is_some();
        if let Some((address, _)) = within.unlisted.take_if(has_node) {
            if self.queues.len() == self.most {
                return Ok(false);
            }
            self.queues.push(address);
        }
        Ok(true)
    }

    fn is_listed(&self) -> bool {
        let is_over = self.within.as_ref().is_none_or(|within| within.unlisted.is_none());
        is_over && !self.queues.is_empty()
    }

    fn next(&self, last: &[u8]) -> Vec<u8> {
        let after = [last, b"\0"].concat();
        match &self.within {
            Some(Within { coded, unlisted: None }) => end_of(&format!("{}{coded}/", self.root)).max(after),
            _ => after,
        }
    }

    fn page(self, is_cut: bool) -> Page<ListedKey> {
        let next = self.queues.last().filter(|_| is_cut).map(|last| last.coded().to_owned());
        Page::new(self.queues.into_iter().map(ListedKey::queue).collect(), next)
    }
}
