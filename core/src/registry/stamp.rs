use std::sync::Arc;

use super::arrival::{self, Arrival};
use super::fields::Fields;
use super::marker;
use super::record::OWN_VERSION;
use crate::contracts::{Backend, CellLife, CellWrite, CellWritten, Expected, Version, VersionedValue};
use crate::decide::layout::{Admission, RECORDS, Stamp};
use crate::decide::moving::gate::{GateMarker, Who};
use crate::error::{Error, ErrorKind, Result};
use crate::seen;
use crate::shown::shown;
use crate::token::Token;

use super::place::Place;

const LAYOUT: &str = "layout";
const NEXT: &str = "next";
/// The epoch of the tokens, if locks have moved here (MIGRATE-EPOCH-RISES).
const EPOCH: &str = "epoch";
/// The version that wrote the stamp, for display.
const BY: &str = "version";

/// A stamp as read, with the other fields of its cell.
#[derive(Clone, Debug)]
pub(crate) struct Stamped {
    pub(crate) stamp: Stamp,
    pub(crate) marker: Option<GateMarker>,
    pub(crate) epoch: u16,
    pub(crate) arrival: Option<Arrival>,
    pub(crate) fields: Fields,
    pub(crate) version: Version,
}

impl Stamped {
    fn of(place: &Place, cell: &VersionedValue) -> Result<Self> {
        let fields = Fields::read(&cell.value);
        let number = |name| fields.get(name).map(str::parse::<u32>).transpose();
        let epoch = fields.get(EPOCH).map_or(Ok(0), str::parse::<u16>);
        match (number(LAYOUT), number(NEXT), epoch) {
            (Ok(Some(layout)), Ok(next), Ok(epoch)) if epoch <= Token::MAX_EPOCH => {
                let (marker, arrival) = (marker::read(&fields, place)?, arrival::read(&fields, place)?);
                let stamp = Stamp { layout, next };
                Ok(Self { stamp, marker, epoch, arrival, fields, version: cell.version })
            }
            _ => {
                let found = String::from_utf8_lossy(&cell.value);
                let why = format!(
                    "the layout of namespace {:?} is stored as {:?}, which this build cannot read: use a newer build",
                    place.namespace,
                    shown(&found, 100)
                );
                Err(Error::new(ErrorKind::Misconfigured, why))
            }
        }
    }

    pub(crate) async fn read(backend: &dyn Backend, place: &Place) -> Result<Option<Self>> {
        let cell = backend.read_cell(&place.stamp).await?;
        cell.map(|cell| Self::of(place, &cell)).transpose()
    }

    /// Reads the stamp, which exists since the first client entered.
    pub(crate) async fn standing(backend: &dyn Backend, place: &Place) -> Result<Self> {
        Self::read(backend, place).await?.ok_or_else(|| {
            let why = format!("the stamp of namespace {:?} was deleted: connect again", place.namespace);
            Error::new(ErrorKind::Conflict, why)
        })
    }

    /// Writes a stamp over the one that was read; `false` if another client has written since.
    pub(super) async fn write(
        backend: &dyn Backend,
        place: &Place,
        read: Option<&Self>,
        stamp: Stamp,
    ) -> Result<bool> {
        let mut fields = read.map(|read| read.fields.clone()).unwrap_or_default().with(LAYOUT, stamp.layout);
        fields.set(NEXT, stamp.next.map(|next| next.to_string()));
        let expected = read.map_or(Expected::Absent, |read| Expected::Version(read.version));
        Ok(write(backend, place, fields, expected).await?.is_some())
    }

    pub(crate) fn has_records(&self) -> bool {
        self.stamp.layout >= RECORDS
    }

    /// Writes this changed stamp over the version that was read; `None` if another client has written since.
    pub(crate) async fn changed(mut self, backend: &dyn Backend, place: &Place) -> Result<Option<Self>> {
        marker::set(&mut self.fields, self.marker.as_ref());
        arrival::set(&mut self.fields, self.arrival.as_ref());
        if self.epoch > 0 {
            self.fields.set(EPOCH, Some(self.epoch.to_string()));
        }
        let expected = Expected::Version(self.version);
        let written = write(backend, place, self.fields.clone(), expected).await?;
        Ok(written.map(|version| Self { version, ..self }))
    }

