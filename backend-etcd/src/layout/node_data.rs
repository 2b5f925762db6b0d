//! The value of a node.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use latchwork_core::contracts::Entry;
use latchwork_core::decide::Claim;
use serde::{Deserialize, Serialize};

/// The value of a node: for listings, never for admission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeData {
    pub(crate) claim: Claim,
    pub(crate) label: Arc<str>,
    /// Milliseconds since 1970 on the client's wall clock: for display only.
    pub(crate) joined: u64,
    /// The node is admitted and has a successor (permits,  CHAIN-PERMITS-HEAD-AND-MARKS).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) marked: bool,
}

impl NodeData {
    pub(crate) fn new(claim: Claim, label: Arc<str>) -> Self {
        Self { claim, label, joined: wall_clock(), marked: false }
    }

    pub(crate) fn is_of_permits(&self) -> bool {
        matches!(self.claim, Claim::Permits(_))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and strings are always JSON")
    }

    /// Reads the value of a key. A key that is no node of ours, as an `etcdctl lock` with its empty
    /// value, has its key as label.
    pub(crate) fn read(key: &[u8], value: &[u8]) -> Self {
        let written = serde_json::from_slice(value).unwrap_or_else(|_| Self {
            claim: Claim::Exclusive,
            label: String::from_utf8_lossy(key).into(),
            joined: 0,
            marked: false,
        });
        Self { label: Entry::label_of(written.label.as_bytes()).into(), ..written }
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
        assert_eq!(NodeData::read(b"k", &value.encode()), value);
        let foreign = NodeData::read(b"a/1f", b"");
        assert_eq!((foreign.claim, &*foreign.label, foreign.age()), (Claim::Exclusive, "a/1f", None));
    }
}
