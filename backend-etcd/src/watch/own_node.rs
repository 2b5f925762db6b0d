use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use latchwork_core::backend::NodeWriter;
use tokio_util::sync::CancellationToken;

use crate::driver::{Compare, Found};

#[derive(Debug)]
pub(crate) struct OwnNode {
    pub(crate) key: Arc<[u8]>,
    pub(crate) state: NodeWriter,
    pub(crate) left: Option<CancellationToken>,
}

impl OwnNode {
    /// Ends with a slash.
    pub(crate) fn queue(&self) -> &str {
        queue_of(std::str::from_utf8(&self.key).unwrap_or_default()).unwrap_or_default()
    }

    pub(crate) fn is_in(&self, read: &Found) -> bool {
        read.keys.first().is_some_and(|stored| stored.created == self.state.sequence())
    }

    /// Excludes a later node with the same name.
    pub(crate) fn exists(&self) -> Compare {
        Compare::Created(self.key.to_vec(), self.state.sequence())
    }
}

pub(super) fn queue_of(name: &str) -> Option<&str> {
    name.rfind('/').map(|slash| &name[..=slash])
}

pub(super) struct ByKey(pub(super) Arc<OwnNode>);

impl Borrow<[u8]> for ByKey {
    fn borrow(&self) -> &[u8] {
        &self.0.key
    }
}

impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for ByKey {}

impl Hash for ByKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key.hash(state);
    }
}
