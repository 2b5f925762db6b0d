//! An owner: the explicit identity of a holder.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An owner of reentrant holds (REENTRY-OWNER): an explicit identity, never a thread or a task. It
/// lives in one process; its label is what listings on the server show. Clones are the same owner.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use latchwork_core::Owner;
/// let owner = Owner::new("invoice-run");
/// let seen = owner.scope(async { Owner::current() }).await;
/// assert_eq!(seen, Some(owner));
/// assert_eq!(Owner::current(), None);
/// # });
/// ```
#[derive(Clone)]
pub struct Owner {
    id: u64,
    label: Arc<str>,
}

static LAST: AtomicU64 = AtomicU64::new(0);

tokio::task_local! {
    static CURRENT: Owner;
}

impl Owner {
    /// A new owner. Two owners with one label are two owners. The label is validated when the owner
    /// acquires: an empty one, one over 4 KiB, and one with a control character or a character that
    /// changes the direction of the text around it answer `InvalidArgument`.
    pub fn new(label: impl Into<Arc<str>>) -> Self {
        Self { id: LAST.fetch_add(1, Ordering::Relaxed) + 1, label: label.into() }
    }

    /// Runs `work` with this owner as the current one. Only a
    /// [`ReentrantMutex`](crate::recipes::ReentrantMutex) reads it; for every other recipe the call
    /// names the owner (`read_as`, `acquire_as`), and a call without one excludes everyone. Tasks
    /// that `work` spawns do not inherit it.
    ///
    /// # Cancel safety
    /// As that of `work`.
    pub async fn scope<F: Future>(&self, work: F) -> F::Output {
        CURRENT.scope(self.clone(), work).await
    }

    /// As [`scope`](Self::scope), for code without a runtime: the blocking calls in `work` that this
    /// thread makes have this owner.
    ///
    /// ```
    /// use latchwork_core::Owner;
    /// let owner = Owner::new("invoice-run");
    /// assert_eq!(owner.sync_scope(Owner::current), Some(owner));
    /// ```
    pub fn sync_scope<T>(&self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self.clone(), work)
    }

    /// The owner whose scope the current task is in.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Clone::clone).ok()
    }

    /// The label.
    pub fn label(&self) -> &Arc<str> {
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
