//! A walk over all keys of the server, page by page.

use std::collections::HashSet;

use futures_util::future::BoxFuture;
use latchwork_core::{Address, Error, ListedKey, Page, Result};

use crate::client::Client;
use crate::driver::Cursor;
use crate::error::only_read;
use crate::layout::ListedKeys;

/// The fewest and the most keys of one step of a walk, about, and the steps for one page: a server
/// full of other keys answers pages without any that fit.
const LEAST_STEP: usize = 100;
const LONGEST_STEP: usize = 1000;
const STEPS: usize = 100;
/// Addresses that one request asks about.
const AT_ONCE: usize = 500;

/// Reads a page of about `most` items, from where the page before ended. `listed` answers which of the addresses that
/// the keys name are items.
///
/// # Errors
/// `InvalidArgument` naming `after` for text that no page gave; those of `listed`.
pub(crate) async fn page(
    client: &Client,
    keys: ListedKeys<'_>,
    (after, most): (Option<&str>, usize),
    listed: impl for<'a> Fn(&'a Client, &'a [Address]) -> BoxFuture<'a, Result<Vec<ListedKey>>>,
) -> Result<Page<ListedKey>> {
    let mut walk = Walk::from(client, keys, after, most)?;
    let mut items = Vec::new();
    while let Some(shown) = walk.step().await? {
        for part in shown.chunks(AT_ONCE) {
            items.extend(listed(client, part).await?);
        }
        if items.len() >= most {
            break;
        }
    }
    Ok(Page::new(items, walk.next.map(|next| next.to_string())))
}

/// The walk of one page.
#[derive(Debug)]
struct Walk<'a> {
    client: &'a Client,
    keys: ListedKeys<'a>,
    // What it has shown: it may meet a key twice, and a queue may have two.
    seen: HashSet<Address>,
    step: usize,
    steps: usize,
    // Where the next step begins; `None` behind the last.
    next: Option<Cursor>,
}

impl<'a> Walk<'a> {
    fn from(client: &'a Client, keys: ListedKeys<'a>, after: Option<&str>, most: usize) -> Result<Self> {
        let page =
            |after| Cursor::parse(after).ok_or_else(|| Error::invalid("after", "is not what a page gave"));
        let next = after.map_or_else(|| Ok(Cursor::default()), page)?;
        let step = most.clamp(LEAST_STEP, LONGEST_STEP);
        Ok(Self { client, keys, seen: HashSet::new(), step, steps: STEPS, next: Some(next) })
    }

    /// What the next step shows that none before has; `None` where the walk, or the page, has ended.
    async fn step(&mut self) -> Result<Option<Vec<Address>>> {
        let Some(from) = self.next.as_ref().filter(|_| self.steps > 0) else { return Ok(None) };
        self.steps -= 1;
        let scanned = self.client.scan(from, &self.keys.pattern(), self.step).await;
        let (next, found) = scanned.map_err(only_read)?;
        self.next = next;
        let shown = found.iter().filter_map(|key| self.keys.address(key));
        Ok(Some(shown.filter(|address| self.seen.insert(address.clone())).collect()))
    }
}