    pub(crate) async fn mark(
        &self,
        backend: &dyn Backend,
        place: &Place,
        marker: Option<&GateMarker>,
    ) -> Result<Option<Self>> {
        Self { marker: marker.cloned(), ..self.clone() }.changed(backend, place).await
    }

    /// Writes the marker if the namespace has none, or has this one (MIGRATE-GATE-ANEW). Returns the old and
    /// the new stamp.
    pub(crate) async fn mark_anew(
        backend: &dyn Backend,
        place: &Place,
        own: &GateMarker,
    ) -> Result<(Self, Self)> {
        loop {
            let read = Self::standing(backend, place).await?;
            if !own.may_follow(read.marker.as_ref()) {
                return Err(marker::another(read.marker.as_ref(), place));
            }
            // Otherwise another client has written the stamp since the read.
            if let Some(written) = read.mark(backend, place, Some(own)).await? {
                return Ok((read, written));
            }
        }
    }
}

async fn write(
    backend: &dyn Backend,
    place: &Place,
    fields: Fields,
    expected: Expected,
) -> Result<Option<Version>> {
    let value: Arc<[u8]> = fields.with(BY, OWN_VERSION).text().into_bytes().into();
    let write = CellWrite { expected, value: Some(value), life: CellLife::Stays };
    match backend.write_cell(&place.stamp, &write).await? {
        CellWritten::Written(version) => Ok(Some(version)),
        CellWritten::Deleted { .. } | CellWritten::Refused(_) => Ok(None),
    }
}

#[derive(Debug)]
pub(super) enum Refusal {
    /// The namespace has a newer layout.
    Older(Error),
    Moved(Error),
    Unregistered(Error),
    /// The client has registered, but the stamp could not be read or written.
    Unread(Error),
}

/// Reads the stamp, or writes the first one. The caller is registered. Returns the epoch of the tokens.
pub(super) async fn check(
    backend: &dyn Backend,
    place: &Place,
    own: u32,
    who: Who<'_>,
) -> std::result::Result<u16, Refusal> {
    loop {
        let read = Stamped::read(backend, place).await.map_err(Refusal::Unread)?;
        match Stamp::admission(read.as_ref().map(|read| read.stamp), own) {
            Admission::Write(stamp) => match Stamped::write(backend, place, None, stamp).await {
                Ok(true) => {
                    seen::layout_stamped(backend.name(), stamp.layout);
                    return Ok(0);
                }
                // Another client was first, or this one, whose reply was lost.
                Ok(false) => {}
                Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {}
                Err(error) => return Err(Refusal::Unread(error)),
            },
            Admission::Enter | Admission::Refused(_) => return judge(read, place, own, who),
        }
    }
}

/// As [`check`], but writes nothing: a missing stamp excludes no client.
pub(super) async fn look(
    backend: &dyn Backend,
    place: &Place,
    own: u32,
    who: Who<'_>,
) -> std::result::Result<u16, Refusal> {
    let read = Stamped::read(backend, place).await.map_err(Refusal::Unread)?;
    judge(read, place, own, who)
}

fn judge(read: Option<Stamped>, place: &Place, own: u32, who: Who<'_>) -> std::result::Result<u16, Refusal> {
    if let Admission::Refused(needed) = Stamp::admission(read.as_ref().map(|read| read.stamp), own) {
        return Err(Refusal::Older(newer(place, needed, own)));
    }
    let marker = read.as_ref().and_then(|read| read.marker.as_ref());
    match marker.filter(|marker| !GateMarker::admits(Some(marker), who)) {
        Some(marker) => Err(Refusal::Moved(marker::refusal(marker, place))),
        None => Ok(read.map_or(0, |read| read.epoch)),
    }
}

pub(super) fn newer(place: &Place, found: u32, own: u32) -> Error {
    let why = format!(
        "namespace {:?} has layout {found} on this server, and this build (latchwork {OWN_VERSION}) works with \
         layouts up to {own}: use a newer build, or another namespace",
        place.namespace,
    );
    Error::new(ErrorKind::Misconfigured, why)
}
