//! A walk over the keys of a range. The token is the last item's encoded key.

use latchwork_core::{Address, Error, ListedKey, Page, QueuePrefix, Result};

use crate::driver::{Driver, StoredKey, end_of};

const MOST: usize = 1000;

/// The first key, or the key after the token `after`.
///
/// # Errors
/// `InvalidArgument` naming `after`, if no page returned this text as its `next`.
pub(crate) fn start(
    of: &QueuePrefix,
    first: &str,
    after: Option<&str>,
    behind: impl FnOnce(&str) -> Vec<u8>,
) -> Result<Vec<u8>> {
    match after {
        None => Ok(first.into()),
        Some(after) if of.queue(after).is_some() => Ok(behind(after)),
        Some(_) => Err(Error::invalid("after", "is not the `next` of a page of this listing")),
    }
}

/// An item is `root` and an encoded key of `of`. Other keys under the root are skipped.
pub(crate) async fn page(
    driver: &Driver,
    root: &str,
    of: &QueuePrefix,
    (after, most): (Option<&str>, usize),
    listed: impl Fn(Address, &StoredKey) -> ListedKey,
) -> Result<Page<ListedKey>> {
    let begin = format!("{root}{}", of.coded());
    let end = end_of(&begin);
    let behind = |key: &[u8]| [key, b"\0"].concat();
    let mut next = start(of, &begin, after, |after| behind(format!("{root}{after}").as_bytes()))?;
    let item = |stored: &StoredKey| {
        let coded = std::str::from_utf8(&stored.key).ok()?.strip_prefix(root)?;
        Some(listed(of.queue(coded)?, stored))
    };
    let most = most.max(1);
    let mut page = Page::<ListedKey>::default();
    loop {
        // Many keys may be skipped, so each request reads a whole page.
        let found = driver.page(&next, end.clone(), 0, most.min(MOST) as i64, true).await?;
        page.items.extend(found.keys.iter().filter_map(item));
        if page.items.len() > most || found.more && page.items.len() == most {
            page.items.truncate(most);
            page.next = page.items.last().map(|last| last.address.coded().to_owned());
            return Ok(page);
        }
        let Some(last) = found.keys.last().filter(|_| found.more) else { return Ok(page) };
        next = behind(&last.key);
    }
}
