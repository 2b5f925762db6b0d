//! The gate of a namespace: the clients that may be connected during and after a move.
//!
//! *The invariant.* From the first step on, each client of either namespace takes part: a plain client would
//! hold on one side alone. So both markers are written before the clients are listed, and each client
//! registers before it reads the marker (MIGRATE-GATE).

use std::fmt;

use crate::shown::shown;

/// The direction of a move, for one namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Course {
    /// The content moves or has moved to another namespace.
    Leaves,
    /// The content comes from another namespace.
    Arrives,
}

/// The marker of a namespace that moves or is retired.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GateMarker {
    /// The direction of the move.
    pub course: Course,
    /// The name of the move, whose participants are admitted; `None` if the namespace is retired.
    pub name: Option<String>,
    /// The URL of the other side.
    pub url: String,
}

/// The role of a client in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Who<'a> {
    /// It uses this namespace alone.
    Plain,
    /// It takes part in the move of this name.
    Participant(&'a str),
    /// It operates moves and namespaces, and holds nothing.
    Operator,
}

impl<'a> Who<'a> {
    /// Returns the role by the fields of a record.
    pub fn of(operator: bool, participates: Option<&'a str>) -> Self {
        match participates {
            _ if operator => Who::Operator,
            Some(name) => Who::Participant(name),
            None => Who::Plain,
        }
    }
}

/// Describes the marker, such as `it has moved or is moving (the move "m"): clients are sent to
/// "redis://new"`. Names are escaped for terminals.
impl fmt::Display for GateMarker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.course, &self.name) {
            (Course::Leaves, None) => "it is retired",
            (Course::Leaves, Some(_)) => "it has moved or is moving",
            (Course::Arrives, _) => "it is not in use yet",
        })?;
        if let Some(name) = &self.name {
            write!(f, " (the move {:?})", shown(name, 255))?;
        }
        write!(f, ": clients are sent to {:?}", shown(&self.url, 1024))
    }
}

impl GateMarker {
    /// Returns whether a namespace with this marker, or none, admits the client.
    pub fn admits(marker: Option<&Self>, who: Who<'_>) -> bool {
        match (marker, who) {
            (None, _) | (_, Who::Operator) => true,
            (Some(marker), Who::Participant(name)) => marker.name.as_deref() == Some(name),
            (Some(_), Who::Plain) => false,
        }
    }

    /// Returns whether this marker may be written over the one that was read. It is also written over itself,
    /// so that an earlier decision to remove it finds another version (MIGRATE-GATE-ANEW).
    pub fn may_follow(&self, read: Option<&Self>) -> bool {
        read.is_none_or(|read| read == self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker(course: Course, name: &str) -> GateMarker {
        GateMarker { course, name: Some(name.to_owned()), url: "memory://there".to_owned() }
    }

    #[test]
    fn a_plain_client_is_refused_by_either_marker_and_a_participant_by_another_moves() {
        for course in [Course::Leaves, Course::Arrives] {
            let marker = marker(course, "m");
            for (who, expected) in [
                (Who::Plain, false),
                (Who::Participant("m"), true),
                (Who::Participant("n"), false),
                (Who::Operator, true),
            ] {
                assert_eq!(GateMarker::admits(Some(&marker), who), expected, "{who:?} at {marker:?}");
                assert!(GateMarker::admits(None, who), "{who:?}");
            }
            let nobodys = GateMarker { name: None, ..marker };
            assert!(!GateMarker::admits(Some(&nobodys), Who::Participant("m")));
            assert!(GateMarker::admits(Some(&nobodys), Who::Operator));
        }
    }

    #[test]
    fn gate_marker_message_escapes_its_url() {
        let said = |course, name: Option<&str>| {
            let url = "redis://new/\u{1b}".to_owned();
            GateMarker { course, name: name.map(str::to_owned), url }.to_string()
        };
        let sent = r#"clients are sent to "redis://new/\\u{1b}""#;
        for (course, name, words) in [
            (Course::Leaves, None, "it is retired: "),
            (Course::Leaves, Some("m"), r#"it has moved or is moving (the move "m"): "#),
            (Course::Arrives, Some("m"), r#"it is not in use yet (the move "m"): "#),
        ] {
            assert_eq!(said(course, name), format!("{words}{sent}"));
        }
    }

    #[test]
    fn a_marker_is_written_over_none_and_itself_and_over_no_other() {
        let own = marker(Course::Leaves, "m");
        assert!(own.may_follow(None) && own.may_follow(Some(&own.clone())));
        assert!(!own.may_follow(Some(&marker(Course::Leaves, "n"))));
        assert!(!own.may_follow(Some(&marker(Course::Arrives, "m"))));
    }
}
