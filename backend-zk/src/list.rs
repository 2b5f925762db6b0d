//! Listing a queue, and removing from it by hand.

use std::time::Duration;

use latchwork_core::contracts::{Entry, Page};
use latchwork_core::decide::admitted_prefix;
use latchwork_core::{Address, Kind, Result};

use crate::driver::Look;
use crate::error::Fault;
use crate::lease::Session;
use crate::limit::read_limit;
use crate::names::Queue;
use crate::nodes::Site;
use crate::tags::{Told, is_admitted};

/// How many nodes are read in one trip.
const CHUNK: usize = 256;

/// Lists a queue in order. Names come in one reply, since a server has no pages of them: some 60 bytes each. What they do not say
/// (label, age, sequence number) is read for the page only, so many at a time, and each time has the request timeout.
pub(crate) async fn list(session: &Session, address: &Address, page: Page) -> Result<Vec<Entry>> {
    let site = Site::of(address)?;
    let fail = |fault: Fault| fault.error_without_trace("list a queue");
    let driver = &session.driver;
    let Look { children, limit } = match driver.look(&site.path, site.limit.as_deref(), false).await {
        Ok(look) => look,
        Err(Fault::NoNode) => return Ok(Vec::new()),
        Err(fault) => return Err(fail(fault)),
    };
    let queue = Queue::read(site.kind, children);
    let limit = read_limit(limit).map_err(fail)?;

    // The order of names is the order of sequence numbers: the page's begin is found by halving. (Not so for a reader
    // that Curator turned from a writer, which says nothing of its former number.)
    let (mut low, mut high) = (0, queue.0.len());
    while page.after > 0 && low < high {
        let middle = low + (high - low) / 2;
        match driver.read(&site.node(&queue.0[middle].name)).await {
            Ok((data, stat)) if Told::read(&data, &stat).sequence <= page.after => low = middle + 1,
            // Gone meanwhile: looked for among those before it, which at worst reads a few entries more.
            Ok(_) | Err(Fault::NoNode) => high = middle,
            Err(fault) => return Err(fail(fault)),
        }
    }
    let shown = low..queue.0.len().min(low.saturating_add(page.most));
    let paths: Vec<_> = queue.0[shown.clone()].iter().map(|place| site.node(&place.name)).collect();
    let mut found = Vec::with_capacity(paths.len());
    for chunk in paths.chunks(CHUNK) {
        found.extend(driver.read_all(chunk).await.map_err(fail)?);
    }

    let claims: Vec<_> = queue.0.iter().map(|place| place.claim).collect();
    let last_marked =
        found.iter().rposition(|found| found.as_ref().is_some_and(|(data, _)| is_admitted(data)));
    let already = last_marked.map_or(0, |at| shown.start + at + 1);
    let admitted = match site.kind {
        Kind::Semaphore => admitted_prefix(&claims, already, limit.unwrap_or_default().permits),
        _ => admitted_prefix(&claims, 0, 0),
    };
    let now = session.server_now();
    let entries = shown.zip(found).filter_map(|(at, found)| {
        let (data, stat) = found?;
        let told = Told::read(&data, &stat);
        Some(Entry {
            sequence: told.sequence,
            claim: claims[at],
            admitted: at < admitted,
            label: told.label,
            age: Some(Duration::from_millis(u64::try_from(now.saturating_sub(told.joined)).unwrap_or(0))),
        })
    });
    Ok(entries.filter(|entry| entry.sequence > page.after).collect())
}

/// Removes the node at a sequence number, whoever has it. Nothing newer is met, but where the server removes the emptied directory and its
/// client joins anew, all between the two requests: then that one's hold is revoked, and told so.
pub(crate) async fn revoke(session: &Session, address: &Address, sequence: u64) -> Result<bool> {
    let site = Site::of(address)?;
    let work = async {
        // A writer may turn into a reader, of another name, between two requests; but only once.
        for _ in 0..if site.kind == Kind::RwLock { 2 } else { 1 } {
            let Some(path) = find(session, &site, sequence).await? else { continue };
            match session.driver.delete(&path).await {
                Err(Fault::NoNode) => {}
                deleted => return deleted.map(|()| true),
            }
        }
        Ok(false)
    };
    work.await.map_err(|fault: Fault| fault.error("revoke a node"))
}

/// The path of the node at a sequence number. Read from the head on, where those stand whom one wants to be rid of.
async fn find(session: &Session, site: &Site, sequence: u64) -> std::result::Result<Option<String>, Fault> {
    let children = match session.driver.sync_children(&site.path).await {
        Ok(children) => children,
        Err(Fault::NoNode) => return Ok(None),
        Err(fault) => return Err(fault),
    };
    let queue = Queue::read(site.kind, children);
    for places in queue.0.chunks(CHUNK) {
        let mut paths: Vec<_> = places.iter().map(|place| site.node(&place.name)).collect();
        let found = session.driver.read_all(&paths).await?;
        let wanted = |found: &Option<(Vec<u8>, _)>| {
            found.as_ref().is_some_and(|(data, stat)| Told::read(data, stat).sequence == sequence)
        };
        if let Some(at) = found.iter().position(wanted) {
            return Ok(Some(paths.swap_remove(at)));
        }
    }
    Ok(None)
}
