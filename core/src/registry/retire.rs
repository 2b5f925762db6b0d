//! Retiring a namespace.

use super::marker::{another, checked};
use super::place::Place;
use super::raise::names;
use super::record::ClientRecord;
use super::stamp::Stamped;
use crate::contracts::Backend;
use crate::decide::moving::gate::{Course, GateMarker};
use crate::error::{Error, ErrorKind, Result};
use crate::listing::Listing;
use crate::seen;

/// Marks the namespace as retired, if only operators are connected.
pub(crate) async fn retire(
    backend: &dyn Backend,
    place: &Place,
    clients: &Listing<ClientRecord>,
    to: &str,
) -> Result<()> {
    let own = GateMarker { course: Course::Leaves, name: None, url: checked(to)?.to_owned() };
    loop {
        let (read, written) = Stamped::mark_anew(backend, place, &own).await?;
        let clients = clients.all().await?;
        let outside = clients.iter().filter(|client| !GateMarker::admits(Some(&own), client.who()));
        let outside: Vec<_> = outside.collect();
        if !outside.is_empty() {
            // An earlier marker stays: it refuses these clients when they connect again.
            if read.marker.is_none() && written.mark(backend, place, None).await?.is_none() {
                continue;
            }
            let count = outside.len();
            let why = format!(
                "{count} clients are connected:{}: stop them, or redeploy them with the URL {:?}, and call `retire` again",
                names(&outside),
                own.url
            );
            return Err(Error::new(ErrorKind::Conflict, why));
        }
        // With an unchanged version, the marker existed during the listing.
        if Stamped::standing(backend, place).await?.version == written.version {
            seen::retired(backend.name(), &place.namespace, &own.url);
            return Ok(());
        }
    }
}

/// Removes the marker of [`retire`] and the record of a move to this namespace, so that the next move may
/// have the same name. Returns whether a marker existed.
pub(crate) async fn reopen(backend: &dyn Backend, place: &Place) -> Result<bool> {
    loop {
        let read = Stamped::standing(backend, place).await?;
        match &read.marker {
            None => return Ok(false),
            Some(GateMarker { course: Course::Leaves, name: None, .. }) => {}
            marker => return Err(another(marker.as_ref(), place)),
        }
        if (Stamped { marker: None, arrival: None, ..read }).changed(backend, place).await?.is_some() {
            seen::reopened(backend.name(), &place.namespace);
            return Ok(true);
        }
    }
}

pub(crate) async fn marked(backend: &dyn Backend, place: &Place) -> Result<Option<GateMarker>> {
    Ok(Stamped::read(backend, place).await?.and_then(|read| read.marker))
}
