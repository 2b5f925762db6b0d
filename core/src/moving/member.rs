//! The record of a member of a move, in its node on the old side.

use std::sync::Arc;

use crate::contracts::{QueueEntry, Version};
use crate::label::host;
use crate::registry::{Fields, OWN_VERSION};
use crate::shown::shown;

const ACKNOWLEDGED: &str = "acknowledged";
const HOST: &str = "host";
const VERSION: &str = "version";

/// A member, as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberRecord {
    /// Its node's number.
    pub(crate) number: u64,
    /// Its label.
    pub(crate) label: String,
    /// Its host's name.
    pub(crate) host: String,
    /// The version of the stage's cell that it has acknowledged last (MIGRATE-ACK-NAMES-VERSION); `None`
    /// before its first.
    pub(crate) acknowledged: Option<u64>,
}

impl MemberRecord {
    /// The data of this client's node.
    pub(crate) fn own(acknowledged: Option<Version>) -> Arc<[u8]> {
        let mut fields = Fields::default().with(HOST, host()).with(VERSION, OWN_VERSION);
        fields.set(ACKNOWLEDGED, acknowledged.map(|version| version.number().to_string()));
        fields.text().into_bytes().into()
    }
}

impl From<QueueEntry> for MemberRecord {
    fn from(entry: QueueEntry) -> Self {
        let fields = Fields::read(&entry.data);
        let host = shown(fields.get(HOST).unwrap_or_default(), 255).into_owned();
        let acknowledged = fields.get(ACKNOWLEDGED).and_then(|version| version.parse().ok());
        Self { number: entry.sequence, label: entry.label, host, acknowledged }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::Claim;

    fn read(data: &[u8]) -> MemberRecord {
        let (label, claim) = ("l".to_owned(), Claim::Shared);
        QueueEntry {
            sequence: 7,
            claim,
            admitted: true,
            label,
            age: None,
            lease_left: None,
            data: data.into(),
        }
        .into()
    }

    #[test]
    fn a_member_says_which_version_it_has_acknowledged() {
        assert_eq!(read(&MemberRecord::own(None)).acknowledged, None);
        let record = read(&MemberRecord::own(Some(Version::new(9, 4))));
        assert_eq!((record.number, &*record.label, record.acknowledged), (7, "l", Some(9)));
        assert_eq!(record.host, *host());
        assert_eq!(read(b"acknowledged=all").acknowledged, None);
    }
}
