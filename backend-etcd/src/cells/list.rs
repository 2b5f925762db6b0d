//! Listing the cells of a kind (CELL-LIST).
//!
//! The keys of all cells of a kind are one range, without the values. The lease of a key says how
//! long the cell stays. The next page begins behind the last cell's encoded key, which is the token.

use crate::cell_lease::CellLease;
use crate::driver::{Driver, StoredKey, end_of};
use latchwork_core::{CellLife, Error, ListedKey, Page, QueuePrefix, Result};

/// The most keys that one request reads.
const MOST: usize = 1000;

/// Reads a page of at most `most` cells, from where the page before ended: one request, mostly.
pub(crate) async fn page(
    driver: &Driver,
    of: &QueuePrefix,
    after: Option<&str>,
    most: usize,
) -> Result<Page<ListedKey>> {
    of.check_cells()?;
    let root = format!("{}/{}/", of.namespace(), of.kind().as_str());
    let begin = format!("{root}{}", of.coded());
    let end = end_of(&begin);
    let behind = |key: &[u8]| [key, b"\0"].concat();
    let mut next = match after {
        None => begin.into_bytes(),
        Some(after) if of.queue(after).is_some() => behind(format!("{root}{after}").as_bytes()),
        Some(_) => return Err(Error::invalid("after", "no page of these cells ended there")),
    };
    let most = most.max(1);
    let mut page = Page::<ListedKey>::default();
    loop {
        let wanted = most - page.items.len();
        let found = driver.names(next, end.clone(), 0, wanted.min(MOST) as i64).await?;
        page.items.extend(found.keys.iter().filter_map(|stored| listed(of, &root, stored)));
        let Some(last) = found.keys.last().filter(|_| found.more) else { return Ok(page) };
        if page.items.len() == most {
            page.next = page.items.last().map(|last| last.address.coded().to_owned());
            return Ok(page);
        }
        next = behind(&last.key);
    }
}

/// The cell of a key; `None` for a key that is no cell's of these.
fn listed(of: &QueuePrefix, root: &str, stored: &StoredKey) -> Option<ListedKey> {
    let key = std::str::from_utf8(&stored.key).ok()?;
    let cell = of.queue(key.strip_prefix(root)?)?;
    let life = match (stored.lease, CellLease::found(key, stored.lease)) {
        (0, _) => CellLife::Stays,
        (_, Some(own)) => own.time().map_or(CellLife::Stays, CellLife::Idle),
        (_, None) => CellLife::Lease,
    };
    Some(ListedKey::new(cell, life))
}
