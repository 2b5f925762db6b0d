use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::fields::Fields;
use crate::contracts::{MAX_LABEL_BYTES, NodeId, QueueEntry};
use crate::decide::moving::gate::Who;
use crate::label::host;
use crate::shown::shown;

const HOST: &str = "host";
const VERSION: &str = "version";
const LAYOUT: &str = "layout";
/// The move that the client takes part in.
const MOVE: &str = "move";
/// The number of the client, the same in both of its records in a move.
const CLIENT: &str = "client";
const ROLE: &str = "role";
/// A random id. It shows whether two URLs reach one server.
const ID: &str = "id";
const OPERATOR: &str = "operator";

pub(crate) const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// A connected client, as other clients see it.
///
/// Texts of other clients are escaped for terminals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ClientRecord {
    /// Its number in the order of registration. Later clients have higher numbers.
    pub sequence: u64,
    /// Its [label](crate::Config::label).
    pub label: String,
    /// The name of its host; empty if not reported.
    pub host: String,
    /// Its version of Latchwork; empty if not reported.
    pub version: String,
    /// The highest layout that the client works with, if it reports one.
    pub layout: Option<u32>,
    /// The time since its registration, if the server shows it (for display only).
    pub age: Option<Duration>,
    /// Other fields, such as fields of a later version.
    pub others: BTreeMap<String, String>,
    #[serde(skip)]
    id: String,
}

impl ClientRecord {
    /// The data of this client's node. `client`: the number of a participant.
    pub(super) fn own(layout: u32, who: Who<'_>, client: &str) -> Arc<[u8]> {
        let fields = Fields::default().with(HOST, host()).with(VERSION, OWN_VERSION).with(LAYOUT, layout);
        let fields = fields.with(ID, NodeId::random());
        let fields = match who {
            Who::Plain => fields,
            Who::Participant(name) => fields.with(MOVE, name).with(CLIENT, client),
            Who::Operator => fields.with(ROLE, OPERATOR),
        };
        fields.text().into_bytes().into()
    }

    /// The role of the client: plain if it reports none.
    pub(crate) fn who(&self) -> Who<'_> {
        let operator = self.others.get(ROLE).is_some_and(|role| role == OPERATOR);
        Who::of(operator, self.others.get(MOVE).map(String::as_str))
    }

    pub(crate) fn id(&self) -> Option<&str> {
        Some(&*self.id).filter(|id| !id.is_empty())
    }

    /// The number of a participant, the same in its records on both sides and in its member node.
    pub(crate) fn client(&self) -> Option<&str> {
        self.others.get(CLIENT).map(String::as_str)
    }
}

impl From<QueueEntry> for ClientRecord {
    fn from(entry: QueueEntry) -> Self {
        let fields = Fields::read(&entry.data);
        let text = |text: &str| shown(text, MAX_LABEL_BYTES).into_owned();
        let field = |name| fields.get(name).map(text).unwrap_or_default();
        let (host, version, id) = (field(HOST), field(VERSION), field(ID));
        let layout = fields.get(LAYOUT).and_then(|layout| layout.parse().ok());
        let others = fields.into_others(&[HOST, VERSION, LAYOUT, ID]);
        let others = others.map(|(name, value)| (text(&name), text(&value))).collect();
        Self {
            sequence: entry.sequence,
            label: entry.label,
            host,
            version,
            layout,
            age: entry.age,
            others,
            id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::Claim;

    fn read(data: &[u8]) -> ClientRecord {
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
    fn a_record_says_host_version_and_layout() {
        let record = read(&ClientRecord::own(3, Who::Plain, ""));
        assert_eq!((record.sequence, record.label.as_str(), record.layout), (7, "l", Some(3)));
        assert_eq!((record.host.as_str(), record.version.as_str()), (&*host(), OWN_VERSION));
        assert!(record.others.is_empty() && record.id().is_some());
    }

    #[test]
    fn record_states_the_role_of_its_client() {
        for who in [Who::Plain, Who::Participant("to etcd"), Who::Operator] {
            assert_eq!(read(&ClientRecord::own(1, who, "7")).who(), who);
        }
        let takes_part = ClientRecord::own(1, Who::Participant("m"), "7");
        assert_eq!(read(&takes_part).client(), Some("7"));
        assert_eq!(read(b"role=reader").who(), Who::Plain);
    }

    #[test]
    fn record_of_a_later_version_or_foreign_program_is_shown() {
        let later = read(b"layout=9&host=h&moving=a+b&version=2.0%1b");
        assert_eq!((later.layout, later.host.as_str(), later.version.as_str()), (Some(9), "h", "2.0\\u{1b}"));
        assert_eq!(later.others.into_iter().collect::<Vec<_>>(), [("moving".to_owned(), "a b".to_owned())]);
        for foreign in [&b""[..], b"layout=new", b"\xff&&="] {
            assert_eq!(read(foreign).layout, None);
        }
    }
}
