use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use latchwork_core::Claim;
use latchwork_core::backend::QueueEntry;
use serde::{Deserialize, Serialize};

/// For listings, never for admission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeData {
    pub(crate) claim: Claim,
    pub(crate) label: Arc<str>,
    /// Milliseconds since 1970 on the client's clock.
    pub(crate) joined: u64,
    /// CHAIN-PERMITS-HEAD-AND-MARKS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) marked: bool,
}

/// Where a node has its data (NODE-DATA).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataPlace {
    InValue,
    /// The data are the whole value, as with Go's `concurrency.Election`.
    Alone,
    /// At [`beside`](super::beside), because the number of writes of the node's key shows a downgrade or
    /// mark.
    Beside,
}

#[derive(Serialize, Deserialize)]
struct WithData<N> {
    #[serde(flatten)]
    node: N,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Bytes>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Bytes {
    Text(String),
    Numbers(Vec<u8>),
}

impl Bytes {
    fn new(bytes: &[u8]) -> Option<Self> {
        match std::str::from_utf8(bytes) {
            Ok("") => None,
            Ok(text) => Some(Self::Text(text.to_owned())),
            Err(_) => Some(Self::Numbers(bytes.to_vec())),
        }
    }
}

impl From<Bytes> for Arc<[u8]> {
    fn from(bytes: Bytes) -> Self {
        match bytes {
            Bytes::Text(text) => text.into_bytes().into(),
            Bytes::Numbers(bytes) => bytes.into(),
        }
    }
}

impl DataPlace {
    pub(crate) fn value(self, node: &NodeData, data: &[u8]) -> Vec<u8> {
        match self {
            Self::InValue => node.encode(data),
            Self::Alone => data.to_vec(),
            Self::Beside => node.encode(b""),
        }
    }

    /// If the data are the whole value, they are also the label.
    pub(crate) fn read(self, key: &[u8], value: &[u8]) -> (NodeData, Arc<[u8]>) {
        match self {
            Self::InValue | Self::Beside => NodeData::read(key, value),
            Self::Alone => (NodeData::foreign(value), value.into()),
        }
    }
}

impl NodeData {
    pub(crate) fn new(claim: Claim, label: Arc<str>) -> Self {
        Self { claim, label, joined: wall_clock(), marked: false }
    }

    pub(crate) fn is_of_permits(&self) -> bool {
        matches!(self.claim, Claim::Permits(_))
    }

    pub(crate) fn encode(&self, data: &[u8]) -> Vec<u8> {
        let value = WithData { node: self, data: Bytes::new(data) };
        serde_json::to_vec(&value).expect("numbers and strings are always JSON")
    }

    fn read(key: &[u8], value: &[u8]) -> (Self, Arc<[u8]>) {
        match serde_json::from_slice::<WithData<Self>>(value) {
            Ok(WithData { node, data }) => {
                let label = QueueEntry::label_of(node.label.as_bytes()).into();
                (Self { label, ..node }, data.map(Into::into).unwrap_or_default())
            }
            Err(_) => (Self::foreign(key), Arc::default()),
        }
    }

    fn foreign(label: &[u8]) -> Self {
        Self { claim: Claim::Exclusive, label: QueueEntry::label_of(label).into(), joined: 0, marked: false }
    }

    pub(crate) fn age(&self) -> Option<Duration> {
        (self.joined > 0).then(|| Duration::from_millis(wall_clock().saturating_sub(self.joined)))
    }
}

fn wall_clock() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_reads_back_and_a_foreign_one_is_exclusive() {
        let value = NodeData::new(Claim::Permits(3), "me".into());
        for data in [&b""[..], b"text", "\u{0}\"ä☃".as_bytes(), b"\xff\x00", &[b'x'; 4096]] {
            assert_eq!(NodeData::read(b"k", &value.encode(data)), (value.clone(), data.into()));
            let (shown, read) = DataPlace::Alone.read(b"k", &DataPlace::Alone.value(&value, data));
            assert_eq!((&*shown.label, &*read), (&*QueueEntry::label_of(data), data));
            let beside = DataPlace::Beside.value(&value, data);
            assert_eq!(DataPlace::Beside.read(b"k", &beside), (value.clone(), Arc::default()));
        }
        let (foreign, data) = NodeData::read(b"a/1f", b"");
        assert_eq!((foreign.claim, &*foreign.label, foreign.age()), (Claim::Exclusive, "a/1f", None));
        assert!(data.is_empty());
    }

    #[test]
    fn value_without_data_keeps_its_previous_layout() {
        for (marked, end) in [(false, ""), (true, r#","marked":true"#)] {
            let value = NodeData { claim: Claim::Permits(3), label: "me".into(), joined: 7, marked };
            let written = format!(r#"{{"claim":{{"permits":3}},"label":"me","joined":7{end}}}"#);
            assert_eq!(String::from_utf8(value.encode(b"")).unwrap(), written);
            assert_eq!(value.encode(b""), serde_json::to_vec(&value).unwrap());
            let with_data = value.encode(b"proposal");
            assert_eq!(
                serde_json::from_slice::<NodeData>(&with_data).unwrap(),
                value,
                "read by an old client"
            );
        }
    }
}
