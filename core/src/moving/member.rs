use std::sync::Arc;

use crate::contracts::QueueEntry;
use crate::decide::moving::evidence::{Contradiction, MoveId};
use crate::decide::moving::obstacles::MemberSays;
use crate::label::host;
use crate::registry::{Fields, OWN_VERSION};
use crate::shown::shown;

const ACKNOWLEDGED: &str = "acknowledged";
/// The version that a stopped member knows, and its contradiction.
const KNOWS: &str = "knows";
const STOPPED: &str = "stopped";
const CLIENT: &str = "client";
const MOVE_ID: &str = "id";
const HOST: &str = "host";
const VERSION: &str = "version";

/// A member, as other clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberRecord {
    pub(crate) number: u64,
    pub(crate) label: String,
    pub(crate) host: String,
    /// The number of the client, the same in all its records.
    pub(crate) client: String,
    pub(crate) id: Option<MoveId>,
    /// The version that it has acknowledged (MIGRATE-ACK-NAMES-VERSION), or why it has stopped.
    pub(crate) says: MemberSays,
}

impl MemberRecord {
    /// Its report about this move. Versions of another identity do not count: a server that went back may
    /// repeat them.
    pub(crate) fn says_of(&self, id: Option<MoveId>) -> MemberSays {
        match self.id == id {
            true => self.says,
            false => MemberSays { acknowledged: None, knows: None, ..self.says },
        }
    }

    pub(crate) fn own(client: &str, id: Option<MoveId>, says: MemberSays) -> Arc<[u8]> {
        let fields = Fields::default().with(HOST, host()).with(VERSION, OWN_VERSION);
        let mut fields = fields.with(CLIENT, client);
        fields.set(MOVE_ID, id.map(|id| id.to_string()));
        fields.set(ACKNOWLEDGED, says.acknowledged.map(|version| version.to_string()));
        fields.set(KNOWS, says.knows.map(|version| version.to_string()));
        fields.set(STOPPED, says.stopped.map(|found| found.as_str().to_owned()));
        fields.text().into_bytes().into()
    }
}

impl From<QueueEntry> for MemberRecord {
    fn from(entry: QueueEntry) -> Self {
        let fields = Fields::read(&entry.data);
        let host = shown(fields.get(HOST).unwrap_or_default(), 255).into_owned();
        let client = fields.get(CLIENT).unwrap_or_default().to_owned();
        let number = |name| fields.get(name).and_then(|version| version.parse().ok());
        let (acknowledged, knows) = (number(ACKNOWLEDGED), number(KNOWS));
        let stopped = fields.get(STOPPED).and_then(Contradiction::parse);
        let says = MemberSays { acknowledged, knows, stopped };
        let id = fields.get(MOVE_ID).and_then(MoveId::parse);
        Self { number: entry.sequence, label: entry.label, host, client, id, says }
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
    fn a_member_says_which_version_it_has_acknowledged_or_why_it_has_stopped() {
        let stopped = Some(Contradiction::StageWentBack);
        for says in [
            MemberSays::default(),
            MemberSays { acknowledged: Some(9), ..MemberSays::default() },
            MemberSays { acknowledged: Some(9), knows: Some(10), stopped },
        ] {
            let id = Some(MoveId::new(5));
            let record = read(&MemberRecord::own("7", id, says));
            assert_eq!((record.number, &*record.label, &*record.client), (7, "l", "7"));
            assert_eq!((record.says_of(id), &*record.host), (says, &*host()));
            assert_eq!(record.says_of(None), MemberSays { stopped: says.stopped, ..MemberSays::default() });
        }
        assert_eq!(read(b"acknowledged=all").says, MemberSays::default());
    }
}
