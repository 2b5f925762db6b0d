use std::fmt::Write;

use super::place::Place;
use super::record::ClientRecord;
use super::stamp::{Stamped, newer};
use crate::contracts::Backend;
use crate::decide::layout::{Raise, Stamp};
use crate::error::{Error, ErrorKind, Result};
use crate::listing::Listing;
use crate::seen;

/// The number of clients that an error names.
const NAMED: usize = 5;

pub(crate) async fn raise(
    backend: &dyn Backend,
    place: &Place,
    clients: &Listing<ClientRecord>,
    own: u32,
) -> Result<u32> {
    loop {
        let read = Stamped::read(backend, place).await?;
        let announced = match Stamp::raise(read.as_ref().map(|read| read.stamp), own) {
            Raise::Done => return Ok(own),
            Raise::Refused(found) => return Err(newer(place, found, own)),
            Raise::Write(stamp) => {
                // It is read again, written or not.
                Stamped::write(backend, place, read.as_ref(), stamp).await?;
                continue;
            }
            Raise::List(announced) => announced,
        };
        let clients = clients.all().await?;
        let settled = announced.settled(clients.iter().map(|client| client.layout));
        // Otherwise another operator has settled or announced it since the read.
        if Stamped::write(backend, place, read.as_ref(), settled).await? {
            if settled.layout < own {
                return Err(older(&clients, own));
            }
            seen::layout_raised(backend.name(), own);
        }
    }
}

fn older(clients: &[ClientRecord], own: u32) -> Error {
    let older = clients.iter().filter(|client| client.layout.is_none_or(|layout| layout < own));
    let older: Vec<_> = older.collect();
    let mut why = format!("{} clients do not work with layout {own} yet:{}", older.len(), names(&older));
    why.push_str(": stop them, or redeploy them with a newer build, and call `raise_layout` again");
    Error::new(ErrorKind::Conflict, why)
}

/// Some of the clients, for an error.
pub(super) fn names(clients: &[&ClientRecord]) -> String {
    let mut names = String::new();
    for ClientRecord { label, version, .. } in clients.iter().take(NAMED) {
        let version = if version.is_empty() { "of unknown version" } else { version };
        let _ = write!(names, " {label:?} (latchwork {version})");
    }
    names
}
