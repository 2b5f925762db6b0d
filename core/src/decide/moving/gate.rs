//! The gate of a namespace: the clients that may be connected while it moves, and afterwards.
//!
//! *The invariant.* From the first step of a move on, every client of either namespace takes part in it: a
//! plain client would hold on one side alone. So a marker is written on both namespaces before their clients
//! are listed, and each client reads it after it has registered (MIGRATE-GATE).

use std::fmt;

use crate::shown::shown;

/// The direction in which the content of a namespace moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Course {
    /// The content moves to another namespace, or has moved.
    Leaves,
    /// The content comes from another namespace.
    Arrives,
}

/// The marker of a namespace that moves or is retired.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GateMarker {
    /// The direction of the move.
    pub course: Course,
    /// The name of the move, whose participants are admitted; `None` if the namespace is retired and admits
    /// only operators.
    pub name: Option<String>,
    /// The URL of the other side.
    pub url: String,
}

/// The role of a client in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Who<'a> {
    /// The client uses this namespace alone.
    Plain,
    /// The client takes part in the move of this name.
    Participant(&'a str),
    /// The client operates moves and namespaces, and holds nothing.
    Operator,
}

impl<'a> Who<'a> {
    /// Returns the role of a client by its record.
    pub fn of(operator: bool, participates: Option<&'a str>) -> Self {
        match participates {
            _ if operator => Who::Operator,
            Some(name) => Who::Participant(name),
            None => Who::Plain,
        }
    }
}

/// Describes the marker in words, such as `it has moved or is moving (the move "m"): clients are sent to
/// "redis://new"`. Characters that act on a terminal are escaped.
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
    /// Returns whether a namespace with this marker, or without one, admits a client.
    pub fn admits(marker: Option<&Self>, who: Who<'_>) -> bool {
        match (marker, who) {
            (None, _) | (_, Who::Operator) => true,
            (Some(marker), Who::Participant(name)) => marker.name.as_deref() == Some(name),
            (Some(_), Who::Plain) => false,
        }
    }

    /// Returns whether this marker may be written over the marker that was read. It is written again also if
    /// it exists already: an earlier decision to remove it then finds another version (MIGRATE-GATE-ANEW).
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
