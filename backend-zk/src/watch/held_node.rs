//! What the holder watch needs of a node.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::driver::Driver;

/// A node of ours that was admitted.
pub(crate) trait HeldNode: Send + Sync {
    /// The session it hangs on.
    fn driver(&self) -> &Driver;

    /// Its path, as it was made.
    fn path(&self) -> &str;

    /// All paths that it may have now, in the order in which they are to be asked: once a writer is
    /// gone, no reader is made of it any more.
    fn paths(&self) -> Vec<String>;

    /// Whether it may have left its first path by its own downgrade.
    fn may_be_downgraded(&self) -> bool;

    /// The node of the stored limit, for permits.
    fn limit_path(&self) -> Option<&str>;

    /// Whether it is about to leave: its deletion is nobody else's act then.
    fn is_leaving(&self) -> bool;

    /// It was seen to be gone from the server (NODE-GONE).
    fn removed(&self);

    /// Marks it as admitted, for those behind it, until that is confirmed. The work does not keep
    /// it alive.
    fn mark_admitted(self: Arc<Self>) -> BoxFuture<'static, ()>;

    /// Checks in its queue an admission that no listing has confirmed. The work does not keep it
    /// alive.
    fn verify_admission(self: Arc<Self>) -> BoxFuture<'static, ()>;
}
