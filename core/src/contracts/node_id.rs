use std::fmt;

use serde::{Serialize, Serializer};
use uuid::Uuid;

/// The id of one attempt to join a queue, also of all its retries (NODE-IDEMPOTENT, QUEUE-ID-PER-ATTEMPT,
/// CHAIN-FRESH-NAME).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(Uuid);

impl NodeId {
    /// Creates a random id.
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// Creates an id from bytes: for models, and for a backend that reads its names back.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// Parses 32 hexadecimal digits, or a UUID with dashes.
    pub fn parse(text: &str) -> Option<Self> {
        Uuid::try_parse(text).ok().map(Self)
    }

    pub(crate) fn as_u64(&self) -> u64 {
        self.0.as_u64_pair().1
    }

    /// Returns the id as a UUID, lower case with dashes (Curator's names).
    pub fn hyphenated(&self) -> String {
        self.0.hyphenated().to_string()
    }
}

/// 32 lower-case hexadecimal digits.
impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.simple().fmt(f)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.simple().fmt(f)
    }
}

impl Serialize for NodeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
