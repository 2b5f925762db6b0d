//! The marker of a namespace that moves, as it stands beside the stamp. It is read with it.

use super::fields::Fields;
use super::place::Place;
use crate::decide::moving::gate::{Course, GateMarker};
use crate::error::{Error, ErrorKind, Result};
use crate::shown::shown;

/// Which way it goes.
const MOVING: &str = "moving";
const LEAVES: &str = "leaves";
const ARRIVES: &str = "arrives";
/// The other side.
const URL: &str = "url";
/// The name of the move.
const MOVE: &str = "move";

/// Reads the marker. What a later version wrote here keeps every client of this one out, since it
/// cannot know whom it lets in.
pub(super) fn read(fields: &Fields, place: &Place) -> Result<Option<GateMarker>> {
    let Some(moving) = fields.get(MOVING) else { return Ok(None) };
    let course = match moving {
        LEAVES => Course::Leaves,
        ARRIVES => Course::Arrives,
        other => {
            let why = format!(
                "namespace {:?} is marked as {:?}, which this build cannot read: use a newer build",
                place.namespace,
                shown(other, 100)
            );
            return Err(Error::new(ErrorKind::Misconfigured, why));
        }
    };
    let url = fields.get(URL).unwrap_or_default().to_owned();
    Ok(Some(GateMarker { course, name: fields.get(MOVE).map(str::to_owned), url }))
}

/// Writes the marker, or takes it out.
pub(super) fn set(fields: &mut Fields, marker: Option<&GateMarker>) {
    let course = marker.map(|marker| match marker.course {
        Course::Leaves => LEAVES,
        Course::Arrives => ARRIVES,
    });
    fields.set(MOVING, course.map(str::to_owned));
    fields.set(URL, marker.map(|marker| marker.url.clone()));
    fields.set(MOVE, marker.and_then(|marker| marker.name.clone()));
}

/// The error of a client that has no place in a namespace that moves.
pub(super) fn refusal(marker: &GateMarker, place: &Place) -> Error {
    let (namespace, url) = (&place.namespace, shown(&marker.url, 1024));
    let name = marker.name.as_deref().map(|name| format!(" (the move {:?})", shown(name, 255)));
    let name = name.unwrap_or_default();
    let why = match marker.course {
        Course::Leaves => {
            format!(
                "namespace {namespace:?} has moved from this server, or moves now{name}: connect to {url:?}"
            )
        }
        Course::Arrives => {
            format!("namespace {namespace:?} is not in use on this server yet{name}: connect to {url:?}")
        }
    };
    Error::new(ErrorKind::Misconfigured, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Namespace;

    #[test]
    fn a_marker_is_read_as_it_was_written_and_leaves_the_rest() {
        let place = Place::of(&Namespace::new("n")).expect("a good namespace");
        for (course, name) in [(Course::Leaves, None), (Course::Arrives, Some("to etcd & back".to_owned()))] {
            let marker = GateMarker { course, name, url: "redis://h/2?ttl=5s&namespace=n".to_owned() };
            let mut fields = Fields::read(b"layout=1&later=x");
            set(&mut fields, Some(&marker));
            let mut fields = Fields::read(fields.text().as_bytes());
            assert_eq!(read(&fields, &place).expect("readable"), Some(marker));
            set(&mut fields, None);
            assert_eq!(fields.text(), "layout=1&later=x");
            assert_eq!(read(&fields, &place).expect("readable"), None);
        }
    }

    #[test]
    fn what_a_later_version_wrote_keeps_this_one_out() {
        let place = Place::of(&Namespace::new("n")).expect("a good namespace");
        let error = read(&Fields::read(b"layout=1&moving=sideways"), &place).expect_err("unknown");
        assert_eq!(*error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().contains("\"sideways\""), "{error}");
    }
}
