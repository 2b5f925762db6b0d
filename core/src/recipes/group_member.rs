//! A member of a group, as others see it.

use std::sync::Arc;

/// A member, as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// Its number: members that join later have higher ones, and none comes twice.
    pub number: u64,
    /// The label of its client, or of the owner that joined.
    pub label: String,
    /// What it says of itself.
    pub data: Arc<[u8]>,
}
