//! Finds out from the marker whether a server counts in a quorum (QUORUM-AMNESIA).

use std::sync::Arc;

use tokio::time::timeout;

use super::cell_handle::CellHandle;
use crate::contracts::{CellLife, CellWrite, Incarnation, NodeId, Version, VersionedValue};
use crate::decide::trial::{Marker, Terms, Verdict};
use crate::error::{Error, ErrorKind, Result};
use crate::server_trial::{Counted, Proven};

/// How often other clients may change the marker between a read and a write.
const ROUNDS: usize = 8;

/// Finds out within the request timeout whether the client's server counts now. Writes the marker if there is
/// no valid one.
///
/// # Errors
/// * `Unavailable`: it took longer.
/// * `Conflict`: other clients use other terms.
/// * `Misconfigured`: the client cannot see the server's incarnation.
/// * The errors of reading and writing a cell.
///
/// # Cancel safety
/// A dropped call may still write the marker.
pub(super) async fn ask(marker: &CellHandle, terms: &Arc<Terms>) -> Result<Counted> {
    let client = &marker.client;
    loop {
        let (handle, wanted) = (marker.clone(), Arc::clone(terms));
        let asking = client.cleanup.share(&client.trial.asking, || async move {
            let answer = ask_in_time(&handle, &wanted).await;
            (wanted, answer)
        });
        let within = client.request_timeout.saturating_mul(2);
        let (asked, answer) =
            client.serve(asking.wait_within(within, "the read of the server's marker")).await?;
        // Otherwise it was asked for another quorum of this client.
        if asked == *terms {
            return answer;
        }
    }
}

async fn ask_in_time(marker: &CellHandle, terms: &Arc<Terms>) -> Result<Counted> {
    let asking = timeout(marker.client.request_timeout, ask_now(marker, terms)).await;
    let late = |_| {
        Err(Error::new(
            ErrorKind::Unavailable,
            "the server's marker of the quorum lock was not read within the request timeout",
        ))
    };
    asking.unwrap_or_else(late)
}

async fn ask_now(handle: &CellHandle, terms: &Arc<Terms>) -> Result<Counted> {
    let client = &handle.client;
    let (backend, clock) = (&*client.backend, client.clock());
    for _ in 0..ROUNDS {
        let (server, lease) = (backend.incarnation(), backend.lease());
        if client.trial.proves(backend, terms, &lease) {
            return Ok(Counted::Now);
        }
        let stored = read(handle).await?;
        if backend.incarnation() != server {
            continue;
        }
        let (id, now) = (NodeId::random().as_u64(), clock.now());
        let (version, marker) =
            stored.map_or((None, None), |(version, marker)| (Some(version), Some(marker)));
        let verdict = client.trial.trial.lock().judge(terms, named(&server)?, marker.as_ref(), now, id);
        match verdict {
            Verdict::Counts => {
                let proven = Proven { terms: Arc::clone(terms), server, lease };
                client.trial.is_proven(proven);
                return Ok(Counted::Now);
            }
            Verdict::NotBefore(ripe_at) => return Ok(Counted::After(ripe_at.since(now))),
            Verdict::Write(marker) => {
                tracing::debug!(cell = %handle.cell, %marker, "a server may have forgotten holds: writing its marker");
                match write(handle, version, &marker).await {
                    // Reads again after any writer. Each marker has its own number, so a late marker does no
                    // harm.
                    Err(error) if error.kind() != ErrorKind::OutcomeUnknown => return Err(error),
                    Ok(()) | Err(_) => {}
                }
            }
            Verdict::Conflict => {
                let stored = marker.map(|marker| marker.terms.to_string()).unwrap_or_default();
                let why = format!(
                    "other clients use other members or another longest_ttl: here {terms}, stored {stored}; use the same on all clients, or call reset"
                );
                return Err(Error::new(ErrorKind::Conflict, why));
            }
        }
    }
    Err(Error::new(
        ErrorKind::Unavailable,
        "other clients changed the server's marker of the quorum lock at each try: try again",
    ))
}

pub(super) async fn has_marker(handle: &CellHandle) -> Result<bool> {
    Ok(read(handle).await?.is_some())
}

/// Declares that the server, which had no marker, has nothing to forget. A marker that another client has
/// written since stays.
pub(super) async fn vouch(handle: &CellHandle, terms: &Terms) -> Result<()> {
    let server = handle.client.backend.incarnation();
    let marker = Marker::new(terms, named(&server)?, NodeId::random().as_u64(), true);
    write(handle, None, &marker).await
}

fn named(server: &Incarnation) -> Result<Option<&str>> {
    match server {
        Incarnation::Durable => Ok(None),
        Incarnation::Started(name) => Ok(Some(name)),
        Incarnation::Unknown => {
            let why = "a quorum lock must know whether the server restarted: on Redis, allow INFO to the login, and do not rename it";
            Err(Error::new(ErrorKind::Misconfigured, why))
        }
    }
}

async fn read(handle: &CellHandle) -> Result<Option<(Version, Marker)>> {
    let Some(VersionedValue { version, value, .. }) = handle.read().await? else {
        return Ok(None);
    };
    let marker = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
    let foreign = || Error::new(ErrorKind::Conflict, "the stored value is not the marker of a quorum lock");
    Ok(Some((version, marker.ok_or_else(foreign)?)))
}

/// Writes if the cell still has the version that was read. Only the next read shows the outcome.
async fn write(handle: &CellHandle, over: Option<Version>, marker: &Marker) -> Result<()> {
    let write = CellWrite {
        expected: over.into(),
        value: Some(marker.to_string().into_bytes().into()),
        life: CellLife::Stays,
    };
    handle.write(&write).await.map(drop)
}
