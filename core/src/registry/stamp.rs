//! The stamp, as it stands in its cell.

use std::sync::Arc;

use super::fields::Fields;
use super::marker;
use super::record::OWN_VERSION;
use crate::contracts::{Backend, CellLife, CellWrite, CellWritten, Expected, Version, VersionedValue};
use crate::decide::layout::{Admission, Stamp};
use crate::decide::moving::gate::{GateMarker, Who};
use crate::error::{Error, ErrorKind, Result};
use crate::seen;
use crate::shown::shown;
use crate::token::Token;

use super::place::Place;

const LAYOUT: &str = "layout";
const NEXT: &str = "next";
/// The epoch of the tokens, where locks have moved here (MIGRATE-EPOCH-RISES).
const EPOCH: &str = "epoch";
/// The version that wrote it, for people.
const BY: &str = "version";

/// A stamp that was read, with what stands beside it.
#[derive(Clone, Debug)]
pub(crate) struct Stamped {
    pub(super) stamp: Stamp,
    /// The marker of a move, if one stands.
    pub(crate) marker: Option<GateMarker>,
    /// The epoch of the tokens.
    pub(crate) epoch: u16,
    fields: Fields,
    pub(super) version: Version,
}

impl Stamped {
    fn of(place: &Place, cell: &VersionedValue) -> Result<Self> {
        let fields = Fields::read(&cell.value);
        let number = |name| fields.get(name).map(str::parse::<u32>).transpose();
        let epoch = fields.get(EPOCH).map_or(Ok(0), str::parse::<u16>);
        match (number(LAYOUT), number(NEXT), epoch) {
            (Ok(Some(layout)), Ok(next), Ok(epoch)) if epoch <= Token::MAX_EPOCH => {
                let marker = marker::read(&fields, place)?;
                Ok(Self { stamp: Stamp { layout, next }, marker, epoch, fields, version: cell.version })
            }
            _ => {
                let found = String::from_utf8_lossy(&cell.value);
                let why = format!(
                    "the layout of namespace {:?} is written as {:?}, which this build cannot read",
                    place.namespace,
                    shown(&found, 100)
                );
                Err(Error::new(ErrorKind::Misconfigured, why))
            }
        }
    }

    /// Reads the stamp of a namespace.
    pub(crate) async fn read(backend: &dyn Backend, place: &Place) -> Result<Option<Self>> {
        let cell = backend.read_cell(&place.stamp).await?;
        cell.map(|cell| Self::of(place, &cell)).transpose()
    }

    /// Reads the stamp, which each client has written or found as it entered.
    pub(crate) async fn standing(backend: &dyn Backend, place: &Place) -> Result<Self> {
        Self::read(backend, place).await?.ok_or_else(|| {
            let why = format!("the stamp of namespace {:?} was deleted: connect anew", place.namespace);
            Error::new(ErrorKind::Conflict, why)
        })
    }

    /// Writes a stamp over the one that was read, if that still stands. Answers whether it did.
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

    /// Writes a marker over what was read, or takes it away, if that still stands. Answers what
    /// stands then.
    pub(crate) async fn mark(
        &self,
        backend: &dyn Backend,
        place: &Place,
        marker: Option<&GateMarker>,
    ) -> Result<Option<Self>> {
        let mut fields = self.fields.clone();
        marker::set(&mut fields, marker);
        let written = write(backend, place, fields.clone(), Expected::Version(self.version)).await?;
        let marker = marker.cloned();
        Ok(written.map(|version| Self { marker, fields, version, ..self.clone() }))
    }

    /// Marks the namespace where nothing is marked, or this marker stands already: anew also then
    /// (MIGRATE-GATE-ANEW). Answers what stood, and what stands.
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
            // Else somebody else has written the stamp since it was read.
            if let Some(written) = read.mark(backend, place, Some(own)).await? {
                return Ok((read, written));
            }
        }
    }

    /// Raises the epoch over what was read, if that still stands (MIGRATE-EPOCH-RECORDED). Answers what
    /// stands then.
    pub(crate) async fn raise_epoch(
        &self,
        backend: &dyn Backend,
        place: &Place,
        epoch: u16,
    ) -> Result<Option<Self>> {
        let fields = self.fields.clone().with(EPOCH, epoch.max(self.epoch));
        let written = write(backend, place, fields.clone(), Expected::Version(self.version)).await?;
        Ok(written.map(|version| Self { epoch: epoch.max(self.epoch), fields, version, ..self.clone() }))
    }
}

/// Writes the cell. `None`: it was not as expected.
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

/// What keeps a client out.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The namespace has a newer layout.
    Older(Error),
    /// It moves, or has moved.
    Moved(Error),
    /// It could not register.
    Unregistered(Error),
    /// It has registered, and the stamp could not be read, or not written.
    Unread(Error),
}

/// Reads the stamp, and the marker with it; writes the stamp where none is. The caller is registered.
/// Answers the epoch of the tokens there.
pub(super) async fn check(
    backend: &dyn Backend,
    place: &Place,
    own: u32,
    who: Who<'_>,
) -> std::result::Result<u16, Refusal> {
    loop {
        let read = Stamped::read(backend, place).await.map_err(Refusal::Unread)?;
        match Stamp::admission(read.as_ref().map(|read| read.stamp), own) {
            Admission::Enter => {
                let marker = read.as_ref().and_then(|read| read.marker.as_ref());
                return match marker.filter(|marker| !GateMarker::admits(Some(marker), who)) {
                    Some(marker) => Err(Refusal::Moved(marker::refusal(marker, place))),
                    None => Ok(read.map_or(0, |read| read.epoch)),
                };
            }
            Admission::Refused(needed) => return Err(Refusal::Older(newer(place, needed, own))),
            Admission::Write(stamp) => match Stamped::write(backend, place, None, stamp).await {
                Ok(true) => {
                    seen::layout_stamped(backend.name(), stamp.layout);
                    return Ok(0);
                }
                // Another client was first, or was it this one, whose reply is lost?
                Ok(false) => {}
                Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {}
                Err(error) => return Err(Refusal::Unread(error)),
            },
        }
    }
}

/// The error of a client that is too old for a namespace.
pub(super) fn newer(place: &Place, found: u32, own: u32) -> Error {
    let why = format!(
        "namespace {:?} has layout {found} on this server, and this build (latchwork {OWN_VERSION}) works with \
         layouts up to {own}: use a newer build, or another namespace",
        place.namespace,
    );
    Error::new(ErrorKind::Misconfigured, why)
}
