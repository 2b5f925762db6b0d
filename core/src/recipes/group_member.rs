//! A member of a group, as others see it.

use std::sync::Arc;

/// A member, as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// Its place in the queue: members that join later have higher ones, and none comes twice.
    pub sequence: u64,
    /// The label of its client.
    pub label: String,
    /// What it says of itself.
    pub data: Arc<[u8]>,
}
