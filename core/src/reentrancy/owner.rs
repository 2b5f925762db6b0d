use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An owner of reentrant holds: an explicit value, never a thread or a task (REENTRY-OWNER).
///
/// A call names its owner by [`Acquire::by`](crate::recipes::Acquire::by). An owner exists in one process;
/// listings show its label. Clones are the same owner: pass one to nested calls, or keep it in a
/// `tokio::task_local!`.
#[derive(Clone)]
pub struct Owner {
    id: u64,
    label: Arc<str>,
}

static LAST: AtomicU64 = AtomicU64::new(0);

impl Owner {
    /// Makes a new owner, which differs from all others, also with the same label.
    ///
    /// Acquisitions fail with `InvalidArgument` if the label is empty, is longer than 4 KiB, or contains a
    /// control character or a character that changes the text direction.
    pub fn new(label: impl Into<Arc<str>>) -> Self {
        Self { id: LAST.fetch_add(1, Ordering::Relaxed) + 1, label: label.into() }
    }

    /// Returns the label.
    pub fn label(&self) -> &str {
        &self.label
    }

    pub(crate) fn shared_label(&self) -> &Arc<str> {
        &self.label
    }
}

impl PartialEq for Owner {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Owner {}

impl std::hash::Hash for Owner {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({}, {:?})", self.id, self.label)
    }
}
