//! Listing the queues of a kind (NODE-QUEUES).
//!
//! A server has no pages of children, so all names of the kind's directory come in one reply. It
//! keeps a queue's directory for a minute after the last node, so each is asked how many nodes it
//! has: many in one trip, and a bounded number for one page.

use latchwork_core::contracts::QueuePage;
use latchwork_core::{Error, QueuePrefix, Result};

use super::session::Session;
use crate::error::Fault;
use crate::layout::{in_directory, kind_directory};

/// How many directories are asked in one trip: at least, and at most.
const FEW: usize = 16;
const CHUNK: usize = 256;

/// The most trips for one page, which ends there whatever it has.
const CHUNKS: usize = 8;

/// A page of the queues behind the encoded key `after`, in the order of the encoded keys.
pub(crate) async fn queues(
    session: &Session,
    of: &QueuePrefix,
    after: Option<&str>,
    most: usize,
) -> Result<QueuePage> {
    if let Some(after) = after.filter(|after| of.queue(after).is_none()) {
        return Err(Error::invalid("after", format!("{after:?} is where no page of these queues ended")));
    }
    let fail = |fault: Fault| fault.error_without_trace("list the queues of a kind");
    let directory = kind_directory(of.namespace(), of.kind());
    let names = match session.driver.sync_children(&directory).await {
        Ok(names) => names,
        Err(Fault::NoNode) => return Ok(QueuePage::default()),
        Err(fault) => return Err(fail(fault)),
    };
    let is_behind = |name: &String| after.is_none_or(|after| name.as_str() > after);
    let mut found: Vec<_> = names
        .into_iter()
        .filter(|name| name.starts_with(of.coded()) && is_behind(name))
        .filter_map(|name| Some((of.queue(&name)?, in_directory(&directory, &name))))
        .collect();
    found.sort_unstable_by(|(one, _), (other, _)| one.coded().cmp(other.coded()));

    let mut page = QueuePage::default();
    let (mut asked, most) = (0, most.max(1));
    for chunk in found.chunks(most.clamp(FEW, CHUNK)).take(CHUNKS) {
        if page.queues.len() == most {
            break;
        }
        let paths: Vec<_> = chunk.iter().map(|(_, path)| path.as_str()).collect();
        let counts = session.driver.child_counts(&paths).await.map_err(fail)?;
        for ((queue, _), count) in chunk.iter().zip(counts) {
            if page.queues.len() == most {
                break;
            }
            asked += 1;
            if count > 0 {
                page.queues.push(queue.clone());
            }
        }
    }
    let last = found[..asked].last().filter(|_| asked < found.len());
    page.next = last.map(|(last, _)| last.coded().to_owned());
    Ok(page)
}
