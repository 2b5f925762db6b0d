use std::sync::Arc;

/// A member of a [`Group`](super::Group), as other clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// The member's place in the queue. Later members have higher numbers; no number is used twice.
    pub sequence: u64,
    /// The label of the member's client.
    pub label: String,
    /// The member's data.
    pub data: Arc<[u8]>,
}
