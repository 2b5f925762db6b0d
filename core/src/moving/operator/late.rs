//! A client that a step waits for.

use serde::Serialize;

use super::super::member::MemberRecord;
use super::super::staged::Staged;

/// A member that has not acknowledged the current phase yet.
///
/// Any client may have written label and host, so characters that act on a terminal are escaped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MoveLate {
    /// The number of its node on the old side; 0 if it is not a member.
    pub number: u64,
    /// The label of the client.
    pub label: String,
    /// The name of its host; empty if the client does not report one.
    pub host: String,
    /// Whether the member has acknowledged an earlier phase.
    pub knows_the_move: bool,
    /// What keeps it from taking part on both sides, if anything does.
    pub lacks: Option<&'static str>,
}

/// A member, as a step waits for it.
pub(super) fn late(member: &MemberRecord) -> MoveLate {
    MoveLate {
        number: member.number,
        label: member.label.clone(),
        host: member.host.clone(),
        knows_the_move: member.says.acknowledged.is_some(),
        lacks: None,
    }
}

/// Whether a member has not acknowledged a stage yet.
pub(super) fn is_late(member: &MemberRecord, staged: &Staged) -> bool {
    member.says_of(Some(staged.id)).acknowledged != Some(staged.version.number())
}
