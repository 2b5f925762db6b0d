//! The stored limit of a queue of permits: the data of a plain node beside the queue's directory, as a decimal number.

use latchwork_core::contracts::Join;
use latchwork_core::decide::Claim;
use latchwork_core::{Address, Error, ErrorKind, Result};

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
    /// What is no number admits nobody.
    pub(crate) fn read(data: &[u8], stat: &Stat) -> Self {
        Self { permits: parse(data).unwrap_or(0), written: stat.mzxid }
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
    let (Some(path), Claim::Permits(weight)) = (&site.limit, join.claim) else {
        return Ok((Limit::default(), false));
    };
    let fail = |fault: Fault| overtaken(session, fault, "read the stored limit");
    let read_later = !matches!(found, Some(Ok(_)));
    let mut found = found;
    let stored = loop {
        match (found.take(), join.limit) {
            (Some(Ok((data, stat))), _) => break Limit { permits: parse(&data)?, written: stat.mzxid },
            (Some(Err(Fault::NoNode)), Some(asked)) => {
                if let Some(stat) = store_first(session, path, asked).await.map_err(fail)? {
                    break Limit { permits: asked, written: stat.mzxid };
                }
            }
            (Some(Err(Fault::NoNode)), None) => return Err(join.conflict(None)),
            (Some(Err(fault)), _) => return Err(fail(fault)),
            (None, _) => {}
        }
        found = Some(session.driver.read(path).await);
    };
    if join.limit.is_some_and(|asked| asked != stored.permits) || weight > stored.permits {
        return Err(join.conflict(Some(stored.permits)));
    }
    Ok((stored, read_later))
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
    match session.driver.sync_read(&path).await {
        Ok(data) => parse(&data).map(Some),
        Err(Fault::NoNode) => Ok(None),
        Err(fault) => Err(fault.error_without_trace("read the stored limit")),
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

fn parse(data: &[u8]) -> Result<u32> {
    std::str::from_utf8(data).ok().and_then(|text| text.parse().ok()).ok_or_else(|| {
        Error::new(
            ErrorKind::Conflict,
            format!("the stored limit {:?} is no number", String::from_utf8_lossy(data)),
        )
    })
}
