//! A client that a step waits for.

use serde::Serialize;

use super::super::member::MemberRecord;
use super::super::staged::Staged;

/// A member that has not acknowledged the current phase yet.
///
/// Texts of other clients are escaped for terminals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MoveLate {
    /// The number of its node on the old side; 0 if it is not a member.
    pub number: u64,
    /// Its label.
    pub label: String,
    /// The name of its host; empty if not reported.
    pub host: String,
    /// Whether it has acknowledged an earlier phase.
    pub knows_the_move: bool,
    /// What it lacks to take part on both sides.
    pub lacks: Option<&'static str>,
}

pub(super) fn late(member: &MemberRecord) -> MoveLate {
    MoveLate {
        number: member.number,
        label: member.label.clone(),
        host: member.host.clone(),
        knows_the_move: member.says.acknowledged.is_some(),
        lacks: None,
    }
}

pub(super) fn is_late(member: &MemberRecord, staged: &Staged) -> bool {
    member.says_of(Some(staged.id)).acknowledged != Some(staged.version.number())
}
