//! The stored limit of a queue of permits: the data of a plain node beside the queue's directory, as a decimal number.

use latchwork_core::contracts::{Join, StoredLimit};
use latchwork_core::decide::Claim;
use latchwork_core::{Address, Error, Result};

use crate::driver::{Mode, Stat};
use crate::error::Fault;
use crate::lease::Session;
use crate::nodes::{Site, overtaken};

/// The stored limit, as it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) permits: u32,
    /// The transaction that wrote it: another one may have written the same number.
    pub(crate) written: i64,
}

impl Limit {
    /// What is no limit admits nobody.
    pub(crate) fn read(data: &[u8], stat: &Stat) -> Self {
        Self { permits: StoredLimit::read(Some(data)).permits().unwrap_or(0), written: stat.mzxid }
    }
}

/// The limit that counts, stored by the first who names one; the default where none does. And whether it was read behind the
/// listing: who is admitted by such a one is to be marked, see [`read_limit`].
pub(crate) async fn settle_limit(
    session: &Session,
    site: &Site,
    join: &Join,
    found: Option<std::result::Result<(Vec<u8>, Stat), Fault>>,
) -> Result<(Limit, bool)> {
    let (Some(path), Claim::Permits(_)) = (&site.limit, join.claim) else {
        return Ok((Limit::default(), false));
    };
    let fail = |fault: Fault| overtaken(session, fault, "read the stored limit");
    let read_later = !matches!(found, Some(Ok(_)));
    let mut found = found;
    loop {
        match found.take() {
            Some(Ok((data, stat))) => {
                let permits = join.settle(&StoredLimit::read(Some(&data)))?;
                return Ok((Limit { permits, written: stat.mzxid }, read_later));
            }
            Some(Err(Fault::NoNode)) => {
                let permits = join.settle(&StoredLimit::Absent)?;
                // Another may store one first: then that one counts.
                if let Some(stat) = store_first(session, path, permits).await.map_err(fail)? {
                    return Ok((Limit { permits, written: stat.mzxid }, read_later));
                }
            }
            Some(Err(fault)) => return Err(fail(fault)),
            None => {}
        }
        found = Some(session.driver.read(path).await);
    }
}

/// Stores a limit where there is none; `None` when it found one there.
async fn store_first(session: &Session, path: &str, limit: u32) -> std::result::Result<Option<Stat>, Fault> {
    let mut cold = false;
    loop {
        match session.driver.create(path, limit.to_string().as_bytes(), Mode::Persistent).await {
            Ok(stat) => return Ok(Some(stat)),
            Err(Fault::NodeExists) => return Ok(None),
            Err(Fault::NoNode) if !cold => {
                cold = true;
                let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
                session.driver.make_path(parent, Mode::Persistent).await?;
            }
            Err(fault) => return Err(fault),
        }
    }
}

/// Stores the limit, for good. The heads of the queue and its holders watch it (RULES B6b).
pub(crate) async fn set_limit(session: &Session, queue: &Address, limit: u32) -> Result<()> {
    let Some(path) = Site::of(queue)?.limit else {
        return Err(Error::invalid("queue", format!("{queue} is no queue of permits")));
    };
    let work = async {
        loop {
            match session.driver.write(&path, limit.to_string().as_bytes()).await {
                Err(Fault::NoNode) => {
                    if store_first(session, &path, limit).await?.is_some() {
                        return Ok(());
                    }
                }
                written => return written.map(drop),
            }
        }
    };
    work.await.map_err(|fault: Fault| fault.error("store the limit"))
}

/// The stored limit, for those who look at it. Behind a `sync`, since one looks after a `set_limit` of unknown outcome.
pub(crate) async fn limit(session: &Session, queue: &Address) -> Result<Option<u32>> {
    let Some(path) = Site::of(queue)?.limit else { return Ok(None) };
    match stored(session, &path).await {
        Ok(stored) => stored.known(),
        Err(fault) => Err(fault.error_without_trace("read the stored limit")),
    }
}

/// What is stored at this path, whatever it is.
pub(crate) async fn stored(session: &Session, path: &str) -> std::result::Result<StoredLimit, Fault> {
    match session.driver.sync_read(path).await {
        Ok(data) => Ok(StoredLimit::read(Some(&data))),
        Err(Fault::NoNode) => Ok(StoredLimit::Absent),
        Err(fault) => Err(fault),
    }
}

/// The stored limit as it was found; `None` where there is none, or none was asked for. To be read before the listing that it is to
/// judge: whoever joins behind that listing reads it later, and so judges by the same limit, or by one that has whoever was admitted
/// marked (RULES B6b). By a limit that is newer than its listing somebody could be admitted of whom neither the sums nor a mark tell
/// those behind.
pub(crate) fn read_limit(
    found: Option<std::result::Result<(Vec<u8>, Stat), Fault>>,
) -> std::result::Result<Option<Limit>, Fault> {
    match found {
        Some(Ok((data, stat))) => Ok(Some(Limit::read(&data, &stat))),
        Some(Err(Fault::NoNode)) | None => Ok(None),
        Some(Err(fault)) => Err(fault),
    }
}
