use std::time::Duration;

use latchwork_core::backend::decide::admitted_prefix;
use latchwork_core::backend::{EntryPage, QueueEntry};
use latchwork_core::{Address, Kind, Result};

use super::limit::read_limit;
use super::session::Session;
use crate::driver::{QueueReply, Stat};
use crate::error::{Answer, Fault, if_there};
use crate::layout::{Contenders, NodeData, QueuePaths, is_admitted};

const CHUNK: usize = 256;

/// Lists a queue in order. All names come in one reply, some 60 bytes each, because a server has no pages of
/// children; data is read only for the page. Later nodes replace nodes that left in between. After a `sync`,
/// the listing shows a change of which another server notified the client (WATCH-QUEUE).
pub(crate) async fn list(session: &Session, address: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
    let paths = QueuePaths::of(address)?;
    let fail = |fault: Fault| fault.error_without_trace("list a queue");
    let driver = &session.driver;
    let data_of = |data: &[u8], stat: &Stat| data_of(&paths, data, stat);
    let reply = if_there(driver.look(&paths.directory, paths.limit.as_deref(), true).await).map_err(fail)?;
    let Some(QueueReply { children, limit }) = reply else { return Ok(Vec::new()) };
    let queue = Contenders::read(paths.kind, children);
    let limit = read_limit(limit).map_err(fail)?;

    // Names and sequence numbers have the same order, so a binary search finds the page. (Except a writer
    // that Curator downgraded: its node does not show its former number.)
    let (mut low, mut high) = (0, queue.0.len());
    while page.after > 0 && low < high {
        let middle = low + (high - low) / 2;
        match driver.read(&paths.node(&queue.0[middle].name)).await {
            Ok((data, stat)) if data_of(&data, &stat).sequence <= page.after => low = middle + 1,
            // The node has left. The search goes on before it.
            Ok(_) | Err(Fault::NoNode) => high = middle,
            Err(fault) => return Err(fail(fault)),
        }
    }
    let (mut found, mut in_page) = (Vec::new(), 0);
    while in_page < page.most && low + found.len() < queue.0.len() {
        let behind = queue.0[low + found.len()..].iter().take(CHUNK.min(page.most - in_page));
        let nodes: Vec<_> = behind.map(|one| paths.node(&one.name)).collect();
        let read = driver.read_all(&nodes).await.map_err(fail)?;
        let is_in_page = |(data, stat): &&(Vec<u8>, Stat)| {
            data_of(data, stat).sequence > page.after && counts(paths.kind, stat)
        };
        in_page += read.iter().flatten().filter(is_in_page).count();
        found.extend(read);
    }
    let shown = low..low + found.len();

    let claims: Vec<_> = queue.0.iter().map(|one| one.claim).collect();
    let last_marked =
        found.iter().rposition(|found| found.as_ref().is_some_and(|(data, _)| is_admitted(data)));
    let already = last_marked.map_or(0, |at| shown.start + at + 1);
    let admitted = match paths.kind {
        Kind::Semaphore => admitted_prefix(&claims, already, limit.unwrap_or_default().permits),
        _ => admitted_prefix(&claims, 0, 0),
    };
    let now = session.lease.server_now();
    let entries = shown.zip(found).filter_map(|(at, found)| {
        let (data, stat) = found?;
        if !counts(paths.kind, &stat) {
            return None;
        }
        let data = data_of(&data, &stat);
        Some(QueueEntry {
            sequence: data.sequence,
            claim: claims[at],
            admitted: at < admitted,
            label: data.label,
            lease_left: None,
            data: data.data,
            age: Some(Duration::from_millis(u64::try_from(now.saturating_sub(data.joined)).unwrap_or(0))),
        })
    });
    Ok(entries.filter(|entry| entry.sequence > page.after).collect())
}

/// Whether a listing shows this node. In a queue that admits all nodes, another program's node without a
/// session is no member (NODE-FOREIGN).
fn counts(kind: Kind, stat: &Stat) -> bool {
    stat.ephemeral_owner != 0 || !kind.admits_all()
}

/// Removes the node with this sequence number, of any client. It hits a newer node only if between its two
/// requests the server removes the empty directory, and the client joins again under its old name. That hold
/// is then revoked.
pub(crate) async fn revoke(session: &Session, address: &Address, sequence: u64) -> Result<bool> {
    let paths = QueuePaths::of(address)?;
    let work = async {
        // Between two requests a writer may be downgraded, and so renamed, once.
        for _ in 0..if paths.kind == Kind::RwLock { 2 } else { 1 } {
            let Some(path) = find(session, &paths, sequence).await? else { continue };
            if session.driver.delete(&path).await? {
                return Ok(true);
            }
        }
        Ok(false)
    };
    work.await.map_err(|fault: Fault| fault.error("revoke a node"))
}

/// Reads from the head, because an operator mostly removes nodes near the head.
async fn find(session: &Session, queue: &QueuePaths, sequence: u64) -> Answer<Option<String>> {
    let children = session.driver.sync_children(&queue.directory).await?;
    for chunk in Contenders::read(queue.kind, children).0.chunks(CHUNK) {
        let mut paths: Vec<_> = chunk.iter().map(|one| queue.node(&one.name)).collect();
        let found = session.driver.read_all(&paths).await?;
        let wanted = |found: &Option<(Vec<u8>, Stat)>| {
            found.as_ref().is_some_and(|(data, stat)| data_of(queue, data, stat).sequence == sequence)
        };
        if let Some(at) = found.iter().position(wanted) {
            return Ok(Some(paths.swap_remove(at)));
        }
    }
    Ok(None)
}

fn data_of(queue: &QueuePaths, data: &[u8], stat: &Stat) -> NodeData {
    NodeData::read(queue.data, data, stat.czxid, stat.ctime)
}
