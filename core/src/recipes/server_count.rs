//! Whether a client may count on its server in a quorum, over the marker on the server.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::cell_handle::CellHandle;
use crate::contracts::{CellLife, CellWrite, Incarnation, NodeId, Version, VersionedValue};
use crate::decide::trial::{Marker, Terms, Verdict};
use crate::error::{Error, ErrorKind, Result};
use crate::server_trial::Proven;

/// How often another client may change the marker between a look and a write.
const ROUNDS: usize = 8;

/// Whether a server counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    Now,
    /// Not before so long from now.
    After(Duration),
}

/// Finds out whether the client's server counts now, within the request timeout. Writes the
/// marker where none is valid.
///
/// # Errors
/// `Unavailable` when that takes longer; those of reading and writing a cell; `Conflict` when other clients have other terms;
/// `Misconfigured` when the server's incarnation cannot be known.
///
/// # Cancel safety
/// A marker may be written or not.
pub(super) async fn ask(marker: &CellHandle, terms: &Arc<Terms>) -> Result<Counted> {
    // The whole of it: one task asks at a time, and the others would wait one after the other.
    let asking = timeout(marker.client.request_timeout, ask_now(marker, terms)).await;
    let late = |_| Err(Error::new(ErrorKind::Unavailable, "the server's marker was not read in time"));
    asking.unwrap_or_else(late)
}

async fn ask_now(handle: &CellHandle, terms: &Arc<Terms>) -> Result<Counted> {
    let client = &handle.client;
    let (backend, clock) = (&*client.backend, client.clock());
    let mut trial = client.trial.trial.lock().await;
    for _ in 0..ROUNDS {
        let (server, lease) = (backend.incarnation(), backend.lease());
        if client.trial.proves(backend, terms, &lease) {
            // Found out by another task.
            return Ok(Counted::Now);
        }
        let stored = read(handle).await?;
        if backend.incarnation() != server {
            continue;
        }
        let (id, now) = (NodeId::random().as_u64(), clock.now());
        let (version, marker) =
            stored.map_or((None, None), |(version, marker)| (Some(version), Some(marker)));
        match trial.judge(terms, named(&server)?, marker.as_ref(), now, id) {
            Verdict::Counts => {
                let proven = Proven { terms: Arc::clone(terms), server, lease };
                client.trial.is_proven(proven);
                return Ok(Counted::Now);
            }
            Verdict::NotBefore(ripe_at) => return Ok(Counted::After(ripe_at.since(now))),
            Verdict::Write(marker) => {
                tracing::debug!(cell = %handle.cell, %marker, "a server's memory is on trial");
                match write(handle, version, &marker).await {
                    // Read again, whoever has written it. Each marker has a number of its own,
                    // so that one that lands late does no harm.
                    Err(error) if error.kind() != ErrorKind::OutcomeUnknown => return Err(error),
                    Ok(()) | Err(_) => {}
                }
            }
            Verdict::Conflict => {
                let stored = marker.map(|marker| marker.terms.to_string()).unwrap_or_default();
                let why =
                    format!("all clients of a quorum need the same terms: here {terms}, stored {stored}");
                return Err(Error::new(ErrorKind::Conflict, why));
            }
        }
    }
    Err(Error::new(ErrorKind::Unavailable, "others change the server's marker all the time"))
}

/// Whether the server has a marker, of whatever terms.
pub(super) async fn has_marker(handle: &CellHandle) -> Result<bool> {
    Ok(read(handle).await?.is_some())
}

/// Declares that the server, which had no marker, has nothing to forget. Changes no marker that has come since.
pub(super) async fn vouch(handle: &CellHandle, terms: &Terms) -> Result<()> {
    // The look at the markers has connected the client.
    let server = handle.client.backend.incarnation();
    let marker = Marker::new(terms, named(&server)?, NodeId::random().as_u64(), true);
    write(handle, None, &marker).await
}

/// The incarnation's name in a marker.
fn named(server: &Incarnation) -> Result<Option<&str>> {
    match server {
        Incarnation::Durable => Ok(None),
        Incarnation::Started(name) => Ok(Some(name)),
        Incarnation::Unknown => {
            let why = "it must say which incarnation it is: a quorum cannot count on it otherwise";
            Err(Error::new(ErrorKind::Misconfigured, why))
        }
    }
}

async fn read(handle: &CellHandle) -> Result<Option<(Version, Marker)>> {
    let Some(VersionedValue { version, value }) = handle.read().await? else {
        return Ok(None);
    };
    let marker = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
    let foreign = || Error::new(ErrorKind::Conflict, "something else than a quorum's marker is stored");
    Ok(Some((version, marker.ok_or_else(foreign)?)))
}

/// Writes over what was read. Whether that still stood shows at the next read.
async fn write(handle: &CellHandle, over: Option<Version>, marker: &Marker) -> Result<()> {
    let write = CellWrite {
        expected: over.into(),
        value: Some(marker.to_string().into_bytes().into()),
        life: CellLife::Stays,
    };
    handle.write(&write).await.map(drop)
}
