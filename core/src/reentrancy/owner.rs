//! An owner: the explicit identity of a holder.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An owner of reentrant holds (REENTRY-OWNER): an explicit identity, never a thread or a task. A
/// call names it by [`Acquire::by`](crate::recipes::Acquire::by). It lives in one process; its label is
/// what listings on the server show. Clones are the same owner.
///
/// To hand an owner down a chain of calls, pass a clone of it, or keep it in a `tokio::task_local!` of
/// yours.
#[derive(Clone)]
pub struct Owner {
    id: u64,
    label: Arc<str>,
}

static LAST: AtomicU64 = AtomicU64::new(0);

impl Owner {
    /// A new owner. Two owners with one label are two owners. The label is validated when the owner
    /// acquires: an empty one, one over 4 KiB, and one with a control character or a character that
    /// changes the direction of the text around it answer `InvalidArgument`.
    pub fn new(label: impl Into<Arc<str>>) -> Self {
        Self { id: LAST.fetch_add(1, Ordering::Relaxed) + 1, label: label.into() }
    }

    /// The label.
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
