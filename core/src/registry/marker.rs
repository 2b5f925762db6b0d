//! The marker of a namespace that moves: part of the stamp's cell.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::fields::Fields;
use super::place::Place;
use crate::config::Config;
use crate::decide::moving::gate::{Course, GateMarker};
use crate::error::{Error, ErrorKind, Result};
use crate::label::check_visible;
use crate::shown::shown;

const MOVING: &str = "moving";
const LEAVES: &str = "leaves";
const ARRIVES: &str = "arrives";
const URL: &str = "url";
const MOVE: &str = "move";

/// The longest URL of a marker. The other fields must fit into the cell too.
const MAX_URL_BYTES: usize = 1024;

/// Reads the marker. A marker of a later version excludes this version, which cannot know its rules.
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

pub(super) fn set(fields: &mut Fields, marker: Option<&GateMarker>) {
    let course = marker.map(|marker| match marker.course {
        Course::Leaves => LEAVES,
        Course::Arrives => ARRIVES,
    });
    fields.set(MOVING, course.map(str::to_owned));
    fields.set(URL, marker.map(|marker| marker.url.clone()));
    fields.set(MOVE, marker.and_then(|marker| marker.name.clone()));
}

pub(super) fn refusal(marker: &GateMarker, place: &Place) -> Error {
    let (namespace, url) = (&place.namespace, shown(&marker.url, 1024));
    let name = marker.name.as_deref().map(|name| in_url(&shown(name, 255)));
    let why = match (marker.course, name) {
        (Course::Leaves, None) => {
            format!("namespace {namespace:?} has moved from this server: connect to {url:?}")
        }
        (Course::Leaves, Some(name)) => format!(
            "namespace {namespace:?} moves from this server to {url:?}, or has moved: connect with both URLs, \
             moving:?from=<this one>&to={}&move={name}; once the move is done, connect to {url:?} alone",
            in_url(&url)
        ),
        (Course::Arrives, None) => {
            format!("namespace {namespace:?} is not in use on this server yet: connect to {url:?}")
        }
        (Course::Arrives, Some(name)) => format!(
            "namespace {namespace:?} is not in use on this server yet, and moves here from {url:?}: connect with both \
             URLs, moving:?from={}&to=<this one>&move={name}",
            in_url(&url)
        ),
    };
    Error::new(ErrorKind::Misconfigured, why)
}

/// Characters that have a meaning in a URL's query.
const IN_QUERY: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'&').add(b'+');

fn in_url(text: &str) -> String {
    utf8_percent_encode(text, IN_QUERY).to_string()
}

/// The error of an operator that finds another marker.
pub(crate) fn another(marker: Option<&GateMarker>, place: &Place) -> Error {
    let error = Error::new(
        ErrorKind::Conflict,
        "the namespace has another marker: it is in another move, or retired",
    );
    error.because_of(marker.map(|marker| refusal(marker, place)))
}

/// Checks a URL that each client of the namespace may read.
pub(crate) fn checked(to: &str) -> Result<&str> {
    let bad = |why: String| Error::invalid("to", why);
    if to.is_empty() || to.len() > MAX_URL_BYTES {
        return Err(bad(format!("has {} bytes, 1 to {MAX_URL_BYTES} are allowed", to.len())));
    }
    check_visible("to", to)?;
    let config =
        Config::from_url(to).map_err(|error| bad("is not a URL of a coordinator".into()).because(error))?;
    match config.password.is_some() || config.options.has_secret() {
        true => {
            Err(bad("contains a password, and every client of the namespace can read it: remove it".into()))
        }
        false => Ok(to),
    }
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
    fn unknown_marker_of_a_later_version_refuses_the_client() {
        let place = Place::of(&Namespace::new("n")).expect("a good namespace");
        let error = read(&Fields::read(b"layout=1&moving=sideways"), &place).expect_err("unknown");
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().contains("\"sideways\""), "{error}");
    }

    #[test]
    fn where_to_go_is_a_url_without_a_secret() {
        assert_eq!(checked("redis://cache:6380/2?namespace=billing").expect("a good URL").len(), 38);
        for (to, why) in [
            ("", "0 bytes"),
            ("redis://app:secret@cache", "a password"),
            ("redis-sentinel://a/service?sentinel_password=secret", "a password"),
            ("the new one", "not a URL"),
            ("redis://cache/\u{1b}", "control character"),
        ] {
            let error = checked(to).expect_err(to);
            assert_eq!(error.argument(), Some("to"), "{error}");
            assert!(error.to_string().contains(why), "{why:?} in {error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        assert!(checked(&format!("redis://{}", "h".repeat(MAX_URL_BYTES))).is_err());
    }
}
