//! A walk over all keys of the server, page by page.

use latchwork_core::{Error, Result};

use crate::client::Client;
use crate::driver::Cursor;
use crate::error::only_read;

/// The fewest and the most keys of one step of a walk, about, and the steps for one page: a server
/// full of other keys answers pages without any that fit.
const LEAST_STEP: usize = 10;
const LONGEST_STEP: usize = 1000;
const STEPS: usize = 100;

/// The walk of one page.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    client: &'a Client,
    pattern: String,
    step: usize,
    steps: usize,
    // Where the next step begins; `None` behind the last.
    next: Option<Cursor>,
}

impl<'a> Walk<'a> {
    /// From where the page before ended, for keys that fit `pattern`.
    ///
    /// # Errors
    /// `InvalidArgument` naming `after` for text that no page gave.
    pub(crate) fn from(
        client: &'a Client,
        pattern: String,
        after: Option<&str>,
        most: usize,
    ) -> Result<Self> {
        let page =
            |after| Cursor::parse(after).ok_or_else(|| Error::invalid("after", "is not what a page gave"));
        let next = after.map_or_else(|| Ok(Cursor::default()), page)?;
        let step = most.clamp(LEAST_STEP, LONGEST_STEP);
        Ok(Self { client, pattern, step, steps: STEPS, next: Some(next) })
    }

    /// The keys of the next step; `None` where the walk, or the page, has ended. A key may come twice.
    pub(crate) async fn step(&mut self) -> Result<Option<Vec<Vec<u8>>>> {
        let Some(from) = self.next.as_ref().filter(|_| self.steps > 0) else { return Ok(None) };
        self.steps -= 1;
        let (next, keys) = self.client.scan(from, &self.pattern, self.step).await.map_err(only_read)?;
        self.next = next;
        Ok(Some(keys))
    }

    /// Where the next page begins.
    pub(crate) fn next_page(self) -> Option<String> {
        self.next.map(|next| next.to_string())
    }
}
