//! The stamp, as it stands in its cell.

use std::sync::Arc;

use super::fields::Fields;
use super::record::OWN_VERSION;
use crate::contracts::{Backend, Cell, CellLife, CellWrite, CellWritten, Expected, Version};
use crate::decide::layout::{Admission, Stamp};
use crate::error::{Error, ErrorKind, Result};
use crate::seen;
use crate::shown::shown;

use super::place::Place;

const LAYOUT: &str = "layout";
const NEXT: &str = "next";
/// The version that wrote it, for people.
const BY: &str = "version";

/// A stamp that was read, with what stands beside it.
#[derive(Clone, Debug)]
pub(super) struct Stamped {
    pub(super) stamp: Stamp,
    fields: Fields,
    version: Version,
}

impl Stamped {
    fn of(place: &Place, cell: &Cell) -> Result<Self> {
        let fields = Fields::read(&cell.value);
        let number = |name| fields.get(name).map(str::parse::<u32>).transpose();
        match (number(LAYOUT), number(NEXT)) {
            (Ok(Some(layout)), Ok(next)) => {
                Ok(Self { stamp: Stamp { layout, next }, fields, version: cell.version })
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
    pub(super) async fn read(backend: &dyn Backend, place: &Place) -> Result<Option<Self>> {
        let cell = backend.read_cell(&place.stamp).await?;
        cell.map(|cell| Self::of(place, &cell)).transpose()
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
        let value: Arc<[u8]> = fields.with(BY, OWN_VERSION).text().into_bytes().into();
        let expected = read.map_or(Expected::Absent, |read| Expected::Version(read.version));
        let write = CellWrite { expected, value: Some(value), life: CellLife::Stays };
        Ok(matches!(backend.write_cell(&place.stamp, &write).await?, CellWritten::Written(_)))
    }
}

/// What keeps a client out.
#[derive(Debug)]
pub(super) enum Kept {
    /// The namespace has a newer layout.
    Out(Error),
    /// The stamp could not be read, or not written.
    Unread(Error),
}

/// Reads the stamp, and writes it where none is. The caller is registered.
pub(super) async fn check(backend: &dyn Backend, place: &Place, own: u32) -> std::result::Result<(), Kept> {
    loop {
        let read = Stamped::read(backend, place).await.map_err(Kept::Unread)?;
        match Stamp::admission(read.as_ref().map(|read| read.stamp), own) {
            Admission::Enter => return Ok(()),
            Admission::Refused(needed) => return Err(Kept::Out(newer(place, needed, own))),
            Admission::Write(stamp) => match Stamped::write(backend, place, None, stamp).await {
                Ok(true) => {
                    seen::layout_stamped(backend.name(), stamp.layout);
                    return Ok(());
                }
                // Another client was first, or was it this one, whose reply is lost?
                Ok(false) => {}
                Err(error) if *error.kind() == ErrorKind::Unknown => {}
                Err(error) => return Err(Kept::Unread(error)),
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
