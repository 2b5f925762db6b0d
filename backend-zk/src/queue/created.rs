//! A node that a join has created, before its position is known.

use super::limit::LimitReply;
use super::session::Session;
use crate::driver::{Armed, Connection, Stat};
use crate::error::{Answer, Fault, Unanswered};

/// A new node, and the part of the queue that was seen after its creation.
pub(crate) struct CreatedNode {
    pub(crate) path: String,
    pub(crate) stat: Stat,
    pub(crate) shown: Shown,
    pub(crate) limit: LimitReply,
}

/// The nodes ahead of a new node.
pub(crate) enum Shown {
    Nobody,
    /// The children of the queue's directory.
    Queue(Vec<String>),
    Behind(KnownPredecessor),
}

/// The immediate predecessor, known without a listing, and watched.
pub(crate) struct KnownPredecessor {
    pub(crate) path: String,
    pub(crate) watched: Armed,
    /// The connection before the watch was armed. `None`: the watch is on a watch session.
    pub(crate) connection: Option<Connection>,
}

/// Returns the answer that followed the creation of this path. A definite refusal undoes the
/// creation: for example, a client without the right to list must leave no node.
pub(crate) async fn or_undone(session: &Session, path: &str, shown: Answer<Shown>) -> Answer<Shown> {
    match shown {
        // The node exists, but the listing failed. This counts as an unknown outcome: a repeated
        // join finds the node again.
        Err(fault) if fault.is_transient() => Err(Fault::Unknown(Unanswered::default())),
        Err(fault) => {
            session.driver.delete(path).await.map_err(|_| {
                session.unsettled.doom(path);
                Fault::Unknown(Unanswered::default())
            })?;
            Err(fault)
        }
        shown => shown,
    }
}
