//! The stored limit of a queue of permits, in a plain node outside the queue's directory.

use crate::driver::{NodeMode, Stat};
use crate::error::{Answer, Fault, if_there};
use crate::layout::{QueuePaths, limits_directory};
use crate::walk;
use latchwork_core::backend::{ExpectedLimit, Join, StoredLimit};
use latchwork_core::{Address, Claim, Error, Kind, ListedKey, Page, QueuePrefix, Result};

use super::session::Session;

pub(crate) type LimitReply = Option<Answer<(Vec<u8>, Stat)>>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WrittenLimit {
    pub(crate) permits: u32,
    /// The transaction of the write, because another write may store the same number.
    pub(crate) written: i64,
}

impl WrittenLimit {
    /// Other data counts as 0 permits, which admit no node.
    pub(crate) fn read(data: &[u8], written: i64) -> Self {
        Self { permits: StoredLimit::read(Some(data)).permits().unwrap_or(0), written }
    }
}

/// The first join with a limit stores it. Also returns whether the limit was read after the listing: then an
/// admitted node must be marked, see [`read_limit`].
pub(crate) async fn settle_limit(
    session: &Session,
    queue: &QueuePaths,
    join: &Join,
    mut found: LimitReply,
) -> Result<(WrittenLimit, bool)> {
    let (Some(path), Claim::Permits(_)) = (&queue.limit, join.claim) else {
        return Ok((WrittenLimit::default(), false));
    };
    let fail = |fault: Fault| session.error(fault, "read the stored limit");
    let read_later = !matches!(found, Some(Ok(_)));
    loop {
        match found.take() {
            Some(Ok((data, stat))) => {
                let permits = join.settle(&StoredLimit::read(Some(&data)))?;
                return Ok((WrittenLimit { permits, written: stat.mzxid }, read_later));
            }
            Some(Err(Fault::NoNode)) => {
                let permits = join.settle(&StoredLimit::Absent)?;
                if let Some(stat) = store_first(session, path, permits).await.map_err(fail)? {
                    return Ok((WrittenLimit { permits, written: stat.mzxid }, read_later));
                }
            }
            Some(Err(fault)) => return Err(fail(fault)),
            None => {}
        }
        found = Some(session.driver.read(path).await);
    }
}

/// `None`: a limit is stored already.
async fn store_first(session: &Session, path: &str, limit: u32) -> Answer<Option<Stat>> {
    let data = limit.to_string();
    match session.driver.create_with_directory(path, data.as_bytes(), NodeMode::Persistent).await {
        Err(Fault::NodeExists) => Ok(None),
        stored => stored.map(Some),
    }
}

/// Returns whether `expected` was stored.
pub(crate) async fn set_limit(
    session: &Session,
    queue: &Address,
    expected: ExpectedLimit,
    limit: u32,
) -> Result<bool> {
    let path = limit_path(queue)?;
    let data = limit.to_string();
    let first = async || Ok(store_first(session, &path, limit).await?.is_some());
    let work = async {
        match expected {
            ExpectedLimit::Any => loop {
                match session.driver.write(&path, data.as_bytes()).await {
                    Err(Fault::NoNode) if first().await? => return Ok(true),
                    Err(Fault::NoNode) => {}
                    written => return written.map(|_| true),
                }
            },
            ExpectedLimit::Absent => first().await,
            ExpectedLimit::Exactly(_) => match session.driver.sync_read(&path).await? {
                Some((stored, stat)) if expected.is_met_by(&StoredLimit::read(Some(&stored))) => {
                    session.driver.write_over(&path, data.as_bytes(), stat.version).await
                }
                _ => Ok(false),
            },
        }
    };
    work.await.map_err(|fault: Fault| fault.error("store the limit"))
}

fn limit_path(queue: &Address) -> Result<String> {
    let no_permits = || Error::invalid("queue", format!("{queue} is not a semaphore"));
    QueuePaths::of(queue)?.limit.ok_or_else(no_permits)
}

pub(crate) async fn limited(
    session: &Session,
    of: &QueuePrefix,
    after: Option<&str>,
    most: usize,
) -> Result<Page<ListedKey>> {
    if of.kind() != Kind::Semaphore {
        return Ok(Page::default());
    }
    let directory = limits_directory(of.namespace());
    let found = walk::names(&session.lease, "limits", &directory, of, after).await?;
    Ok(Page::in_order(found.into_iter().map(|(queue, _)| ListedKey::limit(queue)).collect(), most))
}

/// Syncs first: a caller may check a `set_limit` of unknown outcome.
pub(crate) async fn limit(session: &Session, queue: &Address) -> Result<Option<u32>> {
    let Some(path) = QueuePaths::of(queue)?.limit else { return Ok(None) };
    match stored(session, &path).await {
        Ok(stored) => stored.known(),
        Err(fault) => Err(fault.error_without_trace("read the stored limit")),
    }
}

pub(crate) async fn stored(session: &Session, path: &str) -> Answer<StoredLimit> {
    let stored = session.driver.sync_read(path).await?;
    Ok(StoredLimit::read(stored.as_ref().map(|(data, _)| &**data)))
}

/// `None`: no limit is stored, or it was not read.
///
/// The limit must be read before the listing to which it is applied. A client that joins after the listing
/// reads the same or a later limit, and a change marks the admitted holders
/// (CHAIN-LIMIT-CHANGE-MARKS-HOLDERS). From a limit newer than the listing, later nodes could derive an
/// admission neither by sums nor by marks.
pub(crate) fn read_limit(found: LimitReply) -> Answer<Option<WrittenLimit>> {
    let found = found.map(if_there).transpose()?.flatten();
    Ok(found.map(|(data, stat)| WrittenLimit::read(&data, stat.mzxid)))
}
